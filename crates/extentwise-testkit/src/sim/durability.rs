//! What survives a crash, found out by crashing (C11).

use std::collections::BTreeSet;
use std::fmt::Write as _;

use extentwise_engine::{ErrorPolicy, FileOffset, FileRange, LenBytes, Stride, TicketState};

use super::model::LEN;
use super::setup::{Backing, Setup, Trouble};
use super::store::{Flat, Store, Thin};
use super::watch::Cut;
use super::world::{Check, Cuts, World};
use super::{Choices, store};

const BLOCK: u64 = 512;
const HEAD: &str = "\
# What survives a crash

This file is generated: `cargo xtask simulate --table` prints it, and `cargo xtask verify` compares.

A file of four blocks was synced. Then the call of the row was made, and the power was cut: at the
point of the column, with every combination of the device's unflushed writes kept and lost. *Old* is
what the file held before the call, *new* what it held after it. Blocks are those that the call
changes and that lie below the size that is left; the size is named where the call changes it.

";
const COLUMNS: &str = "\
| call | returned | written back, closed | while `sync` runs | `sync_range` succeeded | `sync` succeeded |
|---|---|---|---|---|---|
";
const TAIL: &str = "
`close` writes nothing: it is refused as long as data is dirty, and promises what was promised
before. `sync_range` promises the bytes of its range, and the size only as far as blocks that are
written reach. A block that is overwritten in place may be torn between sectors of the device; one
that goes to a new place is never torn. An error of `sync` promises nothing.
";

/// The calls that change a file.
const CALLS: [(&str, Call); 5] = [
    ("`write` over old bytes", Call::Write(0, 4)),
    ("`write` past the end", Call::Write(4, 6)),
    ("`resize` to less", Call::Resize(2)),
    ("`resize` to more", Call::Resize(6)),
    ("`punch`", Call::Punch(1, 3)),
];

/// A call, in blocks.
#[derive(Clone, Copy, Debug)]
enum Call {
    Write(u64, u64),
    Resize(u64),
    Punch(u64, u64),
}

/// Makes the cell of a call and a point.
type Cell = fn(Call, Point) -> Result<String, String>;

/// Where the power is cut.
#[derive(Clone, Copy, Debug)]
enum Point {
    Returned,
    WrittenBack,
    Syncing,
    RangeSynced,
    Synced,
}

