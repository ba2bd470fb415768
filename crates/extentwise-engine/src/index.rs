//! Which folio of a file holds an offset.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec;

use extentwise_core::geometry::{FileOffset, FileRange, FolioGeometry, LenBytes};

use crate::slab::Key;

/// The folios of one file, of any mix of sizes.
///
/// A file is cut into regions as large as the largest folio. A region is one
/// folio, or an array with a place for each of its blocks. A lookup costs a
/// search among regions and one step more, whatever number of folios there is.
///
/// **Invariant**: folios do not overlap, and none is larger than a region.
#[derive(Clone, Debug)]
pub(crate) struct FolioIndex {
    regions: BTreeMap<u64, Region>,
    region_shift: u32,
    block_shift: u32,
    /// The folio found last.
    last: Option<(FileRange, Key)>,
}

#[derive(Clone, Debug)]
enum Region {
    Whole(Key),
    /// The folio of each block, or `NONE`; and how many blocks have one.
    Parts(Box<[Key]>, usize),
}

const NONE: Key = Key::MAX;

impl FolioIndex {
    /// No folio, for a file of this block size and largest folio, both powers
    /// of two.
    pub(crate) fn new(block_shift: u32, folio_max: LenBytes) -> Self {
        Self {
            regions: BTreeMap::new(),
            region_shift: folio_max.get().trailing_zeros(),
            block_shift,
            last: None,
        }
    }

    /// The folio that holds `at`.
    #[inline]
    pub(crate) fn find(
        &mut self,
        at: FileOffset,
        range_of: impl Fn(Key) -> FileRange,
    ) -> Option<Key> {
        if let Some((range, key)) = self.last
            && range.contains(at)
        {
            return Some(key);
        }
        let key = self.lookup(at)?;
        self.last = Some((range_of(key), key));
        Some(key)
    }

    /// The folio that holds `at`, without noting it.
    pub(crate) fn lookup(&self, at: FileOffset) -> Option<Key> {
        match self.regions.get(&(at.get() >> self.region_shift))? {
            Region::Whole(key) => Some(*key),
            Region::Parts(keys, _) => keys
                .get(self.part_of(at.get()))
                .copied()
                .filter(|key| *key != NONE),
        }
    }

    /// Whether no folio holds any byte of `range`, which lies in one region.
    pub(crate) fn is_free(&self, range: FileRange) -> bool {
        match self
            .regions
            .get(&(range.start().get() >> self.region_shift))
        {
            None => true,
            Some(Region::Whole(_)) => false,
            Some(Region::Parts(keys, _)) => keys
                .get(self.parts_of(range))
                .is_some_and(|keys| keys.iter().all(|key| *key == NONE)),
        }
    }

    /// Adds a folio where none is.
    pub(crate) fn insert(&mut self, geometry: FolioGeometry, key: Key) {
        let range = geometry.range();
        let number = range.start().get() >> self.region_shift;
        if range.len().get() == 1 << self.region_shift {
            self.regions.insert(number, Region::Whole(key));
            return;
        }
        let parts = self.parts_of(range);
        let blocks = 1_usize << (self.region_shift - self.block_shift);
        let region = self
            .regions
            .entry(number)
            .or_insert_with(|| Region::Parts(vec![NONE; blocks].into(), 0));
        if let Region::Parts(keys, used) = region
            && let Some(keys) = keys.get_mut(parts)
        {
            keys.fill(key);
            *used += keys.len();
        }
    }

    /// Takes a folio out.
    pub(crate) fn remove(&mut self, geometry: FolioGeometry) {
        self.last = None;
        let range = geometry.range();
        let number = range.start().get() >> self.region_shift;
        let parts = self.parts_of(range);
        if let Some(Region::Parts(keys, used)) = self.regions.get_mut(&number) {
            if let Some(keys) = keys.get_mut(parts) {
                keys.fill(NONE);
                *used -= keys.len();
            }
            if *used > 0 {
                return;
            }
        }
        self.regions.remove(&number);
    }

