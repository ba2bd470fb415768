//! Tables of ordered extents against a list of blocks.

mod model;

use extentwise_core::geometry::{BlockSize, DiskByte, FileOffset, FileRange, LenBytes};
use extentwise_core::ordered::{
    ExtentStore, FinishObserver, FixedFinishedMap, FixedStore, InsertError, IoOutcome, NewOrdered,
    NoFinishedMap, OrderedExtent, OrderedFlags, OrderedId, OrderedKind, OrderedTable, OrderedWait,
    SplitError, TreeStore, WaitState,
};

use super::choice::{Choices, base};
use model::{Model, Plain};

const BLOCK: u64 = 512;
/// The model's unit: half a block, so that unaligned ranges show.
const CELL: u64 = BLOCK / 2;
/// How much of the file is used.
const CELLS: u64 = 32;
const OPS_MAX: usize = 24;
const WAITS_MAX: usize = 4;

/// What a table is told; places are in cells from the start of the space.
#[derive(Clone, Copy, Debug)]
enum Op {
    Insert(NewOrdered),
    Truncate(u64, u64),
    Finish(u64, u64, How),
    Split(u64),
    /// The extent that covers this cell leaves.
    Remove(u64),
    Wait(u64, u64),
    /// The whole file, far past the space.
    TruncateAll,
    FinishAll(How),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// Written, with the valid bytes ending at this cell.
    Written(u64),
    Skipped,
    Failed,
}

/// A list of operations on a table on the heap and on one of fixed capacity,
/// which remembers all that was finished, its number, or some of it; each
/// against a model of cells (O1–O7).
///
/// # Panics
///
/// Where a table and its model differ.
pub fn ordered_table(data: &[u8]) {
    let (start, other, ops) = decode(data);
    let ops: Vec<Op> = ops.collect();
    run::<TreeStore>(start, &ops, usize::MAX, Memory::Exact);
    match other {
        // Seventeen stretches cannot be apart in the cells of the space.
        Memory::Exact => run::<FixedStore<3, FixedFinishedMap<17>>>(start, &ops, 3, other),
        Memory::Counting => run::<FixedStore<4, NoFinishedMap>>(start, &ops, 4, other),
        Memory::Lossy => run::<FixedStore<4, FixedFinishedMap<1>>>(start, &ops, 4, other),
    }
}

pub(super) fn describe(data: &[u8]) -> String {
    let (start, other, ops) = decode(data);
    format!(
        "cells of {CELL} bytes from {start}, a fixed table with {other:?} memory\n{}",
        super::list(ops)
    )
}

/// What a table knows of which bytes were finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Memory {
    /// Everything: it agrees with the model in all.
    Exact,
    /// Their number.
    Counting,
    /// Some of them: only what holds for any table is asserted.
    Lossy,
}

/// What a table told while it finished a range.
#[derive(Default)]
struct Told {
    completed: Vec<OrderedId>,
    doubles: Vec<FileRange>,
}

impl FinishObserver for Told {
    fn completed(&mut self, extent: &OrderedExtent) {
        assert!(
            extent.bytes_left().is_zero() && extent.outcome().is_some(),
            "handed out while bytes are left: {extent:?}"
        );
        self.completed.push(extent.id());
    }

    fn double_finish(&mut self, range: FileRange) {
        assert!(!range.is_empty(), "an empty double finish at {range}");
        self.doubles.push(range);
    }
}

struct Pair<S> {
    table: OrderedTable<S>,
    model: Model,
    memory: Memory,
    waits: Vec<(OrderedWait, (u64, u64), usize)>,
    completed: Vec<OrderedId>,
}

