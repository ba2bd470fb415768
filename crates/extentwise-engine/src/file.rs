//! One file of the cache.

use alloc::collections::{BTreeMap, BTreeSet};

use extentwise_core::errseq::{ErrSeq, ErrSeqCursor, ErrorClass};
use extentwise_core::geometry::{FileOffset, FileRange};
use extentwise_core::ordered::{OrderedId, OrderedTable, TreeStore};

use crate::index::FolioIndex;
use crate::slab::Key;
use crate::{Config, FileId};

/// A file that the engine knows.
///
/// **Invariant**: `dirty` holds the folios with a dirty block, by their
/// position; `recorded <= i_size`; `in_flight` names the ordered extents of
/// `table`.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) id: FileId,
    /// The size as users see it.
    pub(crate) i_size: FileOffset,
    /// The size on record (S4).
    pub(crate) recorded: FileOffset,
    /// The size on record as the map was told.
    pub(crate) told: FileOffset,
    /// What `recorded` would be without barriers.
    recorded_behind: FileOffset,
    /// Until these blocks are written, the recorded size does not rise above what
    /// stands beside each: on the device they hold bytes from behind an old end of
    /// the file (V15).
    barriers: BTreeMap<FileOffset, FileOffset>,
    pub(crate) table: OrderedTable<TreeStore>,
    pub(crate) in_flight: BTreeSet<OrderedId>,
    /// The youngest ordered extent there was.
    pub(crate) last_ordered: Option<OrderedId>,
    /// The first error of each ordered extent that failed and is not over.
    pub(crate) failing: BTreeMap<OrderedId, ErrorClass>,
    pub(crate) index: FolioIndex,
    pub(crate) dirty: BTreeMap<FileOffset, Key>,
    pub(crate) dirty_bytes: u64,
    /// Of bios that the device has not answered.
    pub(crate) sent_bytes: u64,
    /// Of blocks that an overwrite under way may make dirty.
    pub(crate) lent_bytes: u64,
    /// When the oldest dirty data became dirty.
    pub(crate) dirty_since_nanos: u64,
    pub(crate) errors: ErrSeq,
    /// Counts the errors recorded.
    pub(crate) failures: u64,
    /// Why the last attempt to write back failed; gone with the next success.
    pub(crate) stalled: Option<ErrorClass>,
    /// Why a write of zeros by the engine failed; nobody was told yet.
    pub(crate) zeros_error: Option<ErrorClass>,
    /// Bios that the device has answered, and those of them that a flush which
    /// began later has made durable.
    pub(crate) written: u64,
    pub(crate) flushed: u64,
    /// Times that a hole was made, and how many of these are durable.
    pub(crate) holes: u64,
    pub(crate) holes_durable: u64,
    pub(crate) handles: u32,
    pub(crate) writing: Stream,
    pub(crate) reading: Stream,
}

/// How sequential a file is used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stream {
    next: u64,
    len: u64,
}

impl Stream {
    /// The bytes used in sequence up to the end of `range`, if it is used next.
    pub(crate) fn run_to(&self, range: FileRange) -> u64 {
        let len = range.len().get();
        if range.start().get() == self.next {
            self.len.saturating_add(len)
        } else {
            len
        }
    }

    /// Notes a use of `range`.
    pub(crate) fn note(&mut self, range: FileRange) {
        self.len = self.run_to(range);
        self.next = range.end().get();
    }
}

/// An open handle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handle {
    pub(crate) file: Key,
    pub(crate) serial: u32,
    pub(crate) cursor: ErrSeqCursor,
    pub(crate) latched: Option<ErrorClass>,
}

impl File {
    pub(crate) fn new(id: FileId, size: FileOffset, config: &Config) -> Self {
        Self {
            id,
            i_size: size,
            recorded: size,
            told: size,
            recorded_behind: size,
            barriers: BTreeMap::new(),
            table: OrderedTable::new(config.block_size),
            in_flight: BTreeSet::new(),
            last_ordered: None,
            failing: BTreeMap::new(),
            index: FolioIndex::new(config.block_size.shift(), config.folio_bytes_max),
            dirty: BTreeMap::new(),
            dirty_bytes: 0,
            sent_bytes: 0,
            lent_bytes: 0,
            dirty_since_nanos: 0,
            errors: ErrSeq::new(),
            failures: 0,
            stalled: None,
            zeros_error: None,
            written: 0,
            flushed: 0,
            holes: 0,
            holes_durable: 0,
            handles: 0,
            writing: Stream::default(),
            reading: Stream::default(),
        }
    }

    /// Records that writeback failed (E1).
    pub(crate) fn record_error(&mut self, class: ErrorClass) {
        self.errors.record(class);
        self.failures = self.failures.saturating_add(1);
        self.stalled = Some(class);
    }

    /// Raises the recorded size to `size`, as far as the barriers let it.
    pub(crate) fn raise_recorded(&mut self, size: FileOffset) {
        self.recorded_behind = self.recorded_behind.max(size);
        let limit = self.barriers.values().min();
        let limit = limit.copied().unwrap_or(FileOffset::MAX);
        let size = self.recorded_behind.min(limit).min(self.i_size);
        self.recorded = self.recorded.max(size);
    }

    /// A sync has written everything below `size`, also the block of a barrier that
    /// was there when it began: the size goes on record whatever was raised since.
    pub(crate) fn record_synced(&mut self, size: FileOffset) {
        let size = size.min(self.i_size);
        self.recorded_behind = self.recorded_behind.max(size);
        self.recorded = self.recorded.max(size);
        for limit in self.barriers.values_mut() {
            *limit = size.max(*limit);
        }
    }

    /// Holds the recorded size where it is, but not before the block at `block`,
    /// until that block is written: a sync that began before has promised what
    /// lies in front of it.
    pub(crate) fn raise_barrier(&mut self, block: FileOffset) {
        let limit = self.recorded.max(block);
        self.barriers.entry(block).or_insert(limit);
    }

    /// The bytes of `range` are written, or gone.
    pub(crate) fn lower_barriers(&mut self, range: FileRange) {
        let before = self.barriers.len();
        self.barriers.retain(|block, _| !range.contains(*block));
        if self.barriers.len() < before {
            self.raise_recorded(self.recorded_behind);
        }
    }

    /// Cuts the file at `size`.
    pub(crate) fn cut(&mut self, size: FileOffset) {
        self.i_size = size;
        self.recorded = self.recorded.min(size);
        self.recorded_behind = self.recorded_behind.min(size);
        // A file that ends before what is on record has nothing to hold back.
        self.barriers
            .retain(|block, limit| *block < size && *limit < size);
    }

    /// Whether an ordered extent as old as `last`, or older, is under way.
    pub(crate) fn is_in_flight(&self, last: Option<OrderedId>) -> bool {
        let Some(last) = last else {
            return false;
        };
        self.in_flight.first().is_some_and(|first| *first <= last)
    }
}
