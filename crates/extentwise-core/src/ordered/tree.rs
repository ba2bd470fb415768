//! A store on the heap, of any size.

use super::leaf::{LEAF_MAX, Leaf};
use super::{AddError, Entry, ExtentStore, FinishedMap, HeapFinishedMap, OrderedExtent, OrderedId};
use crate::geometry::{FileOffset, FileRange};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Any number of ordered extents, in a tree of two levels: one row of leaves
/// that hold a few dozen each.
///
/// A lookup costs `O(log n)`, an insertion or a removal moves 16 bytes an entry
/// in one leaf. Where a leaf is split, comes or goes, once in many times, the
/// row moves, 16 bytes a leaf.
///
/// **Invariant**: leaves and what they hold ascend; no leaf is empty, and the
/// row knows where the first extent of each begins.
#[derive(Clone, Debug)]
pub struct TreeStore<F = HeapFinishedMap> {
    row: Vec<Child<F>>,
    len: usize,
    /// Where an entry was visited last: it is likely to be taken out next.
    visited: Spot,
}

/// A leaf and where its first extent begins.
#[derive(Clone, Debug)]
struct Child<F> {
    first: FileOffset,
    leaf: Box<Leaf<F>>,
}

/// A place in a leaf, both by number; the place may be the end of the leaf.
#[derive(Clone, Copy, Debug, Default)]
struct Spot {
    leaf: usize,
    place: usize,
}

impl<F> Default for TreeStore<F> {
    fn default() -> Self {
        Self {
            row: Vec::new(),
            len: 0,
            visited: Spot::default(),
        }
    }
}

impl<F: FinishedMap> ExtentStore for TreeStore<F> {
    type Finished = F;

    fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn at_or_before(&self, at: FileOffset) -> Option<&OrderedExtent> {
        Some(&self.entry(self.behind(at).before()?)?.extent)
    }

    fn ascending(&self, at: FileOffset) -> impl Iterator<Item = &OrderedExtent> {
        let mut spot = self.at_or_behind(at);
        core::iter::from_fn(move || {
            loop {
                let child = self.row.get(spot.leaf)?;
                if let Some(entry) = child.leaf.entry(spot.place) {
                    spot.place += 1;
                    return Some(&entry.extent);
                }
                spot = spot.next_leaf();
            }
        })
    }

    fn get_mut(&mut self, start: FileOffset) -> Option<&mut Entry<F>> {
        let spot = self.behind(start).before()?;
        let entry = self.row.get_mut(spot.leaf)?.leaf.entry_mut(spot.place)?;
        (entry.extent.file_offset() == start).then_some(entry)
    }

    #[inline]
    fn visit_mut(&mut self, range: FileRange, mut visit: impl FnMut(&mut Entry<F>)) {
        let behind = self.behind(range.start());
        let mut spot = behind.before().unwrap_or(behind);
        while let Some(child) = self.row.get_mut(spot.leaf) {
            while let Some(entry) = child.leaf.entry_mut(spot.place) {
                if entry.extent.file_offset() >= range.end() {
                    return;
                }
                if entry.extent.range().end() > range.start() {
                    visit(entry);
                    self.visited = spot;
                }
                spot.place += 1;
            }
            spot = spot.next_leaf();
        }
    }

    fn has_room(&self) -> bool {
        true
    }

    #[inline]
    fn add(&mut self, entry: Entry<F>) -> Result<(), AddError> {
        let range = entry.extent.range();
        let spot = self.at_or_behind(range.end());
        let before = spot.before().and_then(|before| self.entry(before));
        if before.is_some_and(|before| before.extent.range().end() > range.start()) {
            return Err(AddError::Overlap);
        }
        let opened = self.open(spot, range.start());
        *opened.ok_or(AddError::Full)? = Some(entry);
        Ok(())
    }

    #[inline]
    fn take(&mut self, id: OrderedId, start: FileOffset) -> Option<OrderedExtent> {
        let is_it =
            |entry: &Entry<F>| entry.extent.id() == id && entry.extent.file_offset() == start;
        let mut spot = self.visited;
        if !self.entry(spot).is_some_and(is_it) {
            spot = self.behind(start).before()?;
        }
        let extent = self.entry(spot).filter(|entry| is_it(entry))?.extent;
        self.remove_at(spot);
        Some(extent)
    }
}

