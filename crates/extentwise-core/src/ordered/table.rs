//! The rules of ordered extents, over any store.

use super::wait::{FailureLog, FailureSeq, OrderedWait, WaitState};
use super::{
    AddError, Entry, ExtentStore, FinishedMap, NewOrdered, OrderedError, OrderedExtent,
    OrderedFlags, OrderedId,
};
use crate::geometry::{BlockSize, FileOffset, FileRange, LenBytes};
use core::fmt;

/// Why an ordered extent was not inserted; the table is as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertError {
    /// Its numbers break a rule.
    Invalid(OrderedError),
    /// It overlaps the extent that covers this range (O1).
    Overlap(FileRange),
    /// The table holds as many as it can.
    Full,
}

impl fmt::Display for InsertError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(error) => error.fmt(f),
            Self::Overlap(range) => write!(f, "overlaps the ordered extent {range}"),
            Self::Full => f.write_str("the table of ordered extents is full"),
        }
    }
}

impl core::error::Error for InsertError {}

/// Why an ordered extent was not split; the table is as before (O7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitError {
    /// No extent holds the place in its inside.
    NoExtent,
    /// The place is no multiple of the block size.
    Unaligned(FileOffset),
    /// The extent is done or has failed: it must be completed as one.
    Ended,
    /// All that is left lies in one part: the other would be born done, and
    /// nobody would complete it.
    PartDone,
    /// The table does not remember which bytes are finished.
    Unknown,
    /// The table holds as many as it can.
    Full,
}

impl fmt::Display for SplitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoExtent => f.write_str("no ordered extent can be split there"),
            Self::Unaligned(at) => write!(f, "split at {at}: must be a multiple of the block size"),
            Self::Ended => f.write_str("the ordered extent is done or has failed"),
            Self::PartDone => f.write_str("one part of the ordered extent is finished already"),
            Self::Unknown => f.write_str("it is not known which part of the extent is finished"),
            Self::Full => f.write_str("the table of ordered extents is full"),
        }
    }
}

impl core::error::Error for SplitError {}

/// How the I/O of a range ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoOutcome {
    /// The bytes are on the device; those before `valid_end` are the file's
    /// own, what follows only fills the block (S4).
    Written {
        /// First byte behind the valid ones.
        valid_end: FileOffset,
    },
    /// Nothing had to be written, as past the end of the file (W5).
    Skipped,
    /// Some of it failed.
    Failed,
}

/// Is told what finishing a range came upon.
///
/// All methods do nothing unless they are written: `&mut ()` is an observer
/// that does not look.
pub trait FinishObserver {
    /// The extent's last byte was finished. Told exactly once for each extent;
    /// the completer then takes it out with [`OrderedTable::remove`] (O4).
    fn completed(&mut self, extent: &OrderedExtent) {
        let _ = extent;
    }

    /// These bytes had been finished before: a bug of the caller, which changed
    /// nothing (O4).
    fn double_finish(&mut self, range: FileRange) {
        let _ = range;
    }
}

impl FinishObserver for () {}

/// What finishing a range did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Finished {
    /// Bytes that were newly finished.
    pub bytes: LenBytes,
    /// Bytes that had been finished before.
    pub double_bytes: LenBytes,
    /// Bytes of the range that no extent covers (O3).
    pub hole_bytes: LenBytes,
    /// Extents that became done.
    pub completed: usize,
}

/// What truncating a range did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Truncated {
    /// Extents that the range meets.
    pub extents: usize,
    /// Bytes of the range that no extent covers (O3).
    pub hole_bytes: LenBytes,
}

/// The ordered extents of one file.
///
/// **Invariant**: extents never overlap; each leaves [`finish`](Self::finish)
/// as completed once; a failure stays known to later waits after its extent
/// left (O6).
#[derive(Clone, Debug)]
pub struct OrderedTable<S> {
    store: S,
    block_size: BlockSize,
    next_id: u64,
    /// Counts the changes of which extent covers what.
    layout: u64,
    failures: FailureLog,
}

impl<S: ExtentStore> OrderedTable<S> {
    /// An empty table for a file of this block size.
    #[must_use]
    pub fn new(block_size: BlockSize) -> Self {
        Self {
            store: S::default(),
            block_size,
            next_id: 0,
            layout: 0,
            failures: FailureLog::default(),
        }
    }

    /// Block size of the file.
    #[must_use]
    pub const fn block_size(&self) -> BlockSize {
        self.block_size
    }

    /// Extents in the table.
    #[must_use]
    pub fn len(&self) -> usize {
        self.store.len()
    }

