//! The pass over folios, driven by a device that does what it likes.

mod case;
mod session;

use std::num::NonZeroUsize;

use extentwise_core::ordered::{FixedStore, NoFinishedMap, TreeStore};
use extentwise_core::writeback::Segment;

use case::{Case, Tables};
use session::run;

/// Passes over folios through the core's steps: pieces are refused, bios
/// complete inside the send or later, in any order, well or badly, ranges are
/// finished twice, blocks are made dirty again and extents leave between steps,
/// over tables and segment lists of every kind. Every block is decided once and
/// in its place, no block of the pass stays dirty, writeback ends once, and bios
/// are what they promise (W1–W11, S1–S4).
///
/// # Panics
///
/// Where one of these does not hold.
pub fn writeback_invariants(data: &[u8]) {
    let case = Case::decode(data);
    let limit = |segments: usize| case.max_segments.min(NonZeroUsize::new(segments));
    match case.tables {
        Tables::Heap => run::<TreeStore, Vec<Segment>>(&case, case.max_segments),
        Tables::Fixed => {
            run::<FixedStore<4>, heapless::Vec<Segment, 2>>(
                &case,
                limit(2).or(NonZeroUsize::new(2)),
            );
        }
        Tables::Counting => {
            let one = NonZeroUsize::new(1);
            run::<FixedStore<3, NoFinishedMap>, heapless::Vec<Segment, 1>>(&case, one);
        }
        Tables::Mixed => {
            let three = NonZeroUsize::new(3);
            run::<TreeStore<NoFinishedMap>, heapless::Vec<Segment, 3>>(&case, limit(3).or(three));
        }
    }
}

pub(super) fn describe(data: &[u8]) -> String {
    Case::decode(data).to_string()
}
