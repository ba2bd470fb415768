//! A state, and the operations that lead to others.

use extentwise_core::folio::FolioState;
use extentwise_core::geometry::{BlockSize, FileOffset, FileRange};
use extentwise_core::ordered::{FixedFinishedMap, FixedStore, OrderedTable};
use extentwise_core::write::MappingState;
use extentwise_core::writeback::{Bio, FixedSegments};

use super::shape::{Event, FOLIOS_MAX, HALVES_MAX, Mistake, Shape};
use super::writeback::Refuse;

/// Bytes of a half block.
pub(super) const HALF: u64 = 512;
pub(super) const BLOCK: u64 = 2 * HALF;
/// What memory holds before anything is written to it.
pub(super) const GARBAGE: u8 = 9;
/// Bios under way, and ordered extents, at most: one a block.
const UNDER_WAY_MAX: usize = 6;

pub(super) type Segments = FixedSegments<FOLIOS_MAX>;
pub(super) type Table = OrderedTable<FixedStore<UNDER_WAY_MAX, FixedFinishedMap<4>>>;

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    /// A buffered write, the nth of the shape.
    Write(usize),
    /// The dirty blocks of a folio are written back.
    Pass(usize),
    /// As `Pass`, with the first piece refused.
    PassRefused(usize),
    /// Those of all folios are, with bios that go over their borders.
    PassAll,
    /// A bio is answered.
    Complete(usize, Answer),
    /// The file gets another size.
    Resize(usize),
    /// A folio lets go of what was cut off.
    LetGo(usize),
    /// A clean folio leaves memory.
    Evict(usize),
    /// A sync begins.
    Sync,
    /// The power is cut; what was under way is on the device, or is not.
    Crash(Fate),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Written,
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Kept,
    Lost,
}

/// A folio in memory.
#[derive(Clone, Debug)]
pub(super) struct Cached {
    pub(super) state: FolioState<[u64; 3]>,
    pub(super) maps: MappingState<[u64; 4]>,
}

/// A bio under way, with what it takes to the device.
#[derive(Clone, Debug)]
pub(super) struct Flight {
    pub(super) bio: Bio<Segments>,
    /// Of the whole file; those outside the bio are zero.
    pub(super) bytes: [u8; HALVES_MAX],
}

/// A sync that has begun.
#[derive(Clone, Copy, Debug)]
pub(super) struct Syncing {
    /// The values that each half block may have on the device at its end.
    pub(super) want: [u8; HALVES_MAX],
    pub(super) size: usize,
    pub(super) failed: bool,
}

/// The old last block, which the recorded size waits for (V15).
#[derive(Clone, Copy, Debug)]
pub(super) struct Barrier {
    pub(super) at: usize,
    /// It is on its way as it must be.
    pub(super) sent: bool,
}

/// All there is: the file in memory, on the device, and in its callers' minds.
/// Contents are a value for each half block: 0 as it was never written, else one
/// of two that writes alternate between.
#[derive(Clone, Debug)]
pub(super) struct World<'a> {
    pub(super) shape: &'a Shape,
    pub(super) mistake: Mistake,
    pub(super) block_size: BlockSize,
    pub(super) folios: [Option<Cached>; FOLIOS_MAX],
    /// The memory of the folios.
    pub(super) bytes: [u8; HALVES_MAX],
    pub(super) table: Table,
    pub(super) flights: heapless::Vec<Flight, UNDER_WAY_MAX>,
    pub(super) disk: [u8; HALVES_MAX],
    /// Blocks that have data on record, a bit each.
    pub(super) mapped: u16,
    pub(super) size: usize,
    pub(super) recorded: usize,
    /// The size that is recorded once the barrier is gone.
    pub(super) pending: usize,
    pub(super) barrier: Option<Barrier>,
    /// The file was cut and not all folios have let go yet.
    pub(super) cutting: bool,
    /// What readers must see.
    pub(super) truth: [u8; HALVES_MAX],
    /// The values that each half block may have after a crash, a bit each.
    pub(super) may: [u8; HALVES_MAX],
    /// The size that a crash must leave at least.
    pub(super) promised: usize,
    pub(super) sync: Option<Syncing>,
}

impl<'a> World<'a> {
    /// An empty file.
    pub(super) fn new(shape: &'a Shape, mistake: Mistake) -> Result<Self, String> {
        let block_size = BlockSize::new(BLOCK).map_err(|error| error.to_string())?;
        Ok(Self {
            block_size,
            shape,
            mistake,
            folios: [const { None }; FOLIOS_MAX],
            bytes: [GARBAGE; HALVES_MAX],
            table: Table::new(block_size),
            flights: heapless::Vec::new(),
            disk: [0; HALVES_MAX],
            mapped: 0,
            size: 0,
            recorded: 0,
            pending: 0,
            barrier: None,
            cutting: false,
            truth: [0; HALVES_MAX],
            may: [1; HALVES_MAX],
            promised: 0,
            sync: None,
        })
    }

    /// What is worth trying here.
    pub(super) fn ops(&self, ops: &mut Vec<Op>) {
        let happens = |event| self.shape.events.contains(&event);
        ops.extend((0..self.shape.writes.len()).map(Op::Write));
        ops.extend(self.shape.sizes.iter().map(|size| Op::Resize(*size)));
        for folio in 0..self.shape.folios {
            ops.push(Op::Pass(folio));
            ops.push(Op::LetGo(folio));
            if happens(Event::Refusal) {
                ops.push(Op::PassRefused(folio));
            }
            if happens(Event::Eviction) {
                ops.push(Op::Evict(folio));
            }
        }
        ops.push(Op::PassAll);
        for flight in 0..self.flights.len() {
            ops.push(Op::Complete(flight, Answer::Written));
            if happens(Event::Error) {
                ops.push(Op::Complete(flight, Answer::Failed));
            }
        }
        if happens(Event::Sync) {
            ops.push(Op::Sync);
        }
        if happens(Event::Crash) {
            ops.push(Op::Crash(Fate::Kept));
            ops.push(Op::Crash(Fate::Lost));
        }
    }

    /// Does it; false where it cannot be done here.
    pub(super) fn apply(&mut self, op: Op) -> Result<bool, String> {
        let done = match op {
            Op::Write(nth) => self.write(nth)?,
            Op::Pass(folio) => self.pass(folio..folio + 1, Refuse::Nothing)?,
            Op::PassRefused(folio) => self.pass(folio..folio + 1, Refuse::First)?,
            Op::PassAll => self.pass(0..self.shape.folios, Refuse::Nothing)?,
            Op::Complete(flight, answer) => self.complete(flight, answer)?,
            Op::Resize(size) => self.resize(size)?,
            Op::LetGo(folio) => self.let_go(folio),
            Op::Evict(folio) => self.evict(folio),
            Op::Sync => self.begin_sync(),
            Op::Crash(fate) => self.crash(fate),
        };
        if done {
            self.end_sync()?;
        }
        Ok(done)
    }
}

/// The bytes of half blocks `start..end`.
pub(super) const fn range_of(start: usize, end: usize) -> FileRange {
    FileRange::clamped(offset_of(start), offset_of(end))
}

pub(super) const fn offset_of(half: usize) -> FileOffset {
    FileOffset::new(half as u64 * HALF)
}

/// The half blocks of a range, which is aligned to them.
pub(super) const fn halves_of(range: FileRange) -> core::ops::Range<usize> {
    (range.start().get() / HALF) as usize..(range.end().get() / HALF) as usize
}