fn run<S: ExtentStore>(start: u64, ops: &[Op], capacity: usize, memory: Memory) {
    let mut pair = Pair::<S> {
        table: OrderedTable::new(BlockSize::MIN),
        model: Model::new(start, capacity),
        memory,
        waits: Vec::new(),
        completed: Vec::new(),
    };
    for (number, op) in ops.iter().enumerate() {
        match *op {
            Op::Insert(spec) => pair.insert(spec),
            Op::Truncate(a, b) => pair.truncate(pair.range(a, b), (a, b)),
            Op::Finish(a, b, how) => pair.finish(pair.range(a, b), (a, b), how),
            Op::TruncateAll => pair.truncate(EVERYTHING, (0, CELLS)),
            Op::FinishAll(how) => pair.finish(EVERYTHING, (0, CELLS), how),
            Op::Split(at) => pair.split(at),
            Op::Remove(at) => pair.remove(at),
            Op::Wait(a, b) => pair.wait(a, b),
        }
        pair.compare();
        // All cells after every operation would be most of the work.
        pair.look_up((7 * number as u64) % CELLS);
    }
    (0..CELLS).for_each(|cell| pair.look_up(cell));
}

const EVERYTHING: FileRange = match FileRange::new(FileOffset::ZERO, FileOffset::MAX) {
    Some(range) => range,
    None => unreachable!(),
};

impl<S: ExtentStore> Pair<S> {
    fn at(&self, cell: u64) -> FileOffset {
        FileOffset::new(self.model.start + cell * CELL)
    }

    fn range(&self, a: u64, b: u64) -> FileRange {
        FileRange::new(self.at(a), self.at(b)).unwrap_or_default()
    }

    fn insert(&mut self, spec: NewOrdered) {
        let before = self.table.len();
        let allowed = self.model.may_insert(spec);
        match self.table.insert(spec) {
            Ok(id) => {
                assert_eq!(allowed, Ok(()), "inserted {spec:?}");
                assert!(self.model.ids().all(|known| known != id), "{id:?} again");
                self.model.insert(id, spec);
            }
            Err(error) => {
                assert_eq!(self.table.len(), before);
                let named = match error {
                    InsertError::Invalid(_) => model::Refusal::Invalid,
                    InsertError::Overlap(_) => model::Refusal::Overlap,
                    InsertError::Full => model::Refusal::Full,
                };
                assert_eq!(allowed, Err(named), "refused {spec:?}: {error}");
            }
        }
    }

    fn truncate(&mut self, range: FileRange, cells: (u64, u64)) {
        let done = self.table.truncate(range);
        let (extents, covered) = self.model.truncate(cells);
        assert_eq!(done.extents, extents, "truncated {range}");
        assert_eq!(done.hole_bytes.get(), range.len().get() - covered * CELL);
    }

    fn finish(&mut self, range: FileRange, cells: (u64, u64), how: How) {
        let outcome = match how {
            How::Written(end) => IoOutcome::Written {
                valid_end: self.at(end),
            },
            How::Skipped => IoOutcome::Skipped,
            How::Failed => IoOutcome::Failed,
        };
        let mut told = Told::default();
        let done = self.table.finish(range, outcome, &mut told);
        assert_eq!(done.completed, told.completed.len());
        for id in &told.completed {
            assert!(!self.completed.contains(id), "{id:?} completed twice");
        }
        self.completed.extend(&told.completed);
        if self.memory == Memory::Lossy {
            return;
        }
        let expected = self.model.finish(cells, how, self.memory);
        assert_eq!(done.bytes.get(), expected.new * CELL, "finished {range}");
        assert_eq!(done.double_bytes.get(), expected.double * CELL);
        assert_eq!(
            done.hole_bytes.get(),
            range.len().get() - expected.covered * CELL
        );
        assert_eq!(told.completed, expected.completed);
        let told_bytes = told.doubles.iter().map(|double| double.len().get());
        assert_eq!(told_bytes.sum::<u64>(), expected.double * CELL);
        if self.memory == Memory::Exact {
            for double in told.doubles {
                assert!(
                    self.model.was_double(double),
                    "{double} was not finished before"
                );
            }
        }
    }