impl<F> TreeStore<F> {
    /// The first place that begins behind `at`; at the end of a leaf, the first of
    /// the next one is meant.
    #[inline]
    fn behind(&self, at: FileOffset) -> Spot {
        // Most are added, and many looked for, behind all others.
        if let Some(child) = self.row.last()
            && let places = child.leaf.places()
            && places.last().is_some_and(|last| last.start() <= at)
        {
            return Spot {
                leaf: self.row.len() - 1,
                place: places.len(),
            };
        }
        let behind = self.row.partition_point(|child| child.first <= at);
        let leaf = behind.saturating_sub(1);
        let place = self.row.get(leaf).map_or(0, |child| child.leaf.behind(at));
        Spot { leaf, place }
    }

    /// The first place that begins at or behind `at`.
    #[inline]
    fn at_or_behind(&self, at: FileOffset) -> Spot {
        match at.get().checked_sub(1) {
            Some(before) => self.behind(FileOffset::new(before)),
            None => Spot::default(),
        }
    }

    #[inline]
    fn entry(&self, spot: Spot) -> Option<&Entry<F>> {
        self.row.get(spot.leaf)?.leaf.entry(spot.place)
    }

    /// Opens the place that `behind` said.
    #[inline]
    fn open(&mut self, spot: Spot, start: FileOffset) -> Option<&mut Option<Entry<F>>> {
        let is_full = |child: &Child<F>| child.leaf.is_full();
        let mut spot = spot;
        if self.row.get(spot.leaf).is_none_or(is_full) {
            spot = self.make_room(spot, start);
        }
        let child = self.row.get_mut(spot.leaf)?;
        child.first = child.first.min(start);
        self.len += 1;
        child.leaf.open(spot.place, start)
    }

    /// Answers where a place is now whose leaf was full, or missing.
    fn make_room(&mut self, spot: Spot, start: FileOffset) -> Spot {
        let next = spot.next_leaf();
        let is_last = next.leaf == self.row.len();
        let child = |leaf: Leaf<F>| Child {
            first: leaf.places().first().map_or(start, |first| first.start()),
            leaf: Box::new(leaf),
        };
        let Some(front) = self.row.get_mut(spot.leaf) else {
            self.row.push(child(Leaf::default()));
            return spot;
        };
        let mut back = Leaf::roomy();
        if is_last && spot.place == LEAF_MAX {
            // What comes in order leaves full leaves behind.
            self.row.push(child(back));
            return next;
        }
        back.append(&mut front.leaf, LEAF_MAX / 2);
        self.row.insert(next.leaf, child(back));
        match spot.place.checked_sub(LEAF_MAX / 2) {
            None | Some(0) => spot,
            Some(place) => Spot { place, ..next },
        }
    }

    #[inline]
    fn remove_at(&mut self, spot: Spot) {
        let Some(child) = self.row.get_mut(spot.leaf) else {
            return;
        };
        child.leaf.remove(spot.place);
        self.len -= 1;
        match child.leaf.places() {
            [] => {
                self.row.remove(spot.leaf);
            }
            [first, rest @ ..] => {
                child.first = first.start();
                if rest.len() < LEAF_MAX / 2 && self.row.len() > 1 {
                    self.join(spot.leaf);
                    self.join(spot.leaf.wrapping_sub(1));
                }
            }
        }
    }

    /// Makes one leaf of this one and the next where half a leaf holds both, so
    /// that removals do not leave many small ones.
    fn join(&mut self, leaf: usize) {
        let next = leaf.wrapping_add(1);
        let len = |leaf: usize| self.row.get(leaf).map(|child| child.leaf.places().len());
        let (Some(front), Some(back)) = (len(leaf), len(next)) else {
            return;
        };
        if front + back <= LEAF_MAX / 2 {
            let mut back = self.row.remove(next);
            if let Some(front) = self.row.get_mut(leaf) {
                front.leaf.append(&mut back.leaf, 0);
            }
        }
    }
}

impl Spot {
    /// The place before one that `behind` answered: in the same leaf, for only the
    /// first of all has none before it there.
    #[inline]
    fn before(self) -> Option<Self> {
        let place = self.place.checked_sub(1)?;
        Some(Self { place, ..self })
    }

