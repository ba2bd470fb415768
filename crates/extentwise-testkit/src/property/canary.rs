//! A property that does not hold, so that a fuzzer that finds nothing is known
//! to look at something.

use extentwise_core::bitmap::BlockBitmap;
use extentwise_core::geometry::{BlockIndex, BlockRange};

use super::choice::Choices;

const BLOCKS: usize = 128;

/// Claims, falsely, that no run of blocks goes on past the first word of its
/// bitmap when it begins behind block 40.
///
/// # Panics
///
/// Where it is caught lying. A fuzzer that is told of comparisons and covered
/// edges gets there in well under a second.
pub fn canary(data: &[u8]) {
    let mut choices = Choices::new(data);
    let Ok(mut bitmap) = BlockBitmap::<[u64; 2]>::empty(BLOCKS) else {
        return;
    };
    while !choices.is_empty() {
        let block = choices.index(BLOCKS);
        bitmap.set(BlockRange::one(BlockIndex::new(block)));
    }
    let all = BlockRange::new(BlockIndex::new(0), BlockIndex::new(BLOCKS)).unwrap_or_default();
    for run in bitmap.runs(all) {
        let (start, end) = (run.start().get(), run.end().get());
        assert!(
            start <= 40 || start >= 64 || end <= 64,
            "the canary was caught: run {start}..{end}"
        );
    }
}
