//! One bit a block, and runs of set bits found by scanning words (W3).
//!
//! A [`BlockBitmap`] works over memory that somebody else owns: an array
//! (`[u64; 8]` for 512 blocks), a borrowed slice (`&mut [u64]`, any size) or a
//! `Vec<u64>`. Bit `i` of word `w` is block `64 * w + i`.

mod runs;
mod several;

use crate::geometry::{BlockIndex, BlockRange};
use core::fmt;
use runs::{next_clear, next_set};

pub(crate) use runs::RunCursor;
pub use runs::Runs;
pub use several::BlockBitmaps;

const WORD_BITS: usize = u64::BITS as usize;

/// Words needed for `blocks` bits.
#[must_use]
pub const fn words_for(blocks: usize) -> usize {
    blocks.div_ceil(WORD_BITS)
}

/// A bitmap whose words do not fit the number of its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitmapError {
    /// Fewer words than the blocks need.
    TooFewWords {
        /// Words handed in.
        words: usize,
        /// Blocks that they should hold.
        blocks: usize,
    },
    /// A bit is set behind the last block.
    BitBehindEnd {
        /// Index of that bit.
        bit: BlockIndex,
        /// Blocks in the bitmap.
        blocks: usize,
    },
}

impl fmt::Display for BitmapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooFewWords { words, blocks } => {
                write!(f, "{words} words of 64 bits cannot hold {blocks} blocks")
            }
            Self::BitBehindEnd { bit, blocks } => write!(
                f,
                "bit {} is set, but the bitmap holds {blocks} blocks",
                bit.get()
            ),
        }
    }
}

impl core::error::Error for BitmapError {}

/// One bit for each block of a folio, over words of type `W`.
///
/// Ranges handed in are cut at the bitmap's end; nothing panics. Looking for a
/// run, filling and counting cost a step for each *word* that they cross.
///
/// **Invariant**: bits behind the last block are zero, in every word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockBitmap<W> {
    words: W,
    blocks: usize,
}

impl<const N: usize> BlockBitmap<[u64; N]> {
    /// A bitmap of `blocks` clear bits in `N` words of its own.
    pub const fn empty(blocks: usize) -> Result<Self, BitmapError> {
        if words_for(blocks) > N {
            return Err(BitmapError::TooFewWords { words: N, blocks });
        }
        Ok(Self {
            words: [0; N],
            blocks,
        })
    }
}

impl<W: AsRef<[u64]>> BlockBitmap<W> {
    /// Takes words as they are. They may be more than `blocks` needs, but no
    /// bit may be set behind the last block.
    pub fn from_words(words: W, blocks: usize) -> Result<Self, BitmapError> {
        let slice = words.as_ref();
        if words_for(blocks) > slice.len() {
            return Err(BitmapError::TooFewWords {
                words: slice.len(),
                blocks,
            });
        }
        let behind = next_set(slice, blocks, slice.len().saturating_mul(WORD_BITS));
        if behind < slice.len().saturating_mul(WORD_BITS) {
            return Err(BitmapError::BitBehindEnd {
                bit: BlockIndex::new(behind),
                blocks,
            });
        }
        Ok(Self { words, blocks })
    }

    /// Blocks in the bitmap.
    #[must_use]
    pub const fn blocks(&self) -> usize {
        self.blocks
    }