    /// Whether the table is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.store.is_empty()
    }

    /// Adds an extent, of which nothing is finished (O1). An unaligned or
    /// overlapping one is an error and changes nothing.
    #[inline]
    pub fn insert(&mut self, spec: NewOrdered) -> Result<OrderedId, InsertError> {
        let range = spec.check(self.block_size).map_err(InsertError::Invalid)?;
        let id = OrderedId(self.next_id);
        let entry = Entry {
            extent: OrderedExtent::new(id, spec),
            finished: S::Finished::default(),
        };
        self.store.add(entry).map_err(|error| match error {
            AddError::Full => InsertError::Full,
            AddError::Overlap => {
                let other = self.first_in(range).map_or(range, OrderedExtent::range);
                InsertError::Overlap(other)
            }
        })?;
        self.next_id = self.next_id.saturating_add(1);
        self.layout = self.layout.wrapping_add(1);
        Ok(id)
    }

    /// The extent that covers `at`.
    #[must_use]
    #[inline]
    pub fn lookup(&self, at: FileOffset) -> Option<&OrderedExtent> {
        self.store
            .at_or_before(at)
            .filter(|extent| extent.range().contains(at))
    }

    /// The first extent that meets `range`.
    #[must_use]
    pub fn first_in(&self, range: FileRange) -> Option<&OrderedExtent> {
        if range.is_empty() {
            return None;
        }
        self.lookup(range.start())
            .or_else(|| self.store.ascending(range.start()).next())
            .filter(|extent| extent.file_offset() < range.end())
    }

    /// The extents that meet `range`, ascending.
    pub fn iter_in(&self, range: FileRange) -> impl Iterator<Item = &OrderedExtent> {
        let mut rest = range;
        core::iter::from_fn(move || {
            let extent = self.first_in(rest)?;
            rest = FileRange::clamped(extent.range().end(), range.end());
            Some(extent)
        })
    }

    /// Cuts off, from the start of `range` on, every extent that meets `range`
    /// (O2, O3): each keeps at most the bytes before `max(range start, its own
    /// start)`. Holes are skipped and counted.
    pub fn truncate(&mut self, range: FileRange) -> Truncated {
        let mut done = Truncated::default();
        let mut covered = LenBytes::ZERO;
        self.store.visit_mut(range, |entry| {
            let extent = &mut entry.extent;
            let Some(overlap) = extent.range().overlap(range) else {
                return;
            };
            let kept = overlap.start().distance_from(extent.file_offset());
            extent.flags |= OrderedFlags::TRUNCATED;
            extent.truncated_len = extent.truncated_len.min(kept);
            done.extents += 1;
            covered = covered.saturating_add(overlap.len());
        });
        done.hole_bytes = range.len().saturating_sub(covered);
        done
    }

    /// Finishes `range` in every extent that meets it (O4). Bytes that were
    /// finished before change nothing, not even to failed, and are reported as
    /// a double finish. An extent whose last byte this was gets `IO_DONE` and is
    /// handed to [`FinishObserver::completed`], exactly once.
    pub fn finish(
        &mut self,
        range: FileRange,
        outcome: IoOutcome,
        observer: &mut impl FinishObserver,
    ) -> Finished {
        let mut done = Finished::default();
        let mut covered = LenBytes::ZERO;
        let failures = &mut self.failures;
        self.store.visit_mut(range, |entry| {
            let Some(overlap) = entry.extent.range().overlap(range) else {
                return;
            };
            covered = covered.saturating_add(overlap.len());
            let new = finish_part(entry, overlap, observer);
            done.bytes = done.bytes.saturating_add(new);
            done.double_bytes = done
                .double_bytes
                .saturating_add(overlap.len().saturating_sub(new));
            if new.is_zero() {
                return;
            }
            let extent = &mut entry.extent;
            match outcome {
                IoOutcome::Failed => extent.flags |= OrderedFlags::IO_ERROR,
                IoOutcome::Written { valid_end } => {
                    extent.valid_end = extent.valid_end.max(valid_end.min(overlap.end()));
                }
                IoOutcome::Skipped => {}
            }
            extent.bytes_left = extent.bytes_left.saturating_sub(new);
            if extent.bytes_left.is_zero() {
                extent.flags |= OrderedFlags::IO_DONE;
                if extent.flags.contains(OrderedFlags::IO_ERROR) {
                    failures.record(extent.range());
                }
                done.completed += 1;
                observer.completed(extent);
            }
        });
        done.hole_bytes = range.len().saturating_sub(covered);
        done
    }

    /// Takes the extent `id`, which begins at `start`, out of the table, as the
    /// completer does when its outcome is on record. Answers it as it is now,
    /// with the smallest `truncated_len` (O8); `None` if it left before.
    pub fn remove(&mut self, id: OrderedId, start: FileOffset) -> Option<OrderedExtent> {
        self.layout = self.layout.wrapping_add(1);
        self.store.take(id, start)
    }

    /// Splits the extent around `at` in two that cover it exactly; the front
    /// keeps the name. Space on the device is divided with them, so that each
    /// part can fail and be released by itself. On an error nothing changed (O7).
    pub fn split(&mut self, at: FileOffset) -> Result<(OrderedId, OrderedId), SplitError> {
        if !self.block_size.divides(at.get()) {
            return Err(SplitError::Unaligned(at));
        }
        let whole = *self
            .lookup(at)
            .filter(|extent| extent.file_offset() < at)
            .ok_or(SplitError::NoExtent)?;
        if whole
            .flags
            .intersects(OrderedFlags::IO_DONE | OrderedFlags::IO_ERROR)
        {
            return Err(SplitError::Ended);
        }
        if !self.store.has_room() {
            return Err(SplitError::Full);
        }
        let back_id = OrderedId(self.next_id);
        let entry = self
            .store
            .get_mut(whole.file_offset())
            .ok_or(SplitError::NoExtent)?;
        let back = entry.split_off(at, back_id)?;
        // `has_room` answered for this one, which lies where the whole was.
        self.store.add(back).map_err(|_| SplitError::Full)?;
        self.next_id = self.next_id.saturating_add(1);
        self.layout = self.layout.wrapping_add(1);
        Ok((whole.id, back_id))
    }

    /// This moment in the sequence of failures; a wait from here on reports
    /// what fails later.
    #[must_use]
    pub const fn failure_seq(&self) -> FailureSeq {
        self.failures.now()
    }

    /// A wait for the extents of `range` that reports failures after `since`
    /// (O6).
    #[must_use]
    pub const fn begin_wait(&self, range: FileRange, since: FailureSeq) -> OrderedWait {
        OrderedWait { range, since }
    }

    /// How a wait stands (O6). Costs a step for each extent of the range.
    pub fn poll_wait(&self, wait: &OrderedWait) -> WaitState {
        if self
            .iter_in(wait.range)
            .any(|extent| !extent.flags.contains(OrderedFlags::IO_DONE))
        {
            return WaitState::Pending;
        }
        match self.failures.first_since(wait) {
            Some(range) => WaitState::Failed(range),
            None => WaitState::Done,
        }
    }

    /// Counts the changes of which extent covers what.
    pub(crate) const fn layout(&self) -> u64 {
        self.layout
    }

    /// The extents that begin at or behind `at`, ascending.
    pub(crate) fn ascending(&self, at: FileOffset) -> impl Iterator<Item = &OrderedExtent> {
        self.store.ascending(at)
    }
}

