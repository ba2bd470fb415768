//! A store of fixed capacity, without allocation.

use super::{
    AddError, Entry, ExtentStore, FinishedMap, FixedFinishedMap, OrderedExtent, OrderedId,
};
use crate::geometry::{FileOffset, FileRange};

/// At most `N` ordered extents in a sorted array. Lookups cost `O(log n)`,
/// insertions and removals move the entries behind.
#[derive(Clone, Debug)]
pub struct FixedStore<const N: usize, F = FixedFinishedMap<4>> {
    entries: heapless::Vec<Entry<F>, N>,
}

impl<const N: usize, F> Default for FixedStore<N, F> {
    fn default() -> Self {
        Self {
            entries: heapless::Vec::new(),
        }
    }
}

impl<const N: usize, F> FixedStore<N, F> {
    /// Index of the first entry that begins at or behind `at`.
    fn lower_bound(&self, at: FileOffset) -> usize {
        self.entries
            .partition_point(|entry| entry.extent.file_offset() < at)
    }

    fn index_of(&self, start: FileOffset) -> Option<usize> {
        let index = self.lower_bound(start);
        let entry = self.entries.get(index)?;
        (entry.extent.file_offset() == start).then_some(index)
    }
}

impl<const N: usize, F: FinishedMap> ExtentStore for FixedStore<N, F> {
    type Finished = F;

    fn len(&self) -> usize {
        self.entries.len()
    }

    fn at_or_before(&self, at: FileOffset) -> Option<&OrderedExtent> {
        let behind = self
            .entries
            .partition_point(|entry| entry.extent.file_offset() <= at);
        Some(&self.entries.get(behind.checked_sub(1)?)?.extent)
    }

    fn ascending(&self, at: FileOffset) -> impl Iterator<Item = &OrderedExtent> {
        let behind = self.entries.iter().skip(self.lower_bound(at));
        behind.map(|entry| &entry.extent)
    }

    fn get_mut(&mut self, start: FileOffset) -> Option<&mut Entry<F>> {
        let index = self.index_of(start)?;
        self.entries.get_mut(index)
    }

    fn visit_mut(&mut self, range: FileRange, mut visit: impl FnMut(&mut Entry<F>)) {
        let first = self
            .entries
            .partition_point(|entry| entry.extent.range().end() <= range.start());
        for entry in self.entries.iter_mut().skip(first) {
            if entry.extent.file_offset() >= range.end() {
                break;
            }
            visit(entry);
        }
    }

    fn has_room(&self) -> bool {
        !self.entries.is_full()
    }

    fn add(&mut self, entry: Entry<F>) -> Result<(), AddError> {
        let range = entry.extent.range();
        let index = self.lower_bound(range.end());
        let before = index
            .checked_sub(1)
            .and_then(|index| self.entries.get(index));
        if before.is_some_and(|before| before.extent.range().end() > range.start()) {
            return Err(AddError::Overlap);
        }
        self.entries
            .insert(index, entry)
            .map_err(|_| AddError::Full)
    }

    fn take(&mut self, id: OrderedId, start: FileOffset) -> Option<OrderedExtent> {
        let index = self.index_of(start)?;
        self.entries
            .get(index)
            .filter(|entry| entry.extent.id() == id)?;
        Some(self.entries.remove(index).extent)
    }
}
