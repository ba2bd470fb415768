//! Bitmaps against a list of flags.

use extentwise_core::bitmap::{BitmapError, BlockBitmap, words_for};
use extentwise_core::geometry::{BlockIndex, BlockRange};

use super::choice::Choices;

const OPS_MAX: usize = 24;
/// Sizes around the borders of words.
const BLOCKS: [usize; 12] = [64, 0, 1, 2, 63, 65, 100, 127, 128, 129, 192, 256];

#[derive(Clone, Copy, Debug)]
enum Op {
    Set(BlockRange),
    Clear(BlockRange),
    /// Everything that can be asked about a range.
    Ask(BlockRange),
    /// The words taken as the bitmap of fewer or more blocks.
    Recount(usize),
    /// Another bitmap with one block more or less.
    Compare(usize),
}

/// A bitmap over a `Vec`, with a word to spare or without, against one flag a
/// block (W3).
///
/// # Panics
///
/// Where an answer differs from that of the flags.
pub fn bitmap(data: &[u8]) {
    let (blocks, spare, ops) = decode(data);
    let words = vec![u64::MAX; words_for(blocks) + spare];
    let Ok(mut bitmap) = BlockBitmap::cleared(words, blocks) else {
        panic!("{blocks} blocks do not fit the words that they need");
    };
    let mut flags = vec![false; blocks];
    for op in ops {
        match op {
            Op::Set(range) => {
                bitmap.set(range);
                flags[cut(range, blocks)].fill(true);
            }
            Op::Clear(range) => {
                bitmap.clear(range);
                flags[cut(range, blocks)].fill(false);
            }
            Op::Ask(range) => ask(&bitmap, &flags, range),
            Op::Recount(other) => recount(&bitmap, &flags, other),
            Op::Compare(block) => compare(&bitmap, &flags, block),
        }
    }
    ask(&bitmap, &flags, run(0, usize::MAX));
    for (block, &flag) in flags.iter().enumerate() {
        assert_eq!(bitmap.test(BlockIndex::new(block)), flag, "block {block}");
    }
    assert!(!bitmap.test(BlockIndex::new(blocks)), "behind the end");
    assert!(!bitmap.test(BlockIndex::new(usize::MAX)), "far behind");
}

pub(super) fn describe(data: &[u8]) -> String {
    let (blocks, spare, ops) = decode(data);
    format!(
        "{blocks} blocks, {spare} words to spare\n{}",
        super::list(ops)
    )
}

fn ask(bitmap: &BlockBitmap<Vec<u64>>, flags: &[bool], range: BlockRange) {
    let inside = cut(range, flags.len());
    let (start, part) = (inside.start, &flags[inside]);
    let fits = range.is_empty() || range.end().get() <= flags.len();
    let count = part.iter().filter(|flag| **flag).count();
    assert_eq!(bitmap.count_in(range), count, "{range:?}");
    assert_eq!(bitmap.any_in(range), count > 0, "{range:?}");
    assert_eq!(
        bitmap.all_in(range),
        fits && count == part.len(),
        "{range:?}"
    );
    assert_eq!(bitmap.any(), flags.contains(&true));
    let set = runs_of(part, start, true);
    let clear = runs_of(part, start, false);
    assert_eq!(bitmap.next_run(range), set.first().copied(), "{range:?}");
    assert_eq!(bitmap.next_gap(range), clear.first().copied(), "{range:?}");
    assert!(bitmap.runs(range).eq(set), "{range:?}");
    assert_eq!(bitmap.borrowed().count_in(range), count, "{range:?}");
}

fn recount(bitmap: &BlockBitmap<Vec<u64>>, flags: &[bool], blocks: usize) {
    let words = bitmap.words().to_vec();
    let fits = blocks.div_ceil(64) <= words.len();
    let behind = flags.iter().skip(blocks).position(|flag| *flag);
    let expected = match behind {
        _ if !fits => Err(BitmapError::TooFewWords {
            words: words.len(),
            blocks,
        }),
        Some(more) => Err(BitmapError::BitBehindEnd {
            bit: BlockIndex::new(blocks + more),
            blocks,
        }),
        None => Ok(blocks),
    };
    let taken = BlockBitmap::from_words(words, blocks).map(|taken| taken.blocks());
    assert_eq!(taken, expected, "{blocks} blocks");
}

fn compare(bitmap: &BlockBitmap<Vec<u64>>, flags: &[bool], block: usize) {
    let mut other = bitmap.clone();
    let one = BlockRange::one(BlockIndex::new(block));
    other.clear(one);
    let expected = (flags.get(block) == Some(&true)).then_some(BlockIndex::new(block));
    assert_eq!(bitmap.first_outside(&other), expected, "without {block}");
    other.set(one);
    assert_eq!(bitmap.first_outside(&other), None, "with {block}");
}

/// The runs of flags that are `wanted`; the part begins at block `start`.
fn runs_of(part: &[bool], start: usize, wanted: bool) -> Vec<BlockRange> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (block, flag) in (start..).zip(part) {
        if *flag != wanted {
            continue;
        }
        match runs.last_mut() {
            Some((_, end)) if *end == block => *end = block + 1,
            _ => runs.push((block, block + 1)),
        }
    }
    runs.into_iter().map(|(a, b)| run(a, b)).collect()
}

fn cut(range: BlockRange, blocks: usize) -> std::ops::Range<usize> {
    range.start().get().min(blocks)..range.end().get().min(blocks)
}

fn run(start: usize, end: usize) -> BlockRange {
    BlockRange::new(BlockIndex::new(start), BlockIndex::new(end)).unwrap_or_default()
}

fn decode(data: &[u8]) -> (usize, usize, impl Iterator<Item = Op>) {
    let mut choices = Choices::new(data);
    let blocks = choices.one_of(&BLOCKS);
    let spare = usize::from(choices.chance(64));
    let ops = std::iter::from_fn(move || {
        if choices.is_empty() {
            return None;
        }
        Some(match choices.below(8) {
            0..=2 => Op::Set(range(&mut choices, blocks)),
            3 | 4 => Op::Clear(range(&mut choices, blocks)),
            5 => Op::Recount(choices.index(blocks + 66)),
            6 => Op::Compare(choices.index(blocks + 2)),
            _ => Op::Ask(range(&mut choices, blocks)),
        })
    });
    (blocks, spare, ops.take(OPS_MAX))
}

/// Any range, mostly inside, sometimes as far as numbers go.
fn range(choices: &mut Choices<'_>, blocks: usize) -> BlockRange {
    let mut edge = || match choices.index(blocks + 4) {
        edge if edge == blocks + 3 => usize::MAX,
        edge => edge,
    };
    let (a, b) = (edge(), edge());
    run(a.min(b), a.max(b))
}
