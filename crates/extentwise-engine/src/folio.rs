//! One folio of the cache: its state, its bytes, who holds it.

use alloc::boxed::Box;
use alloc::vec;

use extentwise_core::bitmap::{BitmapError, BlockBitmap, words_for};
use extentwise_core::errseq::ErrorClass;
use extentwise_core::folio::FolioState;
use extentwise_core::geometry::{BlockRange, FileRange, FolioGeometry};
use extentwise_core::write::MappingState;

use crate::slab::Key;

/// The words of a bitmap: in place for up to 64 blocks, else on the heap.
#[derive(Clone, Debug)]
pub(crate) enum Words {
    One([u64; 1]),
    Many(Box<[u64]>),
}

impl Words {
    fn cleared(blocks: usize) -> Self {
        match words_for(blocks) {
            0 | 1 => Self::One([0]),
            words => Self::Many(vec![0; words].into()),
        }
    }
}

impl AsRef<[u64]> for Words {
    #[inline]
    fn as_ref(&self) -> &[u64] {
        match self {
            Self::One(words) => words,
            Self::Many(words) => words,
        }
    }
}

impl AsMut<[u64]> for Words {
    #[inline]
    fn as_mut(&mut self) -> &mut [u64] {
        match self {
            Self::One(words) => words,
            Self::Many(words) => words,
        }
    }
}

/// Who may change the bytes of a folio: nobody, one writer, or the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    None,
    /// A prepared write, by its ticket. No pass goes over the folio: what the
    /// writer copied past the size would be zeroed (S4, W1).
    Writer(Key),
    /// So many reads from the device are under way.
    Fill(u32),
}

/// A cached folio.
///
/// **Invariant**: a dirty block is uptodate; a reserved block is dirty, or lies
/// in the write of the folio's owner; a failed block is dirty.
#[derive(Clone, Debug)]
pub(crate) struct Folio<B> {
    pub(crate) file: Key,
    pub(crate) state: FolioState<Words>,
    pub(crate) maps: MappingState<Words>,
    /// Blocks for which the mapping has promised space.
    pub(crate) reserved: BlockBitmap<Words>,
    /// Dirty blocks that could not be written the last time.
    pub(crate) failed: BlockBitmap<Words>,
    pub(crate) bytes: B,
    pub(crate) owner: Owner,
    /// Reads that look at the bytes.
    pub(crate) readers: u32,
    /// Writeback waits for the owner; no new writer comes in before it.
    pub(crate) wanted: bool,
    /// Used since the eviction's hand came by.
    pub(crate) referenced: bool,
    /// Why the last fill failed.
    pub(crate) fill_error: Option<ErrorClass>,
}

impl<B> Folio<B> {
    /// A folio of which nothing is known.
    pub(crate) fn new(file: Key, geometry: FolioGeometry, bytes: B) -> Result<Self, BitmapError> {
        let words = || Words::cleared(geometry.blocks());
        Ok(Self {
            file,
            state: FolioState::new(geometry, [words(), words(), words()])?,
            maps: MappingState::unmapped(geometry, [words(), words(), words(), words()])?,
            reserved: BlockBitmap::cleared(words(), geometry.blocks())?,
            failed: BlockBitmap::cleared(words(), geometry.blocks())?,
            bytes,
            owner: Owner::None,
            readers: 0,
            wanted: false,
            referenced: true,
            fill_error: None,
        })
    }

    pub(crate) fn geometry(&self) -> FolioGeometry {
        self.state.geometry()
    }

    /// Whether it can leave the cache without a loss (C5).
    pub(crate) fn is_evictable(&self) -> bool {
        self.owner == Owner::None
            && self.readers == 0
            && !self.state.is_dirty()
            && !self.state.is_in_writeback()
    }

    /// The dirty blocks that are not in writeback: what a pass may submit. A
    /// block dirtied in writeback waits until that has ended (C3).
    pub(crate) fn submittable(&self) -> BlockBitmap<Words> {
        let mut submit = self.state.dirty().clone();
        let all = self.geometry().all();
        for run in self.state.writeback().runs(all) {
            submit.clear(run);
        }
        submit
    }

    /// Whether a dirty block is in writeback.
    pub(crate) fn is_dirty_in_writeback(&self) -> bool {
        let both = self.state.dirty().words().iter();
        both.zip(self.state.writeback().words())
            .any(|(dirty, writeback)| dirty & writeback != 0)
    }

    /// The place of `range`, which lies in the folio, in its bytes.
    pub(crate) fn place_of(&self, range: FileRange) -> core::ops::Range<usize> {
        let pos = self.geometry().pos();
        let place = |at: extentwise_core::geometry::FileOffset| {
            usize::try_from(at.distance_from(pos).get()).unwrap_or(usize::MAX)
        };
        place(range.start())..place(range.end())
    }

    /// How many blocks of `run` are dirty.
    pub(crate) fn dirty_in(&self, run: BlockRange) -> usize {
        self.state.dirty().count_in(run)
    }
}
