//! What is known of where a block's data is: mapped, new, delayed, unwritten.

use crate::bitmap::{BitmapError, BlockBitmaps};
use crate::geometry::{BlockIndex, BlockRange, FileRange, FolioGeometry};
use bitflags::bitflags;

bitflags! {
    /// What is known of the mapping of one block.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct MappingFlags: u8 {
        /// The file system has said where the block is.
        const MAPPED = 1 << MAPPED;
        /// It was allocated by a write that has not been committed.
        const NEW = 1 << NEW;
        /// Space is reserved; where it lies is decided at writeback.
        const DELAY = 1 << DELAY;
        /// It is allocated, and the device holds no data for it yet.
        const UNWRITTEN = 1 << UNWRITTEN;
    }
}

/// The kind of a mapping answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MappingKind {
    /// The block has a place and data on the device.
    Mapped,
    /// A place was allocated just now.
    New,
    /// Space was reserved just now; the place comes at writeback.
    Delay,
    /// It lies in a preallocated extent without data.
    Unwritten,
}

impl MappingKind {
    /// The flags that the answer sets; it replaces those before (V3).
    #[must_use]
    pub const fn flags(self) -> MappingFlags {
        let mapped = MappingFlags::MAPPED;
        match self {
            Self::Mapped => mapped,
            Self::New => mapped.union(MappingFlags::NEW),
            Self::Delay => mapped.union(MappingFlags::NEW).union(MappingFlags::DELAY),
            Self::Unwritten => mapped
                .union(MappingFlags::NEW)
                .union(MappingFlags::UNWRITTEN),
        }
    }
}

/// The file system's answer to "where is this block?".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// What kind of place it is.
    pub kind: MappingKind,
    /// The bytes of the file that the answer holds for. It must cover the block
    /// that was asked for (V11), and may go further: the walk then asks less.
    pub range: FileRange,
}

/// The mapping flags of each block of a folio: four bitmaps, over words of type
/// `W` that they share.
#[derive(Clone, Debug)]
pub struct MappingState<W> {
    /// Numbered as the bits of the flags are.
    bits: BlockBitmaps<W, 4>,
}

const MAPPED: usize = 0;
const NEW: usize = 1;
const DELAY: usize = 2;
const UNWRITTEN: usize = 3;

impl<const N: usize> MappingState<[u64; N]> {
    /// Nothing known of any block, in `N` words of its own: four for each 64
    /// blocks.
    pub fn empty(geometry: FolioGeometry) -> Result<Self, BitmapError> {
        Self::unmapped(geometry, [0; N])
    }
}

impl<W: AsRef<[u64]> + AsMut<[u64]>> MappingState<W> {
    /// Nothing known of any block, over four bitmaps' worth of words, which are
    /// cleared.
    pub fn unmapped(geometry: FolioGeometry, words: W) -> Result<Self, BitmapError> {
        let bits = BlockBitmaps::cleared(words, geometry.blocks())?;
        Ok(Self { bits })
    }

    /// What these bitmaps tell: mapped, new, delayed and unwritten blocks, in this
    /// order. An embedder who keeps more of them hands in the first four.
    #[must_use]
    pub const fn over(bits: BlockBitmaps<W, 4>) -> Self {
        Self { bits }
    }

    /// What is known of `block`.
    #[must_use]
    pub fn flags(&self, block: BlockIndex) -> MappingFlags {
        let mut flags = MappingFlags::empty();
        flags.set(MappingFlags::MAPPED, self.bits.get::<MAPPED>().test(block));
        flags.set(MappingFlags::NEW, self.bits.get::<NEW>().test(block));
        flags.set(MappingFlags::DELAY, self.bits.get::<DELAY>().test(block));
        let unwritten = self.bits.get::<UNWRITTEN>().test(block);
        flags.set(MappingFlags::UNWRITTEN, unwritten);
        flags
    }

    /// Replaces what is known of the blocks of `run`, as when a mapping
    /// changed: delayed blocks got a place, unwritten ones were written, a
    /// punch took them away.
    pub fn replace(&mut self, run: BlockRange, flags: MappingFlags) {
        self.replace_one::<MAPPED>(run, flags);
        self.replace_one::<NEW>(run, flags);
        self.replace_one::<DELAY>(run, flags);
        self.replace_one::<UNWRITTEN>(run, flags);
    }

    fn replace_one<const NTH: usize>(&mut self, run: BlockRange, flags: MappingFlags) {
        let mut bits = self.bits.get_mut::<NTH>();
        if flags.bits() >> NTH & 1 == 1 {
            bits.set(run);
        } else {
            bits.clear(run);
        }
    }

    /// The first run of blocks in `range` that are not mapped.
    pub(super) fn next_unmapped(&self, range: BlockRange) -> Option<BlockRange> {
        self.bits.get::<MAPPED>().next_gap(range)
    }

    /// The first run of blocks in `range` that are new.
    pub(super) fn next_new(&self, range: BlockRange) -> Option<BlockRange> {
        self.bits.get::<NEW>().next_run(range)
    }

    pub(super) fn clear_new(&mut self, run: BlockRange) {
        self.bits.get_mut::<NEW>().clear(run);
    }
}
