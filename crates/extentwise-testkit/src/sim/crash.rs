//! The power is cut behind every device call, and each image that this may leave
//! is opened.

use super::setup::{Backing, Setup, Trouble};
use super::store::{Flat, Store, Thin};
use super::world::{Check, Cuts, Flushes, World};
use super::{Choices, Tally};

/// Who carries effects out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// One that does what it is asked for.
    Right,
    /// One that answers flushes without doing them, and persists maps without
    /// their first flush: crashes must show that (C8).
    LeavesFlushesOut,
}

/// The sequence of a seed, with the power cut behind each device call. Every
/// image must open, its map must be sound, and each file hold what the last
/// successful sync promised or something newer: block by block in a thin store,
/// sector by sector in place.
///
/// # Errors
///
/// What does not hold, in words.
pub fn crash(seed: u64, backing: Backing, host: Host) -> Result<Tally, String> {
    let mut choices = Choices::Seed(seed);
    let setup = Setup::drawn(&mut choices, backing, Trouble::None);
    match backing {
        Backing::Flat => run::<Flat>(setup, &mut choices, host),
        Backing::Thin => run::<Thin>(setup, &mut choices, host),
    }
}

fn run<S: Store>(setup: Setup, choices: &mut Choices<'_>, host: Host) -> Result<Tally, String> {
    let mut world = World::<S>::new(setup, choices);
    if host == Host::LeavesFlushesOut {
        world.flushes = Flushes::LeftOut;
    }
    for disk in world.store.disks() {
        disk.inner().note_cuts();
    }
    super::to_the_end(&mut world)?;
    world.tally.sequences = 1;
    Ok(world.tally)
}

impl<S: Store> World<'_, '_, S> {
    /// Looks at what each cut noted since the last time may leave.
    pub(super) fn check_cuts(&mut self) -> Check {
        if self.cuts == Cuts::Kept {
            return Ok(());
        }
        for disk in 0..self.store.disks().len() {
            for cut in self.store.disks()[disk].inner().take_cuts() {
                self.tally.cuts += 1;
                let sampled = !cut.images.is_exact();
                let [durable, current] = cut.sizes;
                let sizes = if durable == current {
                    &cut.sizes[..1]
                } else {
                    &cut.sizes[..]
                };
                for crashed in cut.images {
                    for size in sizes {
                        self.tally.states += 1;
                        self.tally.sampled += u64::from(sampled);
                        let survivors = self.store.survivors(disk, crashed.image.clone(), *size);
                        let survivors = survivors.map_err(|fault| {
                            format!("a crash with {:?}: {fault}", crashed.fates)
                        })?;
                        for survivor in survivors {
                            let model = &self.files[survivor.file].model;
                            model
                                .check_survivor(survivor.size, &survivor.bytes)
                                .map_err(|fault| {
                                    let file = survivor.file;
                                    format!(
                                        "a crash with {:?}, file {file}: {fault}",
                                        crashed.fates
                                    )
                                })?;
                        }
                    }
                }
            }
        }
        Ok(())
    }
}
