//! Finding runs: a word at a time, eight at a time where they are all alike.

use super::{WORD_BITS, words_for};
use crate::geometry::BlockRange;

/// Iterator over the runs of set blocks; see [`BlockBitmap::runs`](super::BlockBitmap::runs).
#[derive(Clone, Debug)]
pub struct Runs<'a> {
    pub(super) words: &'a [u64],
    pub(super) cursor: RunCursor,
}

impl Iterator for Runs<'_> {
    type Item = BlockRange;

    #[inline]
    fn next(&mut self) -> Option<BlockRange> {
        self.cursor.next_run(self.words)
    }
}

/// Where a scan of a bitmap's runs stands; the words are handed in each time,
/// so that they may be anybody's.
///
/// **Invariant**: of the word whose first block is `base`, `starts` has the first
/// bit of each run that is not answered yet and `ends` the first bit behind each,
/// but for one that goes on behind the word. None is at or behind `end`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunCursor {
    starts: u64,
    ends: u64,
    base: usize,
    end: usize,
}

impl RunCursor {
    /// A scan of `range`, which must be cut to the bitmap.
    #[inline]
    pub(crate) fn new(words: &[u64], range: BlockRange) -> Self {
        let (start, end) = (range.start().get(), range.end().get());
        let into = start % WORD_BITS;
        let mut cursor = Self {
            starts: 0,
            ends: 0,
            base: start - into,
            end,
        };
        if let Some(word) = words.get(start / WORD_BITS)
            && !range.is_empty()
        {
            let word = cut_word(*word, end - cursor.base);
            cursor.look_at(cursor.base, word & (u64::MAX << into));
        }
        cursor
    }

    /// The next run. Most runs end inside a word, and cost no load and no loop:
    /// finding the next start does not wait for the end of this one.
    #[inline]
    pub(crate) fn next_run(&mut self, words: &[u64]) -> Option<BlockRange> {
        while self.starts == 0 {
            let base = self.base + WORD_BITS;
            if base >= self.end {
                return None;
            }
            let word = *words.get(base / WORD_BITS)?;
            self.look_at(base, cut_word(word, self.end - base));
        }
        let start = self.base + self.starts.trailing_zeros() as usize;
        self.starts &= self.starts - 1;
        if self.ends != 0 {
            let end = self.base + self.ends.trailing_zeros() as usize;
            self.ends &= self.ends - 1;
            return Some(BlockRange::in_order(start, end));
        }
        let (end, ahead) = end_of_ones(words, start, self.end);
        self.look_at(end - end % WORD_BITS, ahead);
        Some(BlockRange::clamped(start, end))
    }

    /// Goes on in the word whose first block is `base`, of which these bits are
    /// ahead.
    #[inline]
    fn look_at(&mut self, base: usize, ahead: u64) {
        self.base = base;
        self.starts = ahead & !(ahead << 1);
        self.ends = !ahead & (ahead << 1);
    }
}

/// The first `bits` of a word.
#[inline]
fn cut_word(word: u64, bits: usize) -> u64 {
    // Only a last word is cut; no other pays for it.
    #[cold]
    fn cut(word: u64, bits: usize) -> u64 {
        word & !(u64::MAX << bits)
    }
    if bits < WORD_BITS {
        cut(word, bits)
    } else {
        word
    }
}

/// Where the run of set bits ends that goes from `start` to the end of its word or
/// further, and what is ahead in the word of that place; nothing at the end.
#[inline(never)] // Few runs are so long; a loop over the others stays small.
fn end_of_ones(words: &[u64], start: usize, end: usize) -> (usize, u64) {
    // A first word that is all set is looked at once more: a folio's words then are
    // whole chunks.
    let first = start.div_ceil(WORD_BITS);
    let words = words.get(first..words_for(end)).unwrap_or_default();
    let whole = same_front::<{ u64::MAX }>(words);
    let Some(word) = words.get(whole) else {
        return (end, 0);
    };
    let base = (first + whole) * WORD_BITS;
    let into = word.trailing_ones() as usize;
    let ahead = cut_word(*word, end - base) & (u64::MAX << into);
    ((base + into).min(end), ahead)
}

/// How many words from the front have this value. It looks at eight at a time,
/// which compiles to wide instructions.
#[inline]
fn same_front<const VALUE: u64>(words: &[u64]) -> usize {
    const WIDE: usize = 8;
    let mut rest = words;
    while let Some((chunk, behind)) = rest.split_first_chunk::<WIDE>()
        && chunk.iter().fold(0, |all, word| all | (word ^ VALUE)) == 0
    {
        rest = behind;
    }
    while let Some((word, behind)) = rest.split_first()
        && *word == VALUE
    {
        rest = behind;
    }
    words.len() - rest.len()
}

/// The first set bit at or behind `from`, or `end` where there is none before it.
#[inline]
pub(super) fn next_set(words: &[u64], from: usize, end: usize) -> usize {
    next_bit::<0>(words, from, end)
}

/// The first clear bit at or behind `from`, or `end` where there is none before it.
#[inline]
pub(super) fn next_clear(words: &[u64], from: usize, end: usize) -> usize {
    next_bit::<{ u64::MAX }>(words, from, end)
}

/// The first bit that differs from those of `SAME`: a word at a time.
#[inline]
fn next_bit<const SAME: u64>(words: &[u64], from: usize, end: usize) -> usize {
    if from >= end {
        return end;
    }
    let mut w = from / WORD_BITS;
    let Some(first) = words.get(w) else {
        return end;
    };
    let mut found = (first ^ SAME) >> (from % WORD_BITS) << (from % WORD_BITS);
    if found == 0 {
        if (w + 1) * WORD_BITS >= end {
            return end;
        }
        let ahead = words.get(w + 1..words_for(end)).unwrap_or_default();
        let same = same_front::<SAME>(ahead);
        let Some(word) = ahead.get(same) else {
            return end;
        };
        w += 1 + same;
        found = word ^ SAME;
    }
    (w * WORD_BITS + found.trailing_zeros() as usize).min(end)
}