    /// Calls `visit` with each folio that holds a byte of `range`, ascending.
    pub(crate) fn visit(&self, range: FileRange, mut visit: impl FnMut(Key)) {
        if range.is_empty() {
            return;
        }
        let first = range.start().get() >> self.region_shift;
        let last = (range.end().get() - 1) >> self.region_shift;
        for (number, region) in self.regions.range(first..=last) {
            match region {
                Region::Whole(key) => visit(*key),
                Region::Parts(keys, _) => {
                    let start = FileOffset::new(number << self.region_shift);
                    let len = LenBytes::new(1 << self.region_shift);
                    let whole = FileRange::at(start, len)
                        .unwrap_or(FileRange::clamped(start, FileOffset::MAX));
                    let Some(part) = whole.overlap(range) else {
                        continue;
                    };
                    let mut before = NONE;
                    for key in keys.get(self.parts_of(part)).unwrap_or_default() {
                        if *key != before && *key != NONE {
                            visit(*key);
                        }
                        before = *key;
                    }
                }
            }
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "a region holds as many blocks as its array, whose length is a usize"
    )]
    fn part_of(&self, at: u64) -> usize {
        ((at & ((1 << self.region_shift) - 1)) >> self.block_shift) as usize
    }

    /// The places of the blocks that `range`, not empty and in one region, meets.
    fn parts_of(&self, range: FileRange) -> core::ops::Range<usize> {
        let last = range.end().get().saturating_sub(1).max(range.start().get());
        self.part_of(range.start().get())..self.part_of(last) + 1
    }
}

#[cfg(test)]
mod tests {
    use extentwise_core::geometry::BlockSize;

    use super::*;

    fn folio(pos: u64, size: u64) -> FolioGeometry {
        let block = BlockSize::new(512).unwrap();
        FolioGeometry::new(FileOffset::new(pos), LenBytes::new(size), block).unwrap()
    }

    fn range(start: u64, end: u64) -> FileRange {
        FileRange::clamped(FileOffset::new(start), FileOffset::new(end))
    }

    #[test]
    fn folios_of_all_sizes_are_found_at_each_of_their_blocks() {
        let mut index = FolioIndex::new(9, LenBytes::new(4096));
        let folios = [
            folio(0, 512),
            folio(1024, 1024),
            folio(4096, 4096),
            folio(1 << 40, 2048),
        ];
        for (key, geometry) in (0..).zip(folios) {
            assert!(index.is_free(geometry.range()));
            index.insert(geometry, key);
            assert!(!index.is_free(geometry.range()));
        }
        let found = |at: u64| index.lookup(FileOffset::new(at));
        assert_eq!((found(0), found(511), found(512)), (Some(0), Some(0), None));
        assert_eq!(
            (found(1024), found(2047), found(2048)),
            (Some(1), Some(1), None)
        );
        assert_eq!(
            (found(4096), found(8191), found(8192)),
            (Some(2), Some(2), None)
        );
        assert_eq!(found((1 << 40) + 2047), Some(3));
        let mut seen = vec![];
        index.visit(range(511, u64::MAX), |key| seen.push(key));
        assert_eq!(seen, [0, 1, 2, 3]);
        seen.clear();
        index.visit(range(512, 1025), |key| seen.push(key));
        assert_eq!(seen, [1]);
    }

    #[test]
    fn a_region_without_folios_is_forgotten() {
        let mut index = FolioIndex::new(9, LenBytes::new(4096));
        index.insert(folio(0, 512), 0);
        index.insert(folio(512, 512), 1);
        index.insert(folio(8192, 4096), 2);
        for geometry in [folio(0, 512), folio(512, 512), folio(8192, 4096)] {
            index.remove(geometry);
        }
        assert!(index.regions.is_empty());
        assert!(index.is_free(range(0, 4096)));
    }

    #[test]
    fn the_folio_found_last_is_not_found_once_it_is_gone() {
        let mut index = FolioIndex::new(9, LenBytes::new(4096));
        index.insert(folio(0, 512), 7);
        let find = |index: &mut FolioIndex| index.find(FileOffset::new(9), |_| range(0, 512));
        assert_eq!(find(&mut index), Some(7));
        assert_eq!(find(&mut index), Some(7));
        index.remove(folio(0, 512));
        assert_eq!(find(&mut index), None);
    }
}
