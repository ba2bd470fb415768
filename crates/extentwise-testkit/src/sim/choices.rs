//! Where the choices of a simulation come from.

use crate::seed;

/// A source of choices: a seed, which never ends, or a fuzzer's bytes.
#[derive(Clone, Debug)]
pub enum Choices<'d> {
    /// The stream of a seed.
    Seed(u64),
    /// Bytes, one or two a choice; where they run out every choice is the first.
    Bytes(&'d [u8]),
}

impl Choices<'_> {
    /// A number below `end`; 0 if that is zero.
    pub fn below(&mut self, end: u64) -> u64 {
        let number = match self {
            Self::Seed(state) => seed::next(state),
            Self::Bytes(bytes) => {
                let mut byte = || {
                    let (first, rest) = bytes.split_first()?;
                    *bytes = rest;
                    Some(u64::from(*first))
                };
                let low = byte().unwrap_or(0);
                if end > 256 {
                    low << 8 | byte().unwrap_or(0)
                } else {
                    low
                }
            }
        };
        number % end.max(1)
    }

    /// An index of a list of this length.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    /// One of a list, which is not empty.
    pub fn one_of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.index(list.len())]
    }

    /// True one time in `times`; false where bytes have run out.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == times - 1
    }

    /// Whether a fuzzer's bytes have run out.
    #[must_use]
    pub fn are_over(&self) -> bool {
        matches!(self, Self::Bytes([]))
    }
}
