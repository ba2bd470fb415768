//! The fewest device writes that a trace can be done with.

use std::collections::BTreeMap;
use std::ops::Range;

use super::settings::Settings;

/// Counts, from the trace alone, the device writes that nobody could do without:
/// at each sync, one for each run of blocks that were written since; and all of
/// that whenever so much is dirty that the limit of dirty memory is reached. No
/// write is longer than the longest ordered extent.
///
/// **Invariant**: `dirty` holds, for each file, runs of blocks that do not
/// touch; `dirty_bytes` is their sum.
pub(crate) struct LeastWrites {
    dirty: BTreeMap<usize, BTreeMap<u64, u64>>,
    dirty_bytes: u64,
    block_size: u64,
    dirty_limit: u64,
    max_extent: u64,
    count: u64,
}

impl LeastWrites {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            dirty: BTreeMap::new(),
            dirty_bytes: 0,
            block_size: settings.geometry.block_size(),
            dirty_limit: settings.dirty_limit,
            max_extent: settings.geometry.max_extent(),
            count: 0,
        }
    }

    /// Device writes so far.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// `range` of a file is written.
    pub(crate) fn write(&mut self, file: usize, range: Range<u64>) {
        let mut start = range.start;
        while start < range.end {
            if self.dirty_bytes >= self.dirty_limit {
                for (_, runs) in std::mem::take(&mut self.dirty) {
                    self.send(&runs);
                }
            }
            let room = (self.dirty_limit - self.dirty_bytes).max(self.block_size);
            let end = range.end.min(start.saturating_add(room));
            self.add(file, start..end);
            start = end;
        }
    }

    /// `range` of a file is trimmed: what was not written of it need not be.
    pub(crate) fn trim(&mut self, file: usize, range: Range<u64>) {
        let inside = self.block_size.saturating_sub(1);
        let first = range.start.saturating_add(inside) & !inside;
        let last = range.end & !inside;
        if first < last {
            self.take(file, first..last);
        }
    }

    /// A file is synced.
    pub(crate) fn sync(&mut self, file: usize) {
        if let Some(runs) = self.dirty.remove(&file) {
            self.send(&runs);
        }
    }

    fn send(&mut self, runs: &BTreeMap<u64, u64>) {
        for (start, end) in runs {
            self.count += (end - start).div_ceil(self.max_extent);
            self.dirty_bytes -= end - start;
        }
    }

    fn add(&mut self, file: usize, range: Range<u64>) {
        let inside = self.block_size - 1;
        let mut start = range.start & !inside;
        let mut end = range.end.saturating_add(inside) & !inside;
        let runs = self.dirty.entry(file).or_default();
        while let Some((&low, &high)) = runs.range(..=end).next_back() {
            if high < start {
                break;
            }
            runs.remove(&low);
            self.dirty_bytes -= high - low;
            (start, end) = (start.min(low), end.max(high));
        }
        runs.insert(start, end);
        self.dirty_bytes += end - start;
    }

    fn take(&mut self, file: usize, range: Range<u64>) {
        let Some(runs) = self.dirty.get_mut(&file) else {
            return;
        };
        while let Some((&low, &high)) = runs.range(..range.end).next_back() {
            if high <= range.start {
                break;
            }
            runs.remove(&low);
            self.dirty_bytes -= high.min(range.end) - low.max(range.start);
            if high > range.end {
                runs.insert(range.end, high);
            }
            if low < range.start {
                runs.insert(low, range.start);
            }
        }
    }
}