    /// The words, least block first.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        self.words.as_ref()
    }

    /// The same bits, borrowed.
    #[must_use]
    pub fn borrowed(&self) -> BlockBitmap<&[u64]> {
        BlockBitmap {
            words: self.words.as_ref(),
            blocks: self.blocks,
        }
    }

    /// The same bits in other words, which must be as many as the blocks need.
    pub fn copied_to<V>(&self, mut words: V) -> Result<BlockBitmap<V>, BitmapError>
    where
        V: AsRef<[u64]> + AsMut<[u64]>,
    {
        let needed = words_for(self.blocks);
        let copied = self.words().get(..needed).unwrap_or_default();
        let Some((front, rest)) = words.as_mut().split_at_mut_checked(needed) else {
            return Err(BitmapError::TooFewWords {
                words: words.as_ref().len(),
                blocks: self.blocks,
            });
        };
        front.copy_from_slice(copied);
        rest.fill(0);
        Ok(BlockBitmap {
            words,
            blocks: self.blocks,
        })
    }

    /// Whether `block` is set; blocks behind the end are not.
    #[must_use]
    pub fn test(&self, block: BlockIndex) -> bool {
        test(self.words(), block.get())
    }

    /// Whether any block is set.
    #[must_use]
    pub fn any(&self) -> bool {
        self.words().iter().any(|word| *word != 0)
    }

    /// Whether every block of `range` is set; so it is for an empty range, and
    /// not for one that goes past the last block.
    #[must_use]
    pub fn all_in(&self, range: BlockRange) -> bool {
        let (start, end) = (range.start().get(), range.end().get());
        range.is_empty() || end <= self.blocks && next_clear(self.words(), start, end) >= end
    }

    /// Whether any block of `range` is set.
    #[must_use]
    pub fn any_in(&self, range: BlockRange) -> bool {
        let end = self.cut(range.end().get());
        next_set(self.words(), range.start().get(), end) < end
    }

    /// Number of set blocks in `range`.
    #[must_use]
    pub fn count_in(&self, range: BlockRange) -> usize {
        let (start, end) = (range.start().get(), self.cut(range.end().get()));
        if start >= end {
            return 0;
        }
        let crossed = start / WORD_BITS..(end - 1) / WORD_BITS + 1;
        let (head, tail) = edge_masks(start, end);
        let ones = |word: u64| word.count_ones() as usize;
        match self.words().get(crossed).unwrap_or_default() {
            [] => 0,
            [only] => ones(only & head & tail),
            [first, whole @ .., last] => {
                let whole: usize = whole.iter().map(|word| ones(*word)).sum();
                ones(first & head) + whole + ones(last & tail)
            }
        }
    }

    /// The first run of set blocks in `range`, as long as it goes inside
    /// `range` (W3).
    #[must_use]
    #[inline]
    pub fn next_run(&self, range: BlockRange) -> Option<BlockRange> {
        let end = self.cut(range.end().get());
        let start = next_set(self.words(), range.start().get(), end);
        if start >= end {
            return None;
        }
        let end = next_clear(self.words(), start, end);
        Some(BlockRange::in_order(start, end))
    }

    /// The first run of clear blocks in `range`.
    #[must_use]
    pub fn next_gap(&self, range: BlockRange) -> Option<BlockRange> {
        let end = self.cut(range.end().get());
        let start = next_clear(self.words(), range.start().get(), end);
        if start >= end {
            return None;
        }
        Some(BlockRange::clamped(
            start,
            next_set(self.words(), start, end),
        ))
    }

    /// All runs of set blocks in `range`, ascending.
    #[inline]
    pub fn runs(&self, range: BlockRange) -> Runs<'_> {
        let words = self.words();
        Runs {
            words,
            cursor: RunCursor::new(words, self.cut_range(range)),
        }
    }

    /// The first block that is set here and not in `other`.
    #[must_use]
    pub fn first_outside<V: AsRef<[u64]>>(&self, other: &BlockBitmap<V>) -> Option<BlockIndex> {
        let others = other.words();
        let shared = self.words().len().min(others.len());
        let (words, rest) = self.words().split_at(shared);
        // Whether there is one at all is asked of all words at once, which compiles to
        // wide instructions; where it is, only if so.
        let pairs = || words.iter().zip(others).map(|(word, other)| word & !other);
        let extra = pairs().fold(0, |all, extra| all | extra);
        if extra == 0 && rest.iter().all(|word| *word == 0) {
            return None;
        }
        let mut extras = pairs().chain(rest.iter().copied()).enumerate();
        let (w, extra) = extras.find(|(_, extra)| *extra != 0)?;
        Some(BlockIndex::new(
            w * WORD_BITS + extra.trailing_zeros() as usize,
        ))
    }

    fn cut(&self, end: usize) -> usize {
        end.min(self.blocks)
    }

    /// `range` cut at the bitmap's end.
    pub(crate) fn cut_range(&self, range: BlockRange) -> BlockRange {
        BlockRange::clamped(self.cut(range.start().get()), self.cut(range.end().get()))
    }
}

impl<W: AsRef<[u64]> + AsMut<[u64]>> BlockBitmap<W> {
    /// A bitmap of `blocks` clear bits over `words`, which are cleared.
    pub fn cleared(mut words: W, blocks: usize) -> Result<Self, BitmapError> {
        words.as_mut().fill(0);
        Self::from_words(words, blocks)
    }

    /// Sets every block of `range`.
    pub fn set(&mut self, range: BlockRange) {
        let (start, end) = (range.start().get(), self.cut(range.end().get()));
        for_each_word_mut(self.words.as_mut(), start, end, |word, mask| *word |= mask);
    }

    /// Clears every block of `range`.
    pub fn clear(&mut self, range: BlockRange) {
        let (start, end) = (range.start().get(), self.cut(range.end().get()));
        for_each_word_mut(self.words.as_mut(), start, end, |word, mask| *word &= !mask);
    }

