//! The accounts, looked at as a whole.

use core::fmt;

use crate::disk::SLOTS;
use crate::ranges::{RangeSet, Run};
use crate::space::Place;
use crate::store::{Headroom, ThinStore, owed};

/// What does not balance; always a bug of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unbalanced {
    /// Blocks are in use twice, the second time for this.
    Twice {
        /// What they are in use for.
        name: &'static str,
        /// The first of them.
        block: u64,
    },
    /// Blocks from this one on are in use for nothing and not free.
    Lost {
        /// The first of them.
        block: u64,
        /// How many.
        count: u64,
    },
    /// A count that is kept is not what counting gives.
    Count {
        /// Which one.
        name: &'static str,
        /// What is kept.
        kept: u64,
        /// What is there.
        counted: u64,
    },
    /// The free blocks do not suffice for what was promised and for the map.
    Overcommitted {
        /// Blocks that are free.
        free: u64,
    },
}

impl ThinStore {
    /// Looks whether every block of the device is accounted for, once, and
    /// whether promises can be kept. Costs a step for each extent; for tests and
    /// debug builds.
    ///
    /// A store that was opened from an image of somebody else's may be too full
    /// to be balanced; it can be read all the same.
    pub fn check(&self) -> Result<(), Unbalanced> {
        let mut used = RangeSet::new();
        let mut claim = |name, run: Run| {
            if used.meets(run) || run.end > self.blocks {
                let block = run.start;
                return Err(Unbalanced::Twice { name, block });
            }
            used.insert(run);
            Ok(())
        };
        let sets = [
            ("free", Some(&self.space.free)),
            ("pinned", Some(&self.space.pinned)),
            ("orphans", Some(&self.space.orphans)),
            ("map", Some(&self.map)),
            ("new map", self.doubt.as_ref().map(|doubt| &doubt.map)),
            ("old pinned", self.doubt.as_ref().map(|doubt| &doubt.pinned)),
        ];
        for (name, set) in sets {
            for run in set.into_iter().flat_map(RangeSet::iter) {
                claim(name, run)?;
            }
        }
        for slot in SLOTS {
            if let Some(run) = Run::at(slot >> self.block_size.shift(), 1) {
                claim("superblock", run)?;
            }
        }
        for (start, flight) in &self.space.flights {
            if let Some(run) = Run::at(*start, flight.len)
                && flight.place == Place::New
            {
                claim("in flight", run)?;
            }
        }
        for (_, extent) in self.files.values().flat_map(super::file::File::extents) {
            claim("data", extent.disk_run())?;
        }
        let all = Run {
            start: 0,
            end: self.blocks,
        };
        if let Some(lost) = used.outside(all).first() {
            return Err(Unbalanced::Lost {
                block: lost.start,
                count: lost.len(),
            });
        }
        self.check_counts()?;
        if !self.fits(Headroom::Used) {
            return Err(Unbalanced::Overcommitted {
                free: self.space.free.total(),
            });
        }
        Ok(())
    }

    fn check_counts(&self) -> Result<(), Unbalanced> {
        let all = Run {
            start: 0,
            end: u64::MAX,
        };
        let files = || self.files.values();
        let flights = self.space.flights.values();
        let counts = [
            (
                "extents",
                self.extents,
                files().map(super::file::File::extent_count).sum(),
            ),
            (
                "promised",
                self.space.promised,
                files().map(|file| file.promised.total()).sum(),
            ),
            (
                "owed",
                self.space.owed,
                files().map(|file| owed(file, &self.space, all)).sum(),
            ),
            (
                "flying",
                self.space.flying,
                flights.map(|flight| flight.len).sum(),
            ),
        ];
        for (name, kept, counted) in counts {
            if kept != counted {
                return Err(Unbalanced::Count {
                    name,
                    kept,
                    counted,
                });
            }
        }
        Ok(())
    }
}

impl fmt::Display for Unbalanced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Twice { name, block } => {
                write!(
                    f,
                    "{name}: block {block} is in use twice, or does not exist"
                )
            }
            Self::Lost { block, count } => {
                write!(f, "{count} blocks from block {block} on are lost")
            }
            Self::Count {
                name,
                kept,
                counted,
            } => write!(f, "{name}: {kept} are kept, {counted} are there"),
            Self::Overcommitted { free } => {
                write!(f, "{free} free blocks do not suffice for what was promised")
            }
        }
    }
}

impl core::error::Error for Unbalanced {}
