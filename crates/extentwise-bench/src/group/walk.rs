//! Rows 10 and 11: `write_begin` and `write_end` of a small write into a large folio.

use crate::paired::{Effort, pair, time};
use crate::pass::BLOCKS;
use crate::row::{Bar, Outcome, Row};
use crate::write::{FullWalk, Overwrite};

/// Writes in a batch.
const BATCH: u32 = 256;

pub(crate) fn rows(effort: Effort) -> Vec<Outcome> {
    let mut large = Overwrite::new(BLOCKS);
    let mut walked = FullWalk::new(BLOCKS);
    let full_walk = pair(
        effort.pairs(),
        || time(BATCH, || large.write()),
        "the full walk, 512 heads of 104 bytes",
        || time(BATCH / 8, || walked.write()),
    );
    let mut small = Overwrite::new(1);
    let against_small = pair(
        effort.pairs(),
        || time(BATCH, || large.write()),
        "the same into 4 KiB",
        || time(BATCH, || small.write()),
    );
    let name = "begin and end 1 KiB in an uptodate 2 MiB folio";
    vec![
        Row::of_times("10", name, Bar::goal(50.0), full_walk).into(),
        Row::of_times("11", name, Bar::goal(0.9).guard(1.0 / 1.5), against_small).into(),
    ]
}
