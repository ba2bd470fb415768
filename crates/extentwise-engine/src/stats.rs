//! What the engine did, and what its cache holds (C10).

use extentwise_core::geometry::LenBytes;

use crate::engine::Engine;
use crate::{Mapping, Memory};

/// How long writes of bios took, in powers of two of nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Histogram([u64; 64]);

impl Default for Histogram {
    fn default() -> Self {
        Self([0; 64])
    }
}

impl Histogram {
    pub(crate) fn record(&mut self, nanos: u64) {
        let row = 63_u32.saturating_sub(nanos.leading_zeros()) as usize;
        if let Some(count) = self.0.get_mut(row) {
            *count = count.saturating_add(1);
        }
    }

    /// The rows that are not empty: times from `low` to below `2 * low`
    /// nanoseconds (the first row: to below 2), and how many.
    pub fn rows(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let rows = (0..64).zip(self.0);
        rows.filter(|(_, count)| *count > 0)
            .map(|(row, count)| (1 << row, count))
    }
}

/// What was done since the engine was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Folios brought into the cache.
    pub folios: u64,
    /// Folios evicted for room.
    pub evictions: u64,
    /// Bytes of blocks that went from clean to dirty.
    pub dirtied_bytes: u64,
    /// Passes over folios.
    pub passes: u64,
    /// Ordered extents planned.
    pub ordered_extents: u64,
    /// Bios sent.
    pub bios: u64,
    /// Bytes of them.
    pub bio_bytes: u64,
    /// Syncs begun.
    pub syncs: u64,
    /// Times that something of a file could not be written, or made durable.
    pub failures: u64,
    /// How long bios took, from being sent to their completion.
    pub writeback: Histogram,
}

/// What the cache holds, each block counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    /// Bytes of blocks that are neither of these.
    pub clean: LenBytes,
    /// Of dirty blocks.
    pub dirty: LenBytes,
    /// Of blocks in writeback, dirty again or not.
    pub writeback: LenBytes,
    /// Of dirty blocks that could not be written the last time.
    pub failed: LenBytes,
}

impl Blocks {
    /// The capacity in use.
    #[must_use]
    pub const fn total(&self) -> LenBytes {
        self.clean
            .saturating_add(self.dirty)
            .saturating_add(self.writeback)
            .saturating_add(self.failed)
    }
}

impl<M: Memory, P: Mapping> Engine<M, P> {
    /// What was done since the engine was made.
    pub const fn counts(&self) -> &Counts {
        self.raw_counts()
    }

    /// What the cache holds (C10). Costs a step for each folio.
    pub fn blocks(&self) -> Blocks {
        let blocks = self.count_blocks();
        debug_assert_eq!(blocks.total().get(), self.cached_bytes().get());
        blocks
    }

    /// Device writes for each MiB that was dirtied, in thousandths.
    pub fn writes_per_dirtied_mib_milli(&self) -> u64 {
        let counts = self.counts();
        let writes = u128::from(counts.bios) * 1000 * (1 << 20);
        let per = writes / u128::from(counts.dirtied_bytes.max(1));
        u64::try_from(per).unwrap_or(u64::MAX)
    }
}