/// Marks `overlap`, which lies inside the extent; answers the new bytes.
fn finish_part<F: FinishedMap>(
    entry: &mut Entry<F>,
    overlap: FileRange,
    observer: &mut impl FinishObserver,
) -> LenBytes {
    let start = entry.extent.file_offset();
    let span = (
        overlap.start().distance_from(start).get(),
        overlap.end().distance_from(start).get(),
    );
    let left = entry.extent.bytes_left.get();
    let new = entry.finished.mark(span, left, &mut |both| {
        let absolute = |into: u64| FileOffset::new(start.get().saturating_add(into));
        observer.double_finish(FileRange::clamped(absolute(both.0), absolute(both.1)));
    });
    LenBytes::new(new)
}

impl<F: FinishedMap> Entry<F> {
    /// Cuts the entry at `at`, which lies inside, and answers the part behind.
    fn split_off(&mut self, at: FileOffset, back_id: OrderedId) -> Result<Self, SplitError> {
        let whole = self.extent;
        let front_len = at.distance_from(whole.file_offset());
        let back_len = whole.num_bytes().saturating_sub(front_len);
        let done = whole.num_bytes().saturating_sub(whole.bytes_left);
        let done_front = LenBytes::new(self.finished.finished_before(front_len.get()));
        let done_back = done.saturating_sub(done_front);
        if !done.is_zero() && (done_front >= front_len || done_back >= back_len) {
            return Err(SplitError::PartDone);
        }
        let finished = self
            .finished
            .split_off(front_len.get(), done.get())
            .ok_or(SplitError::Unknown)?;

        let front_disk = whole.spec.offset.saturating_add(front_len);
        let back_spec = NewOrdered {
            file_offset: at,
            num_bytes: back_len,
            disk_bytenr: whole.disk_at(at),
            offset: LenBytes::ZERO,
            disk_num_bytes: whole.spec.disk_num_bytes.saturating_sub(front_disk),
            kind: whole.spec.kind,
        };
        let part = |id, spec: NewOrdered, done: LenBytes, kept: LenBytes| {
            let mut flags = whole.flags;
            flags.set(OrderedFlags::TRUNCATED, kept < spec.num_bytes);
            OrderedExtent {
                id,
                spec,
                bytes_left: spec.num_bytes.saturating_sub(done),
                truncated_len: kept,
                flags,
                valid_end: whole.valid_end.max(spec.file_offset).min(FileOffset::new(
                    spec.file_offset.get().saturating_add(spec.num_bytes.get()),
                )),
            }
        };
        let front_spec = NewOrdered {
            num_bytes: front_len,
            disk_num_bytes: front_disk,
            ..whole.spec
        };
        let kept = whole.truncated_len;
        self.extent = part(whole.id, front_spec, done_front, kept.min(front_len));
        Ok(Self {
            extent: part(
                back_id,
                back_spec,
                done_back,
                kept.saturating_sub(front_len),
            ),
            finished,
        })
    }
}
