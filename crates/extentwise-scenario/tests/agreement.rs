//! The core and the block-by-block oracle agree on made-up scenarios: events,
//! bios, ordered extents, folios and errors, down to the byte.

use extentwise_scenario::result::BufferValue;
use extentwise_scenario::{generate, oracle, run};

const SEEDS: u64 = 100_000;
/// Each gets memory from the system, and sums up blocks bit by bit.
const BUFFER_SEEDS: u64 = 20_000;

#[test]
fn extent_and_block_mode_agree_on_writeback_scenarios() {
    let mut bios = 0;
    let mut beyond = 0;
    for seed in 0..SEEDS {
        let scenario = generate::writeback_from_seed(seed);
        let extent = run::writeback(&scenario);
        assert_eq!(
            extent,
            oracle::writeback(&scenario),
            "seed {seed}: {}",
            serde_json::to_string(&scenario).unwrap()
        );
        bios += extent.bios.len();
        beyond += usize::from(extent.ordered.iter().any(|e| e.truncated_len < e.num_bytes));
    }
    // A generator that makes nothing interesting would let anything agree.
    assert!(bios > 100_000, "{bios} bios");
    assert!(
        beyond > 10_000,
        "{beyond} scenarios past the end of the file"
    );
}

#[test]
fn extent_and_block_mode_agree_on_write_begin_scenarios() {
    let (mut errors, mut short) = (0, 0);
    for seed in 0..SEEDS {
        let scenario = generate::write_begin_from_seed(seed);
        let extent = run::write_begin(&scenario);
        assert_eq!(
            extent,
            oracle::write_begin(&scenario),
            "seed {seed}: {}",
            serde_json::to_string(&scenario).unwrap()
        );
        errors += usize::from(extent.error.is_some());
        let len = scenario.to - scenario.from;
        short += usize::from(scenario.copied.is_some_and(|copied| copied < len));
    }
    assert!(errors > 5_000, "{errors} errors");
    assert!(short > 10_000, "{short} short copies");
}

#[test]
fn extent_buffers_of_every_backing_agree_with_a_flat_array() {
    let mut done = [0; 3];
    let (mut refused, mut shared) = (0, 0);
    for seed in 0..BUFFER_SEEDS {
        let scenario = generate::extent_buffer_from_seed(seed);
        let block = run::extent_buffer(&scenario);
        assert_eq!(
            block,
            oracle::extent_buffer(&scenario),
            "seed {seed}: {}",
            serde_json::to_string(&scenario).unwrap()
        );
        shared += usize::from(scenario.node_size < scenario.page_size);
        let outside = block.results.iter();
        let outside = outside.filter(|value| **value == BufferValue::OutOfRange);
        let outside = outside.count();
        refused += outside;
        done[scenario.backing as usize] += block.results.len() - outside;
    }
    assert!(done.iter().all(|ops| *ops > 10_000), "{done:?} operations");
    assert!(refused > 10_000, "{refused} operations refused");
    assert!(shared > 5_000, "{shared} blocks share a page");
}
