//! A store on the heap, of any size.

use super::{Entry, ExtentStore, FinishedMap, HeapFinishedMap, OrderedExtent};
use crate::geometry::{FileOffset, FileRange};
use alloc::collections::BTreeMap;

/// Any number of ordered extents in a B-tree; every operation costs `O(log n)`.
#[derive(Clone, Debug)]
pub struct TreeStore<F = HeapFinishedMap> {
    entries: BTreeMap<FileOffset, Entry<F>>,
}

impl<F> Default for TreeStore<F> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
        }
    }
}

impl<F: FinishedMap> ExtentStore for TreeStore<F> {
    type Finished = F;

    fn len(&self) -> usize {
        self.entries.len()
    }

    fn at_or_before(&self, at: FileOffset) -> Option<&OrderedExtent> {
        let (_, entry) = self.entries.range(..=at).next_back()?;
        Some(&entry.extent)
    }

    fn ascending(&self, at: FileOffset) -> impl Iterator<Item = &OrderedExtent> {
        self.entries.range(at..).map(|(_, entry)| &entry.extent)
    }

    fn get_mut(&mut self, start: FileOffset) -> Option<&mut Entry<F>> {
        self.entries.get_mut(&start)
    }

    fn visit_mut(&mut self, range: FileRange, mut visit: impl FnMut(&mut Entry<F>)) {
        let first = self
            .at_or_before(range.start())
            .filter(|extent| extent.range().end() > range.start())
            .map_or(range.start(), OrderedExtent::file_offset);
        // An empty range may still stand on an entry; `range_mut` would refuse
        // a crossed one.
        if first >= range.end() {
            return;
        }
        for entry in self.entries.range_mut(first..range.end()) {
            visit(entry.1);
        }
    }

    fn has_room(&self) -> bool {
        true
    }

    fn add(&mut self, entry: Entry<F>) -> Result<(), Entry<F>> {
        self.entries.insert(entry.extent.file_offset(), entry);
        Ok(())
    }

    fn take(&mut self, start: FileOffset) -> Option<Entry<F>> {
        self.entries.remove(&start)
    }
}