    /// Clears every block of `range` here, then sets it in `other`, a bitmap of as many
    /// blocks; false where there is no such block.
    #[inline]
    pub(crate) fn move_to(&mut self, other: &mut Self, range: BlockRange) -> bool {
        let (start, end) = (range.start().get(), self.cut(range.end().get()));
        if start >= end {
            return false;
        }
        let (first, last) = (start / WORD_BITS, (end - 1) / WORD_BITS);
        let (head, tail) = edge_masks(start, end);
        let (from, to) = (self.words.as_mut(), other.words.as_mut());
        if first < last {
            let crossed = first..=last;
            if let (Some(from), Some(to)) = (from.get_mut(crossed.clone()), to.get_mut(crossed)) {
                move_words(from, to, head, tail);
            }
        } else if let (Some(from), Some(to)) = (from.get_mut(first), to.get_mut(first)) {
            move_bits(from, to, head & tail);
        }
        true
    }
}

#[inline]
fn test(words: &[u64], bit: usize) -> bool {
    words
        .get(bit / WORD_BITS)
        .is_some_and(|word| word >> (bit % WORD_BITS) & 1 == 1)
}

/// The bits of `[start, end)` in its first word and in its last.
#[inline]
fn edge_masks(start: usize, end: usize) -> (u64, u64) {
    let head = u64::MAX << (start % WORD_BITS);
    let tail = u64::MAX >> (WORD_BITS - 1 - (end - 1) % WORD_BITS);
    (head, tail)
}

/// Calls `visit(word, mask)` for each word that `[start, end)` crosses.
#[inline]
fn for_each_word_mut(
    words: &mut [u64],
    start: usize,
    end: usize,
    mut visit: impl FnMut(&mut u64, u64),
) {
    if start >= end {
        return;
    }
    let (first, last) = (start / WORD_BITS, (end - 1) / WORD_BITS);
    let (head, tail) = edge_masks(start, end);
    // Most ranges lie inside a word.
    if first == last {
        if let Some(word) = words.get_mut(first) {
            visit(word, head & tail);
        }
        return;
    }
    // The words in between are a slice of their own, which compiles to wide
    // instructions.
    if let Some([first, whole @ .., last]) = words.get_mut(first..=last) {
        visit(first, head);
        for word in whole {
            visit(word, u64::MAX);
        }
        visit(last, tail);
    }
}

/// Clears the bits of `mask` in one word, then sets them in the other.
#[inline]
fn move_bits(from: &mut u64, to: &mut u64, mask: u64) {
    *from &= !mask;
    *to |= mask;
}