    fn split(&mut self, cell: u64) {
        let (at, before) = (self.at(cell), self.table.len());
        let reasons = self.model.reasons_against_split(cell);
        match self.table.split(at) {
            Ok((front, back)) => {
                if self.memory == Memory::Exact {
                    assert_eq!(reasons, [], "split at {at}");
                }
                assert_eq!(self.table.len(), before + 1);
                self.model.split(cell, (front, back));
            }
            Err(error) => {
                assert_eq!(self.table.len(), before);
                let named = match error {
                    SplitError::Unaligned(_) => model::Reason::Unaligned,
                    SplitError::NoExtent => model::Reason::NoExtent,
                    SplitError::Ended => model::Reason::Ended,
                    SplitError::PartDone => model::Reason::PartDone,
                    SplitError::Full => model::Reason::Full,
                    SplitError::Unknown => {
                        assert_ne!(self.memory, Memory::Exact, "all is known");
                        return;
                    }
                };
                if self.memory == Memory::Exact {
                    assert!(reasons.contains(&named), "not split at {at}: {error}");
                }
            }
        }
    }

    fn remove(&mut self, cell: u64) {
        let Some(plain) = self.model.take(cell) else {
            assert!(self.table.lookup(self.at(cell)).is_none());
            return;
        };
        let start = self.at(plain.start);
        let wrong_place = self.at(plain.start + 1);
        assert_eq!(self.table.remove(plain.id, wrong_place), None);
        let removed = self.table.remove(plain.id, start);
        let Some(removed) = removed else {
            panic!("{plain:?} was not there");
        };
        self.same(&removed, &plain);
        assert_eq!(self.table.remove(plain.id, start), None, "it left already");
    }

    fn wait(&mut self, a: u64, b: u64) {
        if self.waits.len() < WAITS_MAX {
            let since = self.table.failure_seq();
            let wait = self.table.begin_wait(self.range(a, b), since);
            self.waits.push((wait, (a, b), self.model.failures.len()));
        }
    }

    /// Table and model say the same about everything.
    fn compare(&self) {
        assert_eq!(self.table.len(), self.model.extents.len());
        assert_eq!(self.table.is_empty(), self.model.extents.is_empty());
        let listed: Vec<&OrderedExtent> = self.table.iter_in(EVERYTHING).collect();
        assert_eq!(listed.len(), self.model.extents.len());
        for (extent, plain) in listed.iter().zip(&self.model.extents) {
            self.same(extent, plain);
        }
        if self.memory == Memory::Exact {
            self.poll_waits();
        }
    }

    fn look_up(&self, cell: u64) {
        let found = self.table.lookup(self.at(cell)).map(OrderedExtent::id);
        let expected = self.model.covering(cell).map(|plain| plain.id);
        assert_eq!(found, expected, "lookup of cell {cell}");
    }

    fn same(&self, extent: &OrderedExtent, plain: &Plain) {
        assert_eq!(extent.id(), plain.id);
        assert_eq!(extent.range(), self.range(plain.start, plain.end()));
        assert_eq!(extent.truncated_len().get(), plain.kept * CELL);
        let flags = extent.flags();
        assert_eq!(flags.contains(OrderedFlags::TRUNCATED), plain.truncated);
        let done = flags.contains(OrderedFlags::IO_DONE);
        assert_eq!(done, extent.bytes_left().is_zero());
        assert_eq!(done, extent.outcome().is_some());
        assert_eq!(done, self.completed.contains(&extent.id()));
        assert_eq!(extent.spec().kind, plain.kind);
        for cell in [plain.start, plain.end() - 1] {
            let disk = DiskByte::new(plain.disk + (cell - plain.start) * CELL);
            assert_eq!(extent.disk_of(self.at(cell)), Some(disk));
        }
        assert_eq!(extent.disk_of(self.at(plain.end())), None);
        if self.memory == Memory::Lossy {
            return;
        }
        assert_eq!(extent.bytes_left().get(), plain.left() * CELL);
        assert_eq!(flags.contains(OrderedFlags::IO_ERROR), plain.failed);
        if let Some(valid_end) = plain.recorded() {
            let size = extent.recorded_size(FileOffset::ZERO, FileOffset::MAX);
            assert_eq!(size, self.at(valid_end), "recorded size of {extent:?}");
        }
    }

