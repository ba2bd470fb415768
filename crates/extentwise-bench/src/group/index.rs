//! Finding a folio among a million against finding one among a thousand: the cost
//! must follow the walk of one lookup, not the size of the cache.
//!
//! Each measurement reads a few neighbours over and over, as programs do, so that
//! both ways run from the processor's caches.

use crate::bits::numbers;
use crate::cache::Cache;
use crate::paired::{Effort, pair, time};
use crate::pass::BLOCK;
use crate::row::{Bar, Outcome, Row};

const NEIGHBOURS: u64 = 64;
const LAPS: u32 = 8;

pub(crate) fn rows(effort: Effort) -> Vec<Outcome> {
    let mut few = Cache::new(1000, BLOCK);
    let mut many = Cache::new(1_000_000, BLOCK);
    let round = |cache: &mut Cache, number: u64| {
        let first = number % (cache.folios - NEIGHBOURS);
        let mut lap = || {
            // Backwards: reading in sequence would read ahead.
            for nth in (first..first + NEIGHBOURS).rev() {
                cache.read(nth);
            }
        };
        lap();
        time(LAPS, lap) / 64.0
    };
    let (mut number, mut other_number) = (numbers(1), numbers(1));
    let paired = pair(
        effort.pairs(),
        || round(&mut many, number()),
        "among 1,000",
        || round(&mut few, other_number()),
    );
    let name = "a read that hits, among 1,000,000 folios";
    vec![Row::of_times("index", name, Bar::only_guard(0.5), paired).into()]
}
