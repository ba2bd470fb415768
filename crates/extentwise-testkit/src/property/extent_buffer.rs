//! Operations on metadata blocks: the core in real memory against a flat array.

use arbitrary::{Arbitrary, Unstructured};
use extentwise_scenario::{ExtentBufferScenario, Scenario, oracle, run};

/// Runs made-up operations on a block in one allocation, in mapped or in
/// scattered pages, alone or beside others in a page, and on a flat array of
/// bytes: every answer, every byte and every neighbour is the same (B1–B6).
///
/// # Panics
///
/// Where they differ.
pub fn extent_buffer(data: &[u8]) {
    if let Some(scenario) = decode(data) {
        assert_eq!(
            run::extent_buffer(&scenario),
            oracle::extent_buffer(&scenario),
            "block and flat array differ on {}",
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

fn decode(data: &[u8]) -> Option<ExtentBufferScenario> {
    ExtentBufferScenario::arbitrary(&mut Unstructured::new(data)).ok()
}