    fn poll_waits(&self) {
        const REMEMBERED: usize = 8;
        for (wait, (a, b), since) in &self.waits {
            let told = self.table.poll_wait(wait);
            let pending = self.model.any_pending(*a, *b);
            assert_eq!(told == WaitState::Pending, pending, "{wait:?}: {told:?}");
            if pending {
                continue;
            }
            let first = self.model.first_failure(*a, *b, *since);
            let first = first.map(|(start, end)| self.range(start, end));
            match told {
                WaitState::Failed(range) if self.model.failures.len() <= REMEMBERED => {
                    assert_eq!(Some(range), first);
                }
                WaitState::Failed(_) => {}
                WaitState::Pending | WaitState::Done => {
                    assert_eq!(first, None, "{wait:?} missed a failure");
                }
            }
        }
    }
}

fn decode(data: &[u8]) -> (u64, Memory, impl Iterator<Item = Op>) {
    let mut choices = Choices::new(data);
    let start = base(&mut choices, CELLS * CELL);
    let other = choices.one_of(&[Memory::Exact, Memory::Counting, Memory::Lossy]);
    let ops = std::iter::from_fn(move || {
        if choices.is_empty() {
            return None;
        }
        let (choices, space) = (&mut choices, CELLS);
        let op = choices.below(16);
        Some(match op {
            0..=3 => Op::Insert(spec(choices, start)),
            4 | 5 => {
                let (a, b) = choices.pair(space);
                Op::Truncate(a, b)
            }
            6..=9 => {
                let (a, b) = choices.pair(space);
                Op::Finish(a, b, how(choices))
            }
            10 | 11 => Op::Split(choices.below(space)),
            12 => Op::Remove(choices.below(space)),
            13 | 14 => {
                let (a, b) = choices.pair(space);
                Op::Wait(a, b)
            }
            _ if choices.chance(128) => Op::TruncateAll,
            _ => Op::FinishAll(how(choices)),
        })
    });
    (start, other, ops.take(OPS_MAX))
}

fn how(choices: &mut Choices<'_>) -> How {
    match choices.below(8) {
        0..=4 => How::Written(choices.below(CELLS + 1)),
        5 | 6 => How::Failed,
        _ => How::Skipped,
    }
}

/// Mostly a sound extent in the space; sometimes one number is wrong.
fn spec(choices: &mut Choices<'_>, start: u64) -> NewOrdered {
    let cells_per_block = BLOCK / CELL;
    let blocks = CELLS / cells_per_block;
    let first = choices.below(blocks);
    let len = 1 + choices.below((blocks - first).min(8));
    let kinds = [
        OrderedKind::Plain,
        OrderedKind::Nocow,
        OrderedKind::Prealloc,
    ];
    let offset = BLOCK * choices.one_of(&[0, 0, 0, 1, 3]);
    let mut spec = NewOrdered {
        file_offset: FileOffset::new(start + first * BLOCK),
        num_bytes: LenBytes::new(len * BLOCK),
        disk_bytenr: DiskByte::new(BLOCK * choices.one_of(&[100, 0, 1 << 50])),
        offset: LenBytes::new(offset),
        disk_num_bytes: LenBytes::new(offset + BLOCK * (len + choices.one_of(&[0, 0, 2]))),
        kind: choices.one_of(&kinds),
    };
    if choices.chance(32) {
        let wrong = choices.one_of(&[0, 1, 511, 513, u64::MAX, u64::MAX - 511, 1 << 63]);
        match choices.below(5) {
            // Not before the space, where the model has no cells.
            0 => spec.file_offset = FileOffset::new(wrong.max(start) | 1),
            1 => spec.num_bytes = LenBytes::new(wrong),
            2 => spec.disk_bytenr = DiskByte::new(wrong),
            3 => spec.offset = LenBytes::new(wrong),
            _ => spec.disk_num_bytes = LenBytes::new(wrong),
        }
    }
    spec
}
