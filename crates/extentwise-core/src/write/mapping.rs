//! What is known of where a block's data is: mapped, new, delayed, unwritten.

use crate::bitmap::{BitmapError, BlockBitmap};
use crate::geometry::{BlockIndex, BlockRange, FileRange, FolioGeometry};
use bitflags::bitflags;

bitflags! {
    /// What is known of the mapping of one block.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct MappingFlags: u8 {
        /// The file system has said where the block is.
        const MAPPED = 1 << 0;
        /// It was allocated by a write that has not been committed.
        const NEW = 1 << 1;
        /// Space is reserved; where it lies is decided at writeback.
        const DELAY = 1 << 2;
        /// It is allocated, and the device holds no data for it yet.
        const UNWRITTEN = 1 << 3;
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

/// The mapping flags of each block of a folio, over bitmaps with words of type
/// `W`.
#[derive(Clone, Debug)]
pub struct MappingState<W> {
    mapped: BlockBitmap<W>,
    new: BlockBitmap<W>,
    delay: BlockBitmap<W>,
    unwritten: BlockBitmap<W>,
}

impl<const N: usize> MappingState<[u64; N]> {
    /// Nothing known of any block, in words of its own.
    pub fn empty(geometry: FolioGeometry) -> Result<Self, BitmapError> {
        Self::unmapped(geometry, [[0; N]; 4])
    }
}

impl<W: AsRef<[u64]> + AsMut<[u64]>> MappingState<W> {
    /// Nothing known of any block, over four bitmaps' worth of words, which are
    /// cleared.
    pub fn unmapped(geometry: FolioGeometry, words: [W; 4]) -> Result<Self, BitmapError> {
        let [mapped, new, delay, unwritten] = words;
        let blocks = geometry.blocks();
        Ok(Self {
            mapped: BlockBitmap::cleared(mapped, blocks)?,
            new: BlockBitmap::cleared(new, blocks)?,
            delay: BlockBitmap::cleared(delay, blocks)?,
            unwritten: BlockBitmap::cleared(unwritten, blocks)?,
        })
    }

    /// What is known of `block`.
    #[must_use]
    pub fn flags(&self, block: BlockIndex) -> MappingFlags {
        let mut flags = MappingFlags::empty();
        flags.set(MappingFlags::MAPPED, self.mapped.test(block));
        flags.set(MappingFlags::NEW, self.new.test(block));
        flags.set(MappingFlags::DELAY, self.delay.test(block));
        flags.set(MappingFlags::UNWRITTEN, self.unwritten.test(block));
        flags
    }

    /// Replaces what is known of the blocks of `run`, as when a mapping
    /// changed: delayed blocks got a place, unwritten ones were written, a
    /// punch took them away.
    pub fn replace(&mut self, run: BlockRange, flags: MappingFlags) {
        let bitmaps = [
            (MappingFlags::MAPPED, &mut self.mapped),
            (MappingFlags::NEW, &mut self.new),
            (MappingFlags::DELAY, &mut self.delay),
            (MappingFlags::UNWRITTEN, &mut self.unwritten),
        ];
        for (flag, bitmap) in bitmaps {
            if flags.contains(flag) {
                bitmap.set(run);
            } else {
                bitmap.clear(run);
            }
        }
    }

    /// The first run of blocks in `range` that are not mapped.
    pub(super) fn next_unmapped(&self, range: BlockRange) -> Option<BlockRange> {
        self.mapped.next_gap(range)
    }

    /// The first run of blocks in `range` that are new.
    pub(super) fn next_new(&self, range: BlockRange) -> Option<BlockRange> {
        self.new.next_run(range)
    }

    pub(super) fn clear_new(&mut self, run: BlockRange) {
        self.new.clear(run);
    }
}
