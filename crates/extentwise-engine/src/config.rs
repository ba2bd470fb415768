//! Sizes, limits and policies of an engine.

use core::fmt;

use extentwise_core::geometry::{BlockSize, LenBytes};
use extentwise_core::writeback::{BioLimits, Stride};
use extentwise_device::WriteCache;

/// What becomes of data that could not be written (C2). No error is lost with
/// any of them: every handle is told once (E1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ErrorPolicy {
    /// The whole range of the failed ordered extent is dirty again, and is
    /// planned again when it is written back the next time.
    #[default]
    KeepDirty,
    /// The data counts as clean and is reported as lost: the Linux rule.
    Drop,
    /// As [`KeepDirty`](Self::KeepDirty), and handles that were open refuse
    /// writes until they are opened again.
    Latch,
}

/// Sizes and limits of an engine, in bytes.
///
/// Start from [`Config::new`] and change what you need; the engine checks the
/// whole when it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The unit of mapping, dirtiness and device I/O.
    pub block_size: BlockSize,
    /// The largest folio: a power of two, at least a block; 2 MiB.
    pub folio_bytes_max: LenBytes,
    /// Memory of all folios; 256 MiB.
    pub cache_bytes_max: LenBytes,
    /// Dirty bytes from which on writeback begins by itself; a quarter of the
    /// cache (C5).
    pub dirty_bytes_background: LenBytes,
    /// Dirty bytes, with those that the device has not answered, from which on
    /// writers wait; half of the cache (C5).
    pub dirty_bytes_max: LenBytes,
    /// Dirty bytes of one file from which on its writers wait, so that one file
    /// cannot take the room of the others; three quarters of `dirty_bytes_max`
    /// (C5).
    pub file_dirty_bytes_max: LenBytes,
    /// The longest ordered extent: a multiple of the block; 128 MiB.
    pub extent_bytes_max: LenBytes,
    /// The age, in nanoseconds, at which dirty data is written back without
    /// being asked for; 30 seconds.
    pub dirty_age_max_nanos: u64,
    /// How large a bio grows; no limit.
    pub bio_limits: BioLimits,
    /// Whether data must be flushed before it is pointed at (C8).
    pub write_cache: WriteCache,
    /// What becomes of data that could not be written.
    pub policy: ErrorPolicy,
    /// How a pass walks a folio; extent by extent unless to compare with.
    pub stride: Stride,
}

/// A size that no engine can keep to, by name, with the rule it breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The field.
    pub name: &'static str,
    /// Its value.
    pub value: u64,
    /// What it has to be.
    pub rule: &'static str,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: must be {}", self.name, self.value, self.rule)
    }
}

impl core::error::Error for ConfigError {}

impl Config {
    /// The defaults for blocks of this size.
    #[must_use]
    pub const fn new(block_size: BlockSize) -> Self {
        Self {
            block_size,
            folio_bytes_max: LenBytes::new(2 << 20),
            extent_bytes_max: LenBytes::new(128 << 20),
            dirty_age_max_nanos: 30_000_000_000,
            bio_limits: BioLimits::UNLIMITED,
            write_cache: WriteCache::Volatile,
            policy: ErrorPolicy::KeepDirty,
            stride: Stride::Extent,
            cache_bytes_max: LenBytes::ZERO,
            dirty_bytes_background: LenBytes::ZERO,
            dirty_bytes_max: LenBytes::ZERO,
            file_dirty_bytes_max: LenBytes::ZERO,
        }
        .with_cache_bytes(LenBytes::new(256 << 20))
    }

    /// The same with a cache of this size, and dirty limits that fit it.
    #[must_use]
    pub const fn with_cache_bytes(self, bytes: LenBytes) -> Self {
        Self {
            cache_bytes_max: bytes,
            ..self.with_dirty_bytes(LenBytes::new(bytes.get() / 2))
        }
    }

    /// The same with this limit of dirty bytes, and the others that follow it.
    #[must_use]
    pub const fn with_dirty_bytes(self, bytes: LenBytes) -> Self {
        Self {
            dirty_bytes_max: bytes,
            dirty_bytes_background: LenBytes::new(bytes.get() / 2),
            file_dirty_bytes_max: LenBytes::new(bytes.get() / 4 * 3),
            ..self
        }
    }

    /// Checks the whole.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let block = self.block_size.bytes();
        let wrong = |name, value: LenBytes, rule| {
            Err(ConfigError {
                name,
                value: value.get(),
                rule,
            })
        };
        let folio = self.folio_bytes_max;
        if !folio.get().is_power_of_two() || folio.get() < block {
            return wrong(
                "folio_bytes_max",
                folio,
                "a power of two and at least a block",
            );
        }
        // A limit is in reach only if memory for one folio of that size can be asked for.
        if usize::try_from(folio.get()).is_err() || folio.get() > 1 << 40 {
            return wrong("folio_bytes_max", folio, "at most 1 TiB");
        }
        if self.cache_bytes_max.get() < block.saturating_mul(2) {
            return wrong(
                "cache_bytes_max",
                self.cache_bytes_max,
                "at least two blocks",
            );
        }
        let extent = self.extent_bytes_max;
        if extent.is_zero() || !self.block_size.divides(extent.get()) {
            return wrong(
                "extent_bytes_max",
                extent,
                "a multiple of the block, and not zero",
            );
        }
        for (name, value) in [
            ("dirty_bytes_max", self.dirty_bytes_max),
            ("file_dirty_bytes_max", self.file_dirty_bytes_max),
        ] {
            if value.get() < block {
                return wrong(name, value, "at least a block");
            }
        }
        if self.dirty_bytes_background > self.dirty_bytes_max {
            return wrong(
                "dirty_bytes_background",
                self.dirty_bytes_background,
                "at most dirty_bytes_max",
            );
        }
        Ok(())
    }

    /// Checks the blocks beside those of the map.
    pub(crate) fn check_blocks(&self, of_map: Option<BlockSize>) -> Result<(), ConfigError> {
        if of_map.is_none_or(|of_map| of_map == self.block_size) {
            return Ok(());
        }
        Err(ConfigError {
            name: "block_size",
            value: self.block_size.bytes(),
            rule: "the block size of the map",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_cannot_be_kept_is_refused_by_name() {
        let sound = Config::new(BlockSize::new(4096).unwrap());
        assert_eq!(sound.check(), Ok(()));
        let zero = LenBytes::ZERO;
        let cases = [
            (
                "folio_bytes_max",
                Config {
                    folio_bytes_max: LenBytes::new(6000),
                    ..sound
                },
            ),
            (
                "folio_bytes_max",
                Config {
                    folio_bytes_max: LenBytes::new(1 << 63),
                    ..sound
                },
            ),
            (
                "cache_bytes_max",
                Config {
                    cache_bytes_max: zero,
                    ..sound
                },
            ),
            (
                "extent_bytes_max",
                Config {
                    extent_bytes_max: LenBytes::new(4097),
                    ..sound
                },
            ),
            ("dirty_bytes_max", sound.with_dirty_bytes(zero)),
            (
                "file_dirty_bytes_max",
                Config {
                    file_dirty_bytes_max: zero,
                    ..sound
                },
            ),
            (
                "dirty_bytes_background",
                Config {
                    dirty_bytes_background: LenBytes::MAX,
                    ..sound
                },
            ),
        ];
        for (name, config) in cases {
            assert_eq!(config.check().unwrap_err().name, name);
        }
    }
}
