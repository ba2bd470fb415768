//! Rows 1 to 5: the pass over a folio extent by extent, against the same pass stepped
//! block by block over the same bookkeeping.

use extentwise_core::writeback::Stride;

use crate::bits::Shape;
use crate::paired::{Effort, Paired, median, pair};
use crate::pass::{BLOCKS, Passes, clock_step_ns};
use crate::row::{Bar, Outcome, Row};

/// Passes in a batch, so that reading the clock does not count.
const BATCH: usize = 64;
/// The stepped pass may take so many steps of the machine's clock chain a block, so that
/// no ratio is won by slowing it. Times on a busy machine need room (13 to 24 were seen);
/// the count of its instructions, on record, is held within 2 %.
const STEPPED_MAX: f64 = 28.0;

pub(crate) fn rows(effort: Effort) -> Vec<Outcome> {
    vec![
        against_stepped(
            "1",
            "2 MiB all dirty, one extent",
            Bar::goal(100.0).guard(50.0),
            (Shape::Full, BLOCKS),
            effort,
        ),
        absolute(effort),
        against_stepped(
            "3",
            "alternating dirty blocks, one extent",
            Bar::goal(1.5).guard(1.0),
            (Shape::Alternating, BLOCKS),
            effort,
        ),
        against_stepped(
            "4",
            "2 MiB all dirty, one extent a block",
            Bar::goal(1.2).guard(1.0),
            (Shape::Full, 1),
            effort,
        ),
        growth(effort),
        stepped(effort),
    ]
}

fn against_stepped(
    id: &'static str,
    name: &str,
    bar: Bar,
    (dirty, extent_blocks): (Shape, usize),
    effort: Effort,
) -> Outcome {
    let mut ours = Passes::new(dirty, extent_blocks);
    let mut stepped = Passes::new(dirty, extent_blocks);
    let paired = pair(
        effort.pairs(),
        || ours.time(Stride::Extent, BATCH),
        "stepped",
        || stepped.time(Stride::Block, BATCH),
    );
    Row::of_times(id, name, bar, paired).into()
}

/// The time alone, held to 40 ns.
fn absolute(effort: Effort) -> Outcome {
    let mut passes = Passes::new(Shape::Full, BLOCKS);
    let times = (0..effort.pairs()).map(|_| passes.time(Stride::Extent, BATCH));
    let ours = median(times.collect());
    let name = "the same, absolute";
    let figures = (ours, 40.0, "a bound of 40 ns");
    Row::of_costs("2", name, Bar::goal(1.0), "ns", figures).into()
}

/// Each doubling of the folio, from 64 KiB to 16 MiB, may at most double the time; the
/// worst of them counts.
fn growth(effort: Effort) -> Outcome {
    let mut sizes: Vec<_> = [64, 128, 256, 512, 1024, 2048, 4096]
        .map(|blocks| Passes::sized(blocks, Shape::Full))
        .into();
    let mut rounds: Vec<Vec<f64>> = Vec::new();
    for _ in 0..effort.pairs() {
        let times = sizes
            .iter_mut()
            .map(|passes| passes.time(Stride::Extent, BATCH));
        rounds.push(times.collect());
    }
    let of_size = |at: usize| median(rounds.iter().map(|round| round[at]).collect());
    let doubling = |at: usize| {
        let ratios = rounds.iter().map(|round| 2.0 * round[at] / round[at + 1]);
        (median(ratios.collect()), at)
    };
    let worst = (0..sizes.len() - 1)
        .map(doubling)
        .min_by(|a, b| a.0.total_cmp(&b.0));
    let (ratio, at) = worst.unwrap_or((f64::NAN, 0));
    let paired = Paired {
        ours: of_size(at + 1),
        peer: 2.0 * of_size(at),
        peer_name: format!("linear in words (worst at {} words)", 2 << at),
        ratio,
    };
    let name = "growth by doublings to 16 MiB, one extent";
    Row::of_times("5", name, Bar::goal(0.9), paired).into()
}

/// What the stepped pass itself costs, in steps of the machine's clock chain.
fn stepped(effort: Effort) -> Outcome {
    let mut passes = Passes::new(Shape::Full, BLOCKS);
    let blocks = BLOCKS as f64;
    let paired = pair(
        effort.pairs(),
        || passes.time(Stride::Block, BATCH) / blocks,
        &format!("the ceiling: {STEPPED_MAX} steps of a clock chain"),
        || clock_step_ns() * STEPPED_MAX,
    );
    let name = "the stepped pass itself, a block";
    Row::of_times("stepped", name, Bar::goal(1.0), paired).into()
}
