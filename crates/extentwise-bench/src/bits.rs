//! Which blocks of a folio are set, by shapes that occur.

/// Blocks that are set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Full,
    /// One in 64.
    Sparse,
    Alternating,
    /// Half of them, by chance.
    Random,
}

impl Shape {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Sparse => "sparse",
            Self::Alternating => "alternating",
            Self::Random => "random 50 %",
        }
    }

    /// A value for each block.
    pub(crate) fn blocks(self, blocks: usize) -> Vec<bool> {
        let mut number = numbers(7);
        (0..blocks)
            .map(|block| match self {
                Self::Full => true,
                Self::Sparse => block % 64 == 17,
                Self::Alternating => block % 2 == 0,
                Self::Random => number() & 1 == 1,
            })
            .collect()
    }

    /// The same as words.
    pub(crate) fn words(self, blocks: usize) -> Vec<u64> {
        let mut words = vec![0; blocks.div_ceil(64)];
        for (block, set) in self.blocks(blocks).into_iter().enumerate() {
            if set && let Some(word) = words.get_mut(block / 64) {
                *word |= 1 << (block % 64);
            }
        }
        words
    }
}

/// Numbers without an end, the same each time.
pub(crate) fn numbers(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 8
    }
}
