//! What a replay is done with: sizes, limits and policies, checked.

use anyhow::{Result, bail};
use extentwise_engine::{BioLimits, BlockSize, Config, ErrorPolicy, LenBytes, Stride};

use super::Mode;
use super::geometry::Geometry;
use crate::device::Device;
use crate::sizes::shown;

/// The checked options of a replay; sizes in bytes.
///
/// **Invariant**: the cache holds at least two blocks, and at least what may be
/// dirty, which is at least a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) geometry: Geometry,
    pub(crate) cache_size: u64,
    pub(crate) dirty_limit: u64,
    pub(crate) policy: Policy,
    pub(crate) mode: Mode,
    pub(crate) device: Device,
}

/// What becomes of data that could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Policy {
    /// It stays dirty and is written again by the next sync
    Keep,
    /// It counts as clean, and its loss is reported: the Linux rule
    Drop,
    /// It stays dirty, and the file refuses writes until it is opened again
    Latch,
}

impl From<Policy> for ErrorPolicy {
    fn from(policy: Policy) -> Self {
        match policy {
            Policy::Keep => Self::KeepDirty,
            Policy::Drop => Self::Drop,
            Policy::Latch => Self::Latch,
        }
    }
}

/// Who writes, and writes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writers {
    /// One thread does both.
    One,
    /// Threads write, and others write back.
    Threads,
}

/// Dirty bytes at which everything is written back, unless the cache is small.
const DIRTY_LIMIT: u64 = 64 << 20;

impl Settings {
    /// Checks the limits; a message names the option, the value and the rule.
    pub(crate) fn new(
        geometry: Geometry,
        cache_size: u64,
        dirty_limit: Option<u64>,
        policy: Policy,
        mode: Mode,
    ) -> Result<Self> {
        let block_size = geometry.block_size();
        if cache_size < 2 * block_size {
            bail!(
                "--cache-size {}: must be at least two blocks ({})",
                shown(cache_size),
                shown(2 * block_size)
            );
        }
        let dirty_limit = dirty_limit.unwrap_or(DIRTY_LIMIT.min(cache_size / 2));
        if dirty_limit < block_size || dirty_limit > cache_size {
            bail!(
                "--dirty-limit {}: must be at least a block ({}) and at most the cache ({})",
                shown(dirty_limit),
                shown(block_size),
                shown(cache_size)
            );
        }
        Ok(Self {
            geometry,
            cache_size,
            dirty_limit,
            policy,
            mode,
            device: Device::Buffered,
        })
    }

    /// The engine's configuration. Writeback begins early where it goes on
    /// beside the writers; to one thread that does both that gains nothing.
    pub(crate) fn config(&self, writers: Writers) -> Result<Config> {
        let mut config = Config::new(BlockSize::new(self.geometry.block_size())?)
            .with_cache_bytes(LenBytes::new(self.cache_size))
            .with_dirty_bytes(LenBytes::new(self.dirty_limit));
        config.folio_bytes_max = LenBytes::new(self.geometry.folio_size());
        config.extent_bytes_max = LenBytes::new(self.geometry.max_extent());
        if self.device != Device::Uring && writers == Writers::One {
            config.dirty_bytes_background = config.dirty_bytes_max;
        }
        config.file_dirty_bytes_max = config.dirty_bytes_max;
        config.bio_limits = BioLimits::UNLIMITED;
        config.policy = self.policy.into();
        config.stride = match self.mode {
            Mode::Extent => Stride::Extent,
            Mode::Block => Stride::Block,
        };
        Ok(config)
    }

    /// The same with another way to the files.
    pub(crate) fn with_device(self, device: Device) -> Self {
        Self { device, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(cache_size: u64, dirty_limit: Option<u64>) -> Result<Settings> {
        let geometry = Geometry::new(4096, 2 << 20, 128 << 20).expect("sound");
        Settings::new(
            geometry,
            cache_size,
            dirty_limit,
            Policy::Keep,
            Mode::Extent,
        )
    }

    #[test]
    fn a_small_cache_has_a_small_dirty_limit() {
        assert_eq!(
            settings(512 << 20, None).expect("sound").dirty_limit,
            64 << 20
        );
        assert_eq!(
            settings(1 << 20, None).expect("sound").dirty_limit,
            512 << 10
        );
        assert_eq!(
            settings(1 << 20, Some(1 << 20)).expect("sound").dirty_limit,
            1 << 20
        );
    }

    #[test]
    fn a_limit_that_cannot_be_kept_is_named_with_the_rule() {
        for ((cache_size, dirty_limit), expected) in [
            (
                (4096, None),
                "--cache-size 4K: must be at least two blocks (8K)",
            ),
            ((0, Some(0)), "--cache-size 0: must be"),
            (
                (8192, Some(4095)),
                "--dirty-limit 4095: must be at least a block (4K) and at most the cache (8K)",
            ),
            ((8192, Some(8193)), "--dirty-limit 8193: must be"),
        ] {
            let error = settings(cache_size, dirty_limit).expect_err("refused");
            assert!(error.to_string().starts_with(expected), "{error}");
        }
    }
}
