//! Runs scenarios through the core.
// LEAD: replaced by the core runner

use crate::result::{WriteBeginResult, WritebackResult};
use crate::{WriteBeginScenario, WritebackScenario, oracle};

/// Decides a writeback scenario.
#[must_use]
pub fn writeback(scenario: &WritebackScenario) -> WritebackResult {
    oracle::writeback(scenario)
}

/// Decides a `write_begin` scenario.
#[must_use]
pub fn write_begin(scenario: &WriteBeginScenario) -> WriteBeginResult {
    oracle::write_begin(scenario)
}
