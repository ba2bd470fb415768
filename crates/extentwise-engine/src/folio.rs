//! One folio of the cache: its state, its bytes, who holds it.

use alloc::boxed::Box;
use alloc::vec;

use extentwise_core::bitmap::{BitmapError, BlockBitmap, BlockBitmaps, words_for};
use extentwise_core::errseq::ErrorClass;
use extentwise_core::folio::FolioState;
use extentwise_core::geometry::{BlockRange, FileRange, FolioGeometry};
use extentwise_core::write::MappingState;

use crate::slab::Key;

/// The words of `N` bitmaps: in place for up to 64 blocks, else together on the
/// heap.
#[derive(Clone, Debug)]
pub(crate) enum Words<const N: usize> {
    One([u64; N]),
    Many(Box<[u64]>),
}

impl<const N: usize> Words<N> {
    fn cleared(blocks: usize) -> Self {
        match words_for(blocks) {
            0 | 1 => Self::One([0; N]),
            words => Self::Many(vec![0; N * words].into()),
        }
    }
}

impl<const N: usize> AsRef<[u64]> for Words<N> {
    #[inline]
    fn as_ref(&self) -> &[u64] {
        match self {
            Self::One(words) => words,
            Self::Many(words) => words,
        }
    }
}

impl<const N: usize> AsMut<[u64]> for Words<N> {
    #[inline]
    fn as_mut(&mut self) -> &mut [u64] {
        match self {
            Self::One(words) => words,
            Self::Many(words) => words,
        }
    }
}

const RESERVED: usize = 4;
const FAILED: usize = 5;

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
    pub(crate) state: FolioState<Words<3>>,
    /// The four bitmaps of the mappings, and two more.
    more: BlockBitmaps<Words<6>, 6>,
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
        let blocks = geometry.blocks();
        Ok(Self {
            file,
            state: FolioState::new(geometry, Words::cleared(blocks))?,
            more: BlockBitmaps::cleared(Words::cleared(blocks), blocks)?,
            bytes,
            owner: Owner::None,
            readers: 0,
            wanted: false,
            referenced: true,
            fill_error: None,
        })
    }

    /// Its state, and what is known of its blocks' mappings.
    #[inline]
    pub(crate) fn parts(&mut self) -> (&mut FolioState<Words<3>>, MappingState<&mut [u64]>) {
        (&mut self.state, MappingState::over(self.more.first_mut()))
    }

    /// Blocks for which the mapping has promised space.
    pub(crate) fn reserved(&self) -> BlockBitmap<&[u64]> {
        self.more.get::<RESERVED>()
    }

    pub(crate) fn reserved_mut(&mut self) -> BlockBitmap<&mut [u64]> {
        self.more.get_mut::<RESERVED>()
    }

    /// Dirty blocks that could not be written the last time.
    pub(crate) fn failed(&self) -> BlockBitmap<&[u64]> {
        self.more.get::<FAILED>()
    }

    pub(crate) fn failed_mut(&mut self) -> BlockBitmap<&mut [u64]> {
        self.more.get_mut::<FAILED>()
    }

    #[inline]
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
    pub(crate) fn submittable(&self) -> Result<BlockBitmap<Words<1>>, BitmapError> {
        let geometry = self.geometry();
        let words = Words::cleared(geometry.blocks());
        let mut submit = self.state.dirty().copied_to(words)?;
        for run in self.state.writeback().runs(geometry.all()) {
            submit.clear(run);
        }
        Ok(submit)
    }

    /// Whether a dirty block is in writeback.
    pub(crate) fn is_dirty_in_writeback(&self) -> bool {
        let (dirty, writeback) = (self.state.dirty(), self.state.writeback());
        let both = dirty.words().iter();
        both.zip(writeback.words())
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
