//! Block sizes, block indexes and runs of blocks.

use super::GeometryError;

/// A block size: a power of two from 512 bytes to 64 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSize {
    shift: u8,
}

impl BlockSize {
    /// The smallest block, 512 bytes.
    pub const MIN: Self = Self { shift: 9 };
    /// The largest block, 64 KiB.
    pub const MAX: Self = Self { shift: 16 };

    /// A block size of `bytes`; an error names a size that is not allowed.
    pub const fn new(bytes: u64) -> Result<Self, GeometryError> {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a u64 has at most 64 zeros at its end"
        )]
        let shift = bytes.trailing_zeros() as u8;
        if !bytes.is_power_of_two() || shift < Self::MIN.shift || shift > Self::MAX.shift {
            return Err(GeometryError::BlockSize(bytes));
        }
        Ok(Self { shift })
    }

    /// Bytes in a block.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        1 << self.shift
    }

    /// Base-two logarithm of the block size.
    #[must_use]
    pub const fn shift(self) -> u32 {
        self.shift as u32
    }

    /// `bytes` rounded down to a multiple of the block size.
    #[must_use]
    pub const fn floor(self, bytes: u64) -> u64 {
        bytes & !(self.bytes() - 1)
    }

    /// `bytes` rounded up to a multiple of the block size; where that multiple
    /// is 2^64, the answer is 2^64 - 1, which still compares as "behind every
    /// byte of the file" (W2).
    #[must_use]
    pub const fn ceil(self, bytes: u64) -> u64 {
        match bytes.checked_add(self.bytes() - 1) {
            Some(sum) => self.floor(sum),
            None => u64::MAX,
        }
    }

    /// Whether `bytes` is a multiple of the block size.
    #[must_use]
    pub const fn divides(self, bytes: u64) -> bool {
        bytes & (self.bytes() - 1) == 0
    }
}

/// The index of a block in its folio, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockIndex(usize);

impl BlockIndex {
    /// Wraps an index.
    #[must_use]
    pub const fn new(index: usize) -> Self {
        Self(index)
    }

    /// The index.
    #[must_use]
    pub const fn get(self) -> usize {
        self.0
    }
}

/// A half-open run `[start, end)` of blocks in a folio.
///
/// **Invariant**: `start <= end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BlockRange {
    start: usize,
    end: usize,
}

impl BlockRange {
    /// The run from `start` to `end`, or `None` where `start > end`.
    #[must_use]
    pub const fn new(start: BlockIndex, end: BlockIndex) -> Option<Self> {
        if start.0 <= end.0 {
            Some(Self {
                start: start.0,
                end: end.0,
            })
        } else {
            None
        }
    }

    /// From `start` to `end`, empty at `start` where they cross.
    #[must_use]
    pub const fn clamped(start: usize, end: usize) -> Self {
        Self {
            start,
            end: if end < start { start } else { end },
        }
    }

    /// From `start` to `end`, of which the caller knows that they do not cross.
    #[inline]
    pub(crate) const fn in_order(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// The run of one block.
    #[must_use]
    pub const fn one(block: BlockIndex) -> Self {
        Self::clamped(block.0, block.0.saturating_add(1))
    }

    /// First block of the run.
    #[must_use]
    pub const fn start(self) -> BlockIndex {
        BlockIndex(self.start)
    }

    /// First block behind the run.
    #[must_use]
    pub const fn end(self) -> BlockIndex {
        BlockIndex(self.end)
    }

    /// Blocks in the run.
    #[must_use]
    pub const fn len(self) -> usize {
        self.end - self.start
    }

    /// Whether the run holds no block.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// Whether `block` lies in the run.
    #[must_use]
    pub const fn contains(self, block: BlockIndex) -> bool {
        self.start <= block.0 && block.0 < self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_powers_of_two_in_bounds_are_block_sizes() {
        for bytes in [0, 1, 256, 511, 513, 3000, 131_072, u64::MAX, 1 << 63] {
            assert_eq!(BlockSize::new(bytes), Err(GeometryError::BlockSize(bytes)));
        }
        for shift in 9..=16 {
            assert_eq!(BlockSize::new(1 << shift).unwrap().bytes(), 1 << shift);
        }
    }

    #[test]
    fn w2_rounding_up_the_largest_size_does_not_wrap() {
        let block = BlockSize::new(4096).unwrap();
        assert_eq!(block.ceil(0), 0);
        assert_eq!(block.ceil(1), 4096);
        assert_eq!(block.ceil(4096), 4096);
        assert_eq!(block.ceil((1 << 63) - 1), 1 << 63);
        assert_eq!(block.ceil(u64::MAX), u64::MAX);
        assert_eq!(block.ceil(u64::MAX - 4095), u64::MAX - 4095);
        assert_eq!(block.ceil(u64::MAX - 4094), u64::MAX);
        assert_eq!(block.floor(u64::MAX), u64::MAX - 4095);
        assert!(block.divides(8192) && !block.divides(8193));
    }

    #[test]
    fn crossed_runs_are_refused() {
        assert_eq!(BlockRange::new(BlockIndex(3), BlockIndex(2)), None);
        assert!(BlockRange::clamped(3, 2).is_empty());
        assert_eq!(BlockRange::one(BlockIndex(7)).len(), 1);
        assert!(BlockRange::one(BlockIndex(7)).contains(BlockIndex(7)));
        assert!(BlockRange::one(BlockIndex(usize::MAX)).is_empty());
    }
}
