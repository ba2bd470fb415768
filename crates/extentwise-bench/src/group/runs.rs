//! Rows 6 and 7: going through the runs of set bits.

use std::hint::black_box;

use bitvec::prelude::{BitSlice, BitVec, Lsb0};
use extentwise_core::bitmap::BlockBitmap;
use extentwise_core::geometry::BlockRange;
use fixedbitset::FixedBitSet;
use roaring::RoaringBitmap;

use crate::bits::Shape;
use crate::paired::{Effort, Paired, Peer, against_best, time};
use crate::row::{Bar, Outcome, Row};

/// Scans in a batch.
const BATCH: u32 = 64;

pub(crate) fn rows(effort: Effort) -> Vec<Outcome> {
    let shapes = [
        ("6", Shape::Full, 4.0),
        ("6", Shape::Sparse, 4.0),
        ("7", Shape::Random, 1.0),
        ("7", Shape::Alternating, 1.0),
    ];
    let sizes = [512, 4096];
    let all = shapes
        .iter()
        .flat_map(|shape| sizes.map(|blocks| (*shape, blocks)));
    all.map(|((id, shape, goal), blocks)| {
        let paired = measure(shape, blocks, effort);
        let name = format!("runs of {blocks} bits, {}", shape.name());
        Row::of_times(id, name, Bar::goal(goal), paired).into()
    })
    .collect()
}

fn measure(shape: Shape, blocks: usize, effort: Effort) -> Paired {
    let bitmap = BlockBitmap::from_words(shape.words(blocks), blocks).expect("the words fit");
    let all = BlockRange::clamped(0, blocks);
    let set = || {
        let blocks = shape.blocks(blocks).into_iter().enumerate();
        blocks.filter(|(_, set)| *set).map(|(block, _)| block)
    };
    let mut fixed = FixedBitSet::with_capacity(blocks);
    set().for_each(|block| fixed.insert(block));
    let bits: BitVec<u64, Lsb0> = shape.blocks(blocks).into_iter().collect();
    // As it is after writes: nobody makes it compact (`optimize`) before each look.
    let roaring: RoaringBitmap = set()
        .map(|block| u32::try_from(block).expect("few blocks"))
        .collect();

    let answers = [
        of_ours(&bitmap, all),
        of_fixedbitset(&fixed),
        of_bitvec_ones(&bits),
        of_bitvec_skips(&bits),
        of_roaring(&roaring),
    ];
    assert!(
        answers.iter().all(|answer| *answer == answers[0]),
        "all see the same runs: {answers:?}"
    );
    against_best(
        effort.pairs(),
        || time(BATCH, || of_ours(black_box(&bitmap), all)),
        vec![
            Peer::new("fixedbitset", || {
                time(BATCH, || of_fixedbitset(black_box(&fixed)))
            }),
            Peer::new("bitvec, bit by bit", || {
                time(BATCH, || of_bitvec_ones(black_box(&bits)))
            }),
            Peer::new("bitvec, by skips", || {
                time(BATCH, || of_bitvec_skips(black_box(&bits)))
            }),
            Peer::new("roaring", || {
                time(BATCH, || of_roaring(black_box(&roaring)))
            }),
        ],
    )
}

/// Goes through the runs of 4096 bits, so many times.
pub(crate) fn repeat(shape: Shape, turns: u32) {
    let blocks = 4096;
    let bitmap = BlockBitmap::from_words(shape.words(blocks), blocks).expect("the words fit");
    let all = BlockRange::clamped(0, blocks);
    for _ in 0..turns {
        black_box(of_ours(black_box(&bitmap), all));
    }
}

/// What somebody who goes through runs has seen: enough that none can be left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    runs: usize,
    starts: usize,
    ends: usize,
}

impl Seen {
    #[inline]
    fn run(self, start: usize, end: usize) -> Self {
        Self {
            runs: self.runs + 1,
            starts: self.starts.wrapping_add(start),
            ends: self.ends.wrapping_add(end),
        }
    }
}

/// Joins single bits to runs.
#[inline]
fn joined(mut ones: impl Iterator<Item = usize>) -> Seen {
    let Some(first) = ones.next() else {
        return Seen::default();
    };
    let (mut seen, mut start, mut end) = (Seen::default(), first, first + 1);
    for bit in ones {
        if bit != end {
            seen = seen.run(start, end);
            start = bit;
        }
        end = bit + 1;
    }
    seen.run(start, end)
}

fn of_ours(bitmap: &BlockBitmap<Vec<u64>>, range: BlockRange) -> Seen {
    let mut seen = Seen::default();
    for run in bitmap.runs(range) {
        seen = seen.run(run.start().get(), run.end().get());
    }
    seen
}

fn of_fixedbitset(bits: &FixedBitSet) -> Seen {
    joined(bits.ones())
}

fn of_bitvec_ones(bits: &BitVec<u64, Lsb0>) -> Seen {
    joined(bits.iter_ones())
}

fn of_bitvec_skips(bits: &BitVec<u64, Lsb0>) -> Seen {
    let (mut seen, mut at) = (Seen::default(), 0);
    while let Some(skip) = bits.get(at..).and_then(BitSlice::first_one) {
        let start = at + skip;
        let len = bits.get(start..).map_or(0, BitSlice::leading_ones);
        at = start + len;
        seen = seen.run(start, at);
    }
    seen
}

fn of_roaring(bits: &RoaringBitmap) -> Seen {
    let mut iter = bits.iter();
    let mut seen = Seen::default();
    while let Some(run) = iter.next_range() {
        seen = seen.run(*run.start() as usize, *run.end() as usize + 1);
    }
    seen
}
