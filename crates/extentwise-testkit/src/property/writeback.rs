//! Writeback scenarios: the core against the block-by-block oracle.

use arbitrary::{Arbitrary, Unstructured};
use extentwise_scenario::{Scenario, WritebackScenario, oracle, run};

/// Bounds of a case: large ones take long and show nothing that small ones do not.
const BLOCKS_MAX: u64 = 136;
const ORDERED_MAX: usize = 16;

/// Decides a made-up writeback scenario extent by extent through the core and
/// block by block through the oracle: events, bios, ordered extents, folios and
/// errors are the same, down to the byte.
///
/// # Panics
///
/// Where they differ.
pub fn writeback(data: &[u8]) {
    if let Some(scenario) = decode(data) {
        assert_eq!(
            run::writeback(&scenario),
            oracle::writeback(&scenario),
            "core and oracle differ on {}",
            Scenario::from(scenario)
        );
    }
}

pub(super) fn describe(data: &[u8]) -> String {
    decode(data).map_or_else(
        || "no scenario".to_owned(),
        |scenario| Scenario::from(scenario).to_string(),
    )
}

fn decode(data: &[u8]) -> Option<WritebackScenario> {
    let mut scenario = WritebackScenario::arbitrary(&mut Unstructured::new(data)).ok()?;
    let mut blocks = 0;
    let block_size = scenario.block_size;
    let fits = |size: u64| {
        blocks += size / block_size;
        blocks <= BLOCKS_MAX
    };
    let sizes = scenario.folios.iter().map(|folio| folio.size);
    let kept = sizes.map(fits).take_while(|fits| *fits).count();
    scenario.folios.truncate(kept.max(1));
    scenario.ordered.truncate(ORDERED_MAX);
    Some(scenario)
}