    const fn next_leaf(self) -> Self {
        Self {
            leaf: self.leaf + 1,
            place: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::{DiskByte, LenBytes};
    use crate::ordered::NewOrdered;
    use alloc::collections::BTreeMap;

    const B: u64 = 512;
    /// Blocks in use, for some twenty leaves.
    const SPAN: u64 = 1500;

    /// A store beside a sorted map: start to end and name.
    #[derive(Default)]
    struct Pair {
        store: TreeStore,
        model: BTreeMap<u64, (u64, u64)>,
        next_id: u64,
    }

    impl Pair {
        fn add(&mut self, start: u64, len: u64) {
            let spec = NewOrdered::plain(
                FileOffset::new(start * B),
                LenBytes::new(len * B),
                DiskByte::new(0),
            );
            let id = self.next_id;
            self.next_id += 1;
            let added = self.store.add(Entry {
                extent: OrderedExtent::new(OrderedId(id), spec),
                finished: HeapFinishedMap::default(),
            });
            let before = self.model.range(..start + len).next_back();
            if before.is_some_and(|(_, (end, _))| *end > start) {
                assert_eq!(added, Err(AddError::Overlap));
            } else {
                assert_eq!(added, Ok(()));
                self.model.insert(start, (start + len, id));
            }
        }

        /// Takes what begins at `start`, under its name and not under another.
        fn take(&mut self, start: u64) {
            let known = self.model.remove(&start);
            let at = FileOffset::new(start * B);
            let id = known.map_or(0, |(_, id)| id);
            assert_eq!(self.store.take(OrderedId(id + 1), at), None);
            let taken = self.store.take(OrderedId(id), at);
            assert_eq!(taken.map(|extent| extent.id().0), known.map(|(_, id)| id));
        }

        fn look(&mut self, start: u64, len: u64) {
            let name = |extent: &OrderedExtent| extent.id().0;
            let at = FileOffset::new(start * B);
            let before = self.model.range(..=start).next_back();
            let behind = self.model.range(start..);
            let id = |(_, (_, id)): (&u64, &(u64, u64))| *id;
            assert_eq!(self.store.at_or_before(at).map(name), before.map(id));
            let ascending = self.store.ascending(at).map(name).take(100);
            assert!(ascending.eq(behind.map(id).take(100)));
            assert_eq!(
                self.store.get_mut(at).map(|entry| entry.extent.id().0),
                self.model.get(&start).map(|(_, id)| *id)
            );
            let end = start + len;
            let met = self.model.range(..end).filter(|(_, (e, _))| *e > start);
            let mut met = met.map(id);
            let range = FileRange::clamped(at, FileOffset::new(end * B));
            self.store.visit_mut(range, |entry| {
                assert_eq!(Some(entry.extent.id().0), met.next());
            });
            assert_eq!(met.next(), None);
        }

        fn check(&self) {
            assert_eq!(self.store.len(), self.model.len());
            let leaves = self.store.row.iter();
            let places = leaves.clone().flat_map(|child| child.leaf.places());
            let starts = places.map(|place| place.start().get() / B);
            assert!(starts.eq(self.model.keys().copied()));
            for child in leaves {
                let first = child.leaf.places().first().map(|first| first.start());
                assert_eq!(first, Some(child.first));
            }
            for two in self.store.row.windows(2) {
                let both = two.iter().map(|child| child.leaf.places().len());
                assert!(both.sum::<usize>() > LEAF_MAX / 2);
            }
        }
    }

    #[test]
    fn a_tree_that_grows_and_shrinks_in_any_order_agrees_with_a_sorted_map() {
        let mut state = 9_u64;
        let mut number = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % below
        };
        let mut pair = Pair::default();
        for turn in 0..20_000_u64 {
            let start = number(SPAN);
            // It grows for a while, then it shrinks for longer.
            let grows = turn % 5_000 < 2_000;
            if grows == (number(4) > 0) {
                pair.add(start, 1 + number(3) / 2);
            } else {
                let known = pair.model.range(start..).next();
                let known = known.map_or(start, |(start, _)| *start);
                pair.take(known);
            }
            pair.look(number(SPAN), number(200));
            if turn % 16 == 0 {
                pair.check();
            }
        }
    }

    #[test]
    fn extents_in_order_fill_their_leaves_and_leave_from_either_end() {
        for backwards in [false, true] {
            let mut pair = Pair::default();
            for start in 0..1000 {
                pair.add(start, 1);
                pair.check();
            }
            assert_eq!(pair.store.row.len(), 1000_usize.div_ceil(LEAF_MAX));
            for turn in 0..1000 {
                pair.take(if backwards { 999 - turn } else { turn });
                pair.check();
            }
            assert!(pair.store.row.is_empty());
        }
    }

    #[test]
    fn extents_in_falling_order_are_kept_in_order() {
        let mut pair = Pair::default();
        for start in (0..1000).rev() {
            pair.add(start, 1);
            pair.look(start, 3);
        }
        pair.check();
    }
}
