//! Several bitmaps of the same blocks, over one store of words.

use super::{BitmapError, BlockBitmap, words_for};

/// `N` bitmaps of the same blocks, over words of type `W` that they share
/// evenly, one after the other: what is known of the blocks of a folio is in one
/// piece of memory.
///
/// **Invariant**: bits behind the last block are zero, in every word.
#[derive(Clone, Copy, Debug)]
pub struct BlockBitmaps<W, const N: usize> {
    words: W,
    blocks: usize,
}

impl<W: AsRef<[u64]>, const N: usize> BlockBitmaps<W, N> {
    /// Blocks in each of the bitmaps.
    #[must_use]
    pub const fn blocks(&self) -> usize {
        self.blocks
    }

    /// The bitmap with this number, from 0. One that there is not does not
    /// compile.
    #[must_use]
    #[inline]
    pub fn get<const NTH: usize>(&self) -> BlockBitmap<&[u64]> {
        const { assert!(NTH < N, "there are not so many bitmaps") };
        let words = self.words.as_ref();
        let each = words.len() / N;
        BlockBitmap {
            words: words.get(NTH * each..(NTH + 1) * each).unwrap_or_default(),
            blocks: self.blocks,
        }
    }
}

impl<W: AsRef<[u64]> + AsMut<[u64]>, const N: usize> BlockBitmaps<W, N> {
    /// Bitmaps of `blocks` clear bits over `words`, which are cleared; `N` times
    /// as many as one bitmap needs.
    pub fn cleared(mut words: W, blocks: usize) -> Result<Self, BitmapError> {
        let all = words.as_mut();
        let each = all.len().checked_div(N).unwrap_or(0);
        if each < words_for(blocks) {
            return Err(BitmapError::TooFewWords {
                words: each,
                blocks,
            });
        }
        all.fill(0);
        Ok(Self { words, blocks })
    }

    /// The first `M` of them, borrowed. More than there are do not compile.
    #[must_use]
    #[inline]
    pub fn first_mut<const M: usize>(&mut self) -> BlockBitmaps<&mut [u64], M> {
        const { assert!(M <= N, "there are not so many bitmaps") };
        let words = self.words.as_mut();
        let each = words.len() / N;
        BlockBitmaps {
            words: words.get_mut(..M * each).unwrap_or_default(),
            blocks: self.blocks,
        }
    }

    /// The bitmap with this number, to be changed. One that there is not does
    /// not compile.
    #[must_use]
    #[inline]
    pub fn get_mut<const NTH: usize>(&mut self) -> BlockBitmap<&mut [u64]> {
        const { assert!(NTH < N, "there are not so many bitmaps") };
        let words = self.words.as_mut();
        let each = words.len() / N;
        BlockBitmap {
            words: words
                .get_mut(NTH * each..(NTH + 1) * each)
                .unwrap_or_default(),
            blocks: self.blocks,
        }
    }

    /// Two of the bitmaps, the one with the smaller number first, to be changed
    /// together.
    #[inline]
    pub(crate) fn pair_mut<const FIRST: usize, const SECOND: usize>(
        &mut self,
    ) -> (BlockBitmap<&mut [u64]>, BlockBitmap<&mut [u64]>) {
        const { assert!(FIRST < SECOND && SECOND < N, "they are no such pair") };
        let blocks = self.blocks;
        let words = self.words.as_mut();
        let each = words.len() / N;
        let (front, back) = words
            .split_at_mut_checked(SECOND * each)
            .unwrap_or_default();
        let first = front.get_mut(FIRST * each..(FIRST + 1) * each);
        let second = back.get_mut(..each);
        let bitmap = |words: Option<_>| BlockBitmap {
            words: words.unwrap_or_default(),
            blocks,
        };
        (bitmap(first), bitmap(second))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::BlockRange;

    #[test]
    fn a_bit_of_one_bitmap_is_no_bit_of_the_others() {
        let all = BlockRange::clamped(0, 130);
        let mut bits = BlockBitmaps::<[u64; 9], 3>::cleared([u64::MAX; 9], 130).unwrap();
        bits.get_mut::<1>().set(BlockRange::clamped(5, usize::MAX));
        assert_eq!(bits.get::<0>().next_run(all), None);
        assert_eq!(
            bits.get::<1>().next_run(all),
            Some(BlockRange::clamped(5, 130))
        );
        assert_eq!(bits.get::<2>().next_run(all), None);
        bits.get_mut::<2>().set(all);
        bits.get_mut::<1>().clear(all);
        assert!(!bits.get::<1>().any());
        assert_eq!(bits.get::<2>().count_in(all), 130);
    }

    #[test]
    fn words_that_one_bitmap_would_lack_are_refused() {
        let told = BlockBitmaps::<[u64; 5], 3>::cleared([0; 5], 65).map(drop);
        assert_eq!(
            told,
            Err(BitmapError::TooFewWords {
                words: 1,
                blocks: 65
            })
        );
        assert!(BlockBitmaps::<[u64; 6], 3>::cleared([0; 6], 65).is_ok());
    }
}