/// The same for the bits of `head` in the first words, of `tail` in the last, and all
/// between. A call of its own, for most ranges lie inside a word.
#[inline(never)]
fn move_words(from: &mut [u64], to: &mut [u64], head: u64, tail: u64) {
    if let ([first, _, _, _, _, _, _, last], [to_first, _, _, _, _, _, _, to_last]) = (&*from, &*to)
    {
        // The words of a folio of 512 blocks: a few wide stores instead of two calls.
        let all = u64::MAX;
        from.copy_from_slice(&[first & !head, 0, 0, 0, 0, 0, 0, last & !tail]);
        to.copy_from_slice(&[
            to_first | head,
            all,
            all,
            all,
            all,
            all,
            all,
            to_last | tail,
        ]);
    } else if let ([first, between @ .., last], [to_first, to_between @ .., to_last]) = (from, to) {
        move_bits(first, to_first, head);
        between.fill(0);
        to_between.fill(u64::MAX);
        move_bits(last, to_last, tail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(start: usize, end: usize) -> BlockRange {
        BlockRange::clamped(start, end)
    }

    /// The naive answer: one bit at a time.
    fn naive_run(bits: u64, start: usize, end: usize, wanted: bool) -> Option<BlockRange> {
        let is = |i: usize| (bits >> i & 1 == 1) == wanted;
        let first = (start..end).find(|i| is(*i))?;
        let last = (first..end).find(|i| !is(*i)).unwrap_or(end);
        Some(run(first, last))
    }

    #[test]
    fn w3_every_bitmap_of_up_to_12_blocks_and_every_range() {
        for blocks in 0..=12_usize {
            for bits in 0..1_u64 << blocks {
                let bitmap = BlockBitmap::from_words([bits], blocks).unwrap();
                for start in 0..=blocks {
                    for end in start..=blocks {
                        let range = run(start, end);
                        assert_eq!(bitmap.next_run(range), naive_run(bits, start, end, true));
                        assert_eq!(bitmap.next_gap(range), naive_run(bits, start, end, false));
                        let ones = (start..end).filter(|i| bits >> i & 1 == 1).count();
                        assert_eq!(bitmap.count_in(range), ones);
                        assert_eq!(bitmap.any_in(range), ones > 0);
                        assert_eq!(bitmap.all_in(range), ones == range.len());
                        let runs = bitmap.runs(range).map(BlockRange::len).sum::<usize>();
                        assert_eq!(runs, ones);
                    }
                }
            }
        }
    }

    #[test]
    fn w3_every_range_over_word_borders_is_set_and_cleared_exactly() {
        for blocks in [63, 64, 65, 127, 128, 129, 192] {
            for start in 0..blocks {
                for end in start..=blocks {
                    let mut bitmap = BlockBitmap::<[u64; 3]>::empty(blocks).unwrap();
                    bitmap.set(run(start, end));
                    assert_eq!(bitmap.count_in(run(0, blocks)), end - start);
                    let found = bitmap.next_run(run(0, blocks));
                    assert_eq!(found, (start < end).then(|| run(start, end)));
                    let mut rest = BlockBitmap::<[u64; 3]>::empty(blocks).unwrap();
                    rest.set(run(0, blocks));
                    rest.clear(run(start, end));
                    assert_eq!(rest.count_in(run(0, blocks)), blocks - (end - start));
                    assert!(!rest.any_in(run(start, end)));
                    assert_eq!(bitmap.any(), start < end);
                }
            }
        }
    }

    #[test]
    fn w6_blocks_move_as_if_cleared_and_then_set() {
        // Less than a word, a few words, and the eight of a folio of 512 blocks.
        let edges = [
            0,
            1,
            63,
            64,
            65,
            127,
            128,
            448,
            449,
            511,
            512,
            513,
            usize::MAX,
        ];
        for (words, blocks) in [(0x5555_5555_5555_5555, 512), (u64::MAX, 512), (7, 451)] {
            let full = BlockBitmap::from_words([words; 9], 576).unwrap();
            for start in edges {
                for end in edges {
                    let mut from = BlockBitmap::<[u64; 9]>::empty(blocks).unwrap();
                    for run in full.runs(run(0, blocks)) {
                        from.set(run);
                    }
                    let mut to = BlockBitmap::<[u64; 9]>::empty(blocks).unwrap();
                    to.set(run(65, 70));
                    let (mut cleared, mut set) = (from, to);
                    let moved = from.move_to(&mut to, run(start, end));
                    cleared.clear(run(start, end));
                    set.set(run(start, end));
                    assert_eq!((from, to), (cleared, set), "{start}..{end}");
                    assert_eq!(moved, start < end.min(blocks));
                }
            }
        }
    }

    #[test]
    fn exactly_64_blocks_are_one_run() {
        let bitmap = BlockBitmap::from_words([u64::MAX], 64).unwrap();
        assert_eq!(bitmap.next_run(run(0, 64)), Some(run(0, 64)));
        assert_eq!(bitmap.next_run(run(5, 64)), Some(run(5, 64)));
        assert!(bitmap.all_in(run(0, 64)));
        assert!(!bitmap.all_in(run(0, 65)));
    }

    #[test]
    fn ranges_behind_the_end_are_cut() {
        let mut bitmap = BlockBitmap::<[u64; 2]>::empty(70).unwrap();
        bitmap.set(run(60, usize::MAX));
        assert_eq!(bitmap.count_in(run(0, usize::MAX)), 10);
        assert_eq!(bitmap.next_run(run(0, usize::MAX)), Some(run(60, 70)));
        assert_eq!(bitmap.next_gap(run(70, 100)), None);
        assert!(!bitmap.test(BlockIndex::new(70)));
        assert!(!bitmap.test(BlockIndex::new(usize::MAX)));
        bitmap.clear(run(0, usize::MAX));
        assert!(!bitmap.any());
    }

    #[test]
    fn words_that_do_not_fit_are_refused_by_name() {
        assert_eq!(
            BlockBitmap::<[u64; 1]>::empty(65),
            Err(BitmapError::TooFewWords {
                words: 1,
                blocks: 65
            })
        );
        let words: &[u64] = &[0, 2];
        assert_eq!(
            BlockBitmap::from_words(words, 65),
            Err(BitmapError::BitBehindEnd {
                bit: BlockIndex::new(65),
                blocks: 65
            })
        );
        assert!(BlockBitmap::from_words(words, 66).is_ok());
    }

    #[test]
    fn a_borrowed_slice_of_any_size_works() {
        let mut words = [u64::MAX; 70];
        let mut bitmap = BlockBitmap::cleared(&mut words[..], 4096).unwrap();
        bitmap.set(run(1, 4095));
        assert_eq!(bitmap.next_run(run(0, 4096)), Some(run(1, 4095)));
        let other = BlockBitmap::<[u64; 64]>::empty(4096).unwrap();
        assert_eq!(bitmap.first_outside(&other), Some(BlockIndex::new(1)));
        assert_eq!(other.first_outside(&bitmap), None);
    }
}
