//! The sizes that a replay works with, checked against each other.

use anyhow::{Result, bail};

use crate::sizes::shown;

/// Sizes in bytes.
///
/// **Invariant**: the block size is a power of two from 512 to 64 KiB; the
/// folio size is one from the block size to [`FOLIO_SIZE_MAX`]; the longest
/// ordered extent is a multiple of the block size, and not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    block_size: u64,
    folio_size: u64,
    max_extent: u64,
}

const BLOCK_SIZE_MIN: u64 = 512;
const BLOCK_SIZE_MAX: u64 = 64 << 10;
/// What is cached of a folio is one piece of memory, so there is a limit.
pub(crate) const FOLIO_SIZE_MAX: u64 = 256 << 20;

impl Geometry {
    /// Checks the sizes; a message names the option, the value and the rule.
    pub(crate) fn new(block_size: u64, folio_size: u64, max_extent: u64) -> Result<Self> {
        power_of_two("--block-size", block_size, BLOCK_SIZE_MIN, BLOCK_SIZE_MAX)?;
        power_of_two("--folio-size", folio_size, block_size, FOLIO_SIZE_MAX)?;
        if max_extent == 0 || !max_extent.is_multiple_of(block_size) {
            bail!(
                "--max-extent {}: must be a multiple of the block size ({}), and not 0",
                shown(max_extent),
                shown(block_size)
            );
        }
        Ok(Self {
            block_size,
            folio_size,
            max_extent,
        })
    }

    pub(crate) fn block_size(&self) -> u64 {
        self.block_size
    }

    pub(crate) fn folio_size(&self) -> u64 {
        self.folio_size
    }

    pub(crate) fn max_extent(&self) -> u64 {
        self.max_extent
    }
}

fn power_of_two(option: &str, value: u64, min: u64, max: u64) -> Result<()> {
    if !value.is_power_of_two() || !(min..=max).contains(&value) {
        bail!(
            "{option} {}: must be a power of two from {} to {}",
            shown(value),
            shown(min),
            shown(max)
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_sizes_are_taken() {
        for (block_size, folio_size, max_extent) in [
            (4096, 2 << 20, 128 << 20),
            (512, 512, 512),
            (65_536, 256 << 20, 3 * 65_536),
        ] {
            assert!(Geometry::new(block_size, folio_size, max_extent).is_ok());
        }
    }

    #[test]
    fn a_size_that_breaks_a_rule_is_named_with_the_rule() {
        for (sizes, expected) in [
            (
                (256, 4096, 4096),
                "--block-size 256: must be a power of two from 512 to 64K",
            ),
            (
                (131_072, 131_072, 131_072),
                "--block-size 128K: must be a power of two from 512 to 64K",
            ),
            ((3000, 4096, 4096), "--block-size 3000: must be"),
            ((0, 0, 0), "--block-size 0: must be"),
            (
                (4096, 3 << 20, 4096),
                "--folio-size 3M: must be a power of two from 4K to 256M",
            ),
            ((4096, 2048, 4096), "--folio-size 2K: must be"),
            (
                (4096, u64::MAX, 4096),
                "--folio-size 18446744073709551615: must be",
            ),
            (
                (4096, 4096, 0),
                "--max-extent 0: must be a multiple of the block size (4K), and not 0",
            ),
            ((4096, 4096, 6144), "--max-extent 6K: must be"),
        ] {
            let error = Geometry::new(sizes.0, sizes.1, sizes.2).expect_err("refused");
            assert!(error.to_string().starts_with(expected), "{error}");
        }
    }
}
