//! What a simulation is about: sizes, policy, store, trouble.

use std::num::NonZeroUsize;

use extentwise_engine::{BioLimits, BlockSize, Config, ErrorPolicy, LenBytes, Stride, WriteCache};

use super::Choices;

/// Where the data of a simulation lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backing {
    /// Each file on a device of its own, in place
    /// ([`Identity`](extentwise_engine::Identity)).
    Flat,
    /// All files in a [`ThinStore`](extentwise_thin::ThinStore).
    Thin,
}

/// What goes wrong in a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trouble {
    /// Nothing.
    None,
    /// Now and then a device call, or memory for a folio, is refused.
    Faults,
}

/// What a simulation is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Where data lies.
    pub backing: Backing,
    /// What goes wrong.
    pub trouble: Trouble,
    /// What becomes of data that could not be written.
    pub policy: ErrorPolicy,
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Blocks of the largest folio.
    pub folio_blocks: u64,
    /// Largest folios that the cache has room for.
    pub cache_folios: u64,
    /// Blocks of the longest ordered extent.
    pub extent_blocks: u64,
    /// Blocks of the largest bio; 0: no limit.
    pub bio_blocks: u64,
    /// How a pass walks a folio.
    pub stride: Stride,
    /// Blocks of a thin store that are free at the start.
    pub free_blocks: u64,
    /// Steps before everything is brought to rest.
    pub steps: u64,
}

impl Setup {
    /// Draws the sizes, so tiny that eviction, back-pressure and short space are
    /// ordinary.
    pub fn drawn(choices: &mut Choices<'_>, backing: Backing, trouble: Trouble) -> Self {
        let policies = [
            ErrorPolicy::KeepDirty,
            ErrorPolicy::Drop,
            ErrorPolicy::Latch,
        ];
        Self {
            backing,
            trouble,
            policy: choices.one_of(&policies),
            block_bytes: choices.one_of(&[512, 512, 512, 1024]),
            folio_blocks: choices.one_of(&[4, 2, 4]),
            cache_folios: choices.one_of(&[4, 3, 4, 6]),
            extent_blocks: choices.one_of(&[64, 1, 2]),
            bio_blocks: choices.one_of(&[0, 1, 2]),
            stride: choices.one_of(&[Stride::Extent, Stride::Extent, Stride::Block]),
            free_blocks: choices.one_of(&[60, 44, 32]),
            steps: 12 + choices.below(21),
        }
    }

    pub(super) fn block_size(&self) -> BlockSize {
        BlockSize::new(self.block_bytes).expect("a block size from the list")
    }

    /// The engine's configuration.
    pub(super) fn config(&self) -> Config {
        let block = self.block_bytes;
        let folio = block * self.folio_blocks;
        let bio = (self.bio_blocks > 0).then(|| LenBytes::new(self.bio_blocks * block));
        let segments = NonZeroUsize::new(usize::try_from(self.bio_blocks).unwrap_or(0));
        let cache = LenBytes::new(folio * self.cache_folios);
        Config {
            folio_bytes_max: LenBytes::new(folio),
            extent_bytes_max: LenBytes::new(self.extent_blocks * block),
            bio_limits: BioLimits::new(bio, segments, self.block_size())
                .unwrap_or(BioLimits::UNLIMITED),
            write_cache: WriteCache::Volatile,
            policy: self.policy,
            stride: self.stride,
            ..Config::new(self.block_size()).with_cache_bytes(cache)
        }
    }

    /// What a crash may round a size up to: a file in place is as long as the
    /// whole blocks that are being written.
    pub(super) fn size_unit(&self) -> u64 {
        match self.backing {
            Backing::Flat => self.block_bytes,
            Backing::Thin => 1,
        }
    }

    /// Bytes that a crash shows in one version: a block where it is written to a
    /// new place, a sector where it is overwritten.
    pub(super) fn atom(&self) -> usize {
        match self.backing {
            Backing::Flat => crate::device::SECTOR,
            Backing::Thin => usize::try_from(self.block_bytes).unwrap_or(usize::MAX),
        }
    }
}
