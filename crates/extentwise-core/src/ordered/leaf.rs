//! A few dozen ordered extents, side by side.

use super::Entry;
use crate::geometry::{BlockSize, FileOffset};
use alloc::vec::Vec;

/// Entries of a leaf at the most: not more than `used` has bits. Few where a fuzzer
/// looks, whose short histories are to meet splits and joins.
pub(super) const LEAF_MAX: usize = if cfg!(fuzzing) { 4 } else { 64 };

/// Where extents begin, ascending, and apart from that their entries, which do
/// not move: a search goes over few lines of the processor's cache.
///
/// **Invariant**: the slots of the first `len` places are the bits of `used`,
/// and hold the entries that begin there.
#[derive(Clone, Debug)]
#[repr(C)] // What each search needs lies in one line of the cache.
pub(super) struct Leaf<F> {
    entries: Vec<Slot<F>>,
    len: usize,
    used: u64,
    places: [Place; LEAF_MAX],
}

/// Where an extent begins, and the slot of its entry in the bits that are zero in
/// each multiple of a block size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place(u64);

const _: () = assert!(LEAF_MAX as u64 <= BlockSize::MIN.bytes());

/// An entry in whole lines of the processor's cache.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Slot<F>(Option<Entry<F>>);

impl Place {
    #[inline]
    pub(super) const fn start(self) -> FileOffset {
        FileOffset::new(BlockSize::MIN.floor(self.0))
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the low bits are wanted")]
    const fn slot(self) -> usize {
        self.0 as usize % LEAF_MAX
    }
}

impl<F> Default for Leaf<F> {
    fn default() -> Self {
        Self {
            places: [Place(0); LEAF_MAX],
            len: 0,
            used: 0,
            entries: Vec::new(),
        }
    }
}

impl<F> Leaf<F> {
    /// An empty leaf with the memory of a full one.
    pub(super) fn roomy() -> Self {
        Self {
            entries: Vec::with_capacity(LEAF_MAX),
            ..Self::default()
        }
    }

    pub(super) const fn is_full(&self) -> bool {
        self.len == LEAF_MAX
    }

    #[inline]
    pub(super) fn places(&self) -> &[Place] {
        self.places.get(..self.len).unwrap_or_default()
    }

    /// The first place that begins behind `at`.
    #[inline]
    pub(super) fn behind(&self, at: FileOffset) -> usize {
        let last = at.get() | (BlockSize::MIN.bytes() - 1);
        self.places().partition_point(|place| place.0 <= last)
    }

    #[inline]
    pub(super) fn entry(&self, place: usize) -> Option<&Entry<F>> {
        let slot = self.places().get(place)?.slot();
        self.entries.get(slot)?.0.as_ref()
    }

    #[inline]
    pub(super) fn entry_mut(&mut self, place: usize) -> Option<&mut Entry<F>> {
        let slot = self.places().get(place)?.slot();
        self.entries.get_mut(slot)?.0.as_mut()
    }

    /// Opens `place`, before what is there, for an entry that begins at `start`:
    /// the caller puts it where this answers, which spares moving it. `None` if
    /// there is no room.
    #[inline]
    pub(super) fn open(
        &mut self,
        place: usize,
        start: FileOffset,
    ) -> Option<&mut Option<Entry<F>>> {
        let slot = self.used.trailing_ones();
        let behind = self.places.get_mut(place..=self.len)?;
        if behind.len() > 1 {
            behind.copy_within(..behind.len() - 1, 1);
        }
        *behind.first_mut()? = Place(start.get() | u64::from(slot));
        self.len += 1;
        self.used |= 1 << slot;
        let slot = slot as usize;
        if slot == self.entries.len() {
            self.entries.push(Slot(None));
        }
        Some(&mut self.entries.get_mut(slot)?.0)
    }

    /// Drops the entry at `place`.
    #[inline]
    pub(super) fn remove(&mut self, place: usize) {
        let Some(slot) = self.places().get(place).map(|place| place.slot()) else {
            return;
        };
        self.places.copy_within(place + 1..self.len, place);
        self.len -= 1;
        self.free(slot);
    }

    /// Moves what `other` holds from `place` on behind all here. There must be
    /// room.
    pub(super) fn append(&mut self, other: &mut Self, place: usize) {
        for at in place..other.len {
            let slot = other.places.get(at).map_or(0, |place| place.slot());
            if let Some(entry) = other.free(slot)
                && let Some(slot) = self.open(self.len, entry.extent.file_offset())
            {
                *slot = Some(entry);
            }
        }
        other.len = other.len.min(place);
    }

    fn free(&mut self, slot: usize) -> Option<Entry<F>> {
        self.used &= !(1 << slot);
        self.entries.get_mut(slot)?.0.take()
    }
}