/// The document, made anew by running every call to every point.
///
/// # Panics
///
/// Where a simulated call fails, on devices that do not.
#[must_use]
pub fn durability_table() -> String {
    let mut text = HEAD.to_owned();
    let stores: [(&str, Cell); 2] = [
        ("Files in place, each on a device of its own", cell::<Flat>),
        ("Files in a thin store", cell::<Thin>),
    ];
    for (name, cell) in stores {
        // Writing to a string does not fail.
        let _ = write!(text, "## {name}\n\n{COLUMNS}");
        for (call_name, call) in CALLS {
            let points = [
                Point::Returned,
                Point::WrittenBack,
                Point::Syncing,
                Point::RangeSynced,
                Point::Synced,
            ];
            let cells = points.map(|point| match cell(call, point) {
                Ok(cell) => cell,
                Err(fault) => panic!("{call_name}, {point:?}: {fault}"),
            });
            let _ = writeln!(text, "| {call_name} | {} |", cells.join(" | "));
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text + TAIL
}

/// Content and size of a file.
struct Content {
    bytes: Vec<u8>,
    size: u64,
}

fn cell<S: Store>(call: Call, point: Point) -> Result<String, String> {
    let mut choices = Choices::Seed(0);
    let mut world = World::<S>::new(setup(), &mut choices);
    let nth = world.open_new(0)?;
    world.write_blocks(nth, 0, 4)?;
    world.sync_by(nth, None)?;
    world.come_to_rest()?;
    let old = world.content();
    world.make(nth, call)?;
    let new = world.content();
    for disk in world.store.disks() {
        disk.inner().note_cuts();
    }
    world.cuts = Cuts::Kept;
    match point {
        Point::Returned => {}
        Point::WrittenBack => {
            world.engine.write_back_all();
            world.come_to_rest()?;
        }
        Point::Syncing => {
            world.sync_by(nth, None)?;
            world.come_to_rest()?;
            return Ok(outcome(&world, &old, &new, world.take_all_cuts()));
        }
        Point::RangeSynced => {
            let whole = FileRange::clamped(FileOffset::ZERO, FileOffset::new(LEN as u64));
            world.sync_by(nth, Some(whole))?;
            world.come_to_rest()?;
        }
        Point::Synced => {
            world.sync_by(nth, None)?;
            world.come_to_rest()?;
        }
    }
    world.take_all_cuts();
    for disk in world.store.disks() {
        disk.inner().note();
    }
    Ok(outcome(&world, &old, &new, world.take_all_cuts()))
}

fn setup() -> Setup {
    Setup {
        backing: Backing::Flat,
        trouble: Trouble::None,
        policy: ErrorPolicy::KeepDirty,
        block_bytes: BLOCK,
        folio_blocks: 1,
        cache_folios: 32,
        extent_blocks: 1,
        bio_blocks: 1,
        stride: Stride::Extent,
        free_blocks: 60,
        steps: 0,
    }
}

impl<S: Store> World<'_, '_, S> {
    fn make(&mut self, nth: usize, call: Call) -> Check {
        let id = self.handles[nth].id;
        let stamp = self.next_stamp();
        let model = &mut self.files[0].model;
        let refused = |refusal| format!("refused: {refusal}");
        match call {
            Call::Write(start, end) => self.write_blocks(nth, start, end)?,
            Call::Resize(blocks) => {
                let size = blocks * BLOCK;
                let resized = self.engine.resize(id, FileOffset::new(size));
                resized.map_err(refused)?;
                model.resize(stamp, size);
            }
            Call::Punch(start, end) => {
                let (start, end) = (start * BLOCK, end * BLOCK);
                let range = FileRange::clamped(FileOffset::new(start), FileOffset::new(end));
                self.engine.punch(id, range).map_err(refused)?;
                let (start, end) = Self::span(range);
                model.punch(stamp, start, end);
            }
        }
        self.drain()
    }

    /// Writes whole blocks, each different from what it held.
    fn write_blocks(&mut self, nth: usize, start: u64, end: u64) -> Check {
        for block in start..end {
            let at = FileOffset::new(block * BLOCK);
            let range = FileRange::clamped(at, FileOffset::new((block + 1) * BLOCK));
            let ticket = self.engine.prepare_write(self.handles[nth].id, range);
            let ticket = ticket.map_err(|refusal| format!("refused: {refusal}"))?;
            if self.engine.write_state(&ticket) != TicketState::Ready {
                return Err("a whole block waits".into());
            }
            let stamp = self.next_stamp();
            let fill = u8::try_from(stamp % 250 + 1).unwrap_or(1);
            if let Some((bytes, place)) = self.engine.write_target(&ticket) {
                bytes[place].fill(fill);
            }
            let committed = self.engine.commit_write(ticket, LenBytes::new(BLOCK));
            committed.map_err(|refusal| format!("refused: {refusal}"))?;
            let (start, end) = Self::span(range);
            self.files[0]
                .model
                .write(stamp, start, end - start, |_| fill);
        }
        self.drain()
    }

    fn content(&self) -> Content {
        let model = &self.files[0].model;
        Content {
            bytes: model.bytes().to_vec(),
            size: model.size(),
        }
    }

    fn take_all_cuts(&self) -> Vec<Cut> {
        self.store.disk_of(0).inner().take_cuts()
    }
}

/// What the crashes leave, in words.
fn outcome<S: Store>(
    world: &World<'_, '_, S>,
    old: &Content,
    new: &Content,
    cuts: Vec<Cut>,
) -> String {
    let (mut blocks, mut sizes) = (BTreeSet::new(), BTreeSet::new());
    let mut mixed = false;
    for cut in cuts {
        for crashed in cut.images {
            for size in cut.sizes {
                let survivors = world.store.survivors(0, crashed.image.clone(), size);
                let survivors = survivors.unwrap_or_default();
                let Some(found) = survivors.into_iter().find(|survivor| survivor.file == 0) else {
                    return "lost".into();
                };
                sizes.insert(word(found.size == old.size, found.size == new.size));
                let differing: BTreeSet<_> = differing(&found, old, new).into_iter().collect();
                mixed |= differing.len() > 1;
                blocks.extend(differing);
            }
        }
    }
    let of_sizes = match one(&sizes) {
        Some(which) => format!("size {which}"),
        None => "size old or new".into(),
    };
    let of_blocks = match one(&blocks) {
        Some(which) => which,
        None if mixed => "each block old or new",
        None => "all old or all new",
    };
    match (blocks.is_empty(), old.size == new.size) {
        (true, _) => of_sizes,
        (false, true) => of_blocks.into(),
        (false, false) => format!("{of_blocks}, {of_sizes}"),
    }
}

/// The only word of a set.
fn one(words: &BTreeSet<&'static str>) -> Option<&'static str> {
    words.first().copied().filter(|_| words.len() == 1)
}

/// For each block that the call changes, and that lies in the file that was
/// found, whether it is old or new.
fn differing(found: &store::Survivor, old: &Content, new: &Content) -> Vec<&'static str> {
    let size = usize::try_from(found.size).unwrap_or(LEN).min(LEN);
    let block = usize::try_from(BLOCK).unwrap_or(1);
    let places = (0..size).step_by(block).map(|at| at..size.min(at + block));
    let changed = places.filter(|place| old.bytes[place.clone()] != new.bytes[place.clone()]);
    let words = changed.map(|place| {
        let bytes = &found.bytes[place.clone()];
        word(
            *bytes == old.bytes[place.clone()],
            *bytes == new.bytes[place],
        )
    });
    words.collect()
}

fn word(is_old: bool, is_new: bool) -> &'static str {
    match (is_old, is_new) {
        (true, _) => "old",
        (_, true) => "new",
        _ => "neither",
    }
}
