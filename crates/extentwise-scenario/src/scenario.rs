//! A scenario of any kind, and the rules that kinds share.

use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, Serializer};

use crate::fields::{At, text};
use crate::json::Json;
use crate::{ExtentBufferScenario, Invalid, WriteBeginScenario, WritebackScenario};

/// The most blocks that the folios of one scenario may have together. It
/// bounds the memory that a hostile scenario can ask for.
pub const BLOCKS_MAX: u64 = 1 << 24;

/// A checked scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// Writing back folios, extent by extent.
    Writeback(WritebackScenario),
    /// Preparing and committing one buffered write.
    WriteBegin(WriteBeginScenario),
    /// Operations on one metadata block.
    ExtentBuffer(ExtentBufferScenario),
}

impl Scenario {
    /// The name that the scenario gives itself.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Scenario::Writeback(scenario) => &scenario.name,
            Scenario::WriteBegin(scenario) => &scenario.name,
            Scenario::ExtentBuffer(scenario) => &scenario.name,
        }
    }

    /// Checks every rule of the format. Scenarios that were parsed or
    /// generated have passed; call it on one put together by hand.
    pub fn check(&self) -> Result<(), Invalid> {
        match self {
            Scenario::Writeback(scenario) => scenario.check(),
            Scenario::WriteBegin(scenario) => scenario.check(),
            Scenario::ExtentBuffer(scenario) => scenario.check(),
        }
    }

    pub(crate) fn from_json(json: &Json<'_>) -> Result<Self, Invalid> {
        read(json).map_err(|invalid| Invalid {
            name: name_of(json),
            ..invalid
        })
    }
}

impl From<WritebackScenario> for Scenario {
    fn from(scenario: WritebackScenario) -> Self {
        Scenario::Writeback(scenario)
    }
}

impl From<WriteBeginScenario> for Scenario {
    fn from(scenario: WriteBeginScenario) -> Self {
        Scenario::WriteBegin(scenario)
    }
}

impl From<ExtentBufferScenario> for Scenario {
    fn from(scenario: ExtentBufferScenario) -> Self {
        Scenario::ExtentBuffer(scenario)
    }
}

/// One line of JSON, as [`parse_line`](crate::parse::parse_line) reads it.
impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = serde_json::to_string(self).map_err(|_| fmt::Error)?;
        f.write_str(&line)
    }
}

impl Serialize for Scenario {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Scenario::Writeback(scenario) => scenario.serialize(serializer),
            Scenario::WriteBegin(scenario) => scenario.serialize(serializer),
            Scenario::ExtentBuffer(scenario) => scenario.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Scenario {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Scenario::from_json(&Json::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

fn read(json: &Json<'_>) -> Result<Scenario, Invalid> {
    let Json::Object(entries) = json else {
        return Err(Invalid::new("", format!("{json} is not a scenario object")));
    };
    let at = At::Root.key("kind");
    let kind = entries
        .iter()
        .find_map(|(key, value)| (key == "kind").then_some(value))
        .ok_or_else(|| at.refuse("missing, but required"))?;
    match text(kind, at)? {
        "writeback" => WritebackScenario::read(json).map(Scenario::Writeback),
        "write_begin" => WriteBeginScenario::read(json).map(Scenario::WriteBegin),
        "extent_buffer" => ExtentBufferScenario::read(json).map(Scenario::ExtentBuffer),
        _ => Err(at.refuse(format!(
            "{kind} is unknown; kinds are writeback, write_begin and extent_buffer"
        ))),
    }
}

fn name_of(json: &Json<'_>) -> Option<String> {
    let Json::Object(entries) = json else {
        return None;
    };
    entries.iter().find_map(|(key, value)| match value {
        Json::Text(name) if key == "name" => Some(name.to_string()),
        _ => None,
    })
}

pub(crate) fn check_block_size(block_size: u64) -> Result<(), Invalid> {
    const MIN: u64 = 512;
    const MAX: u64 = 64 * 1024;
    if block_size.is_power_of_two() && (MIN..=MAX).contains(&block_size) {
        return Ok(());
    }
    Err(At::Root.key("block_size").refuse(format!(
        "{block_size} is not a power of two from {MIN} to {MAX}"
    )))
}

/// Checks size and position of a folio and answers the range it covers.
pub(crate) fn check_folio(
    pos: u64,
    size: u64,
    block_size: u64,
    at: &At<'_>,
) -> Result<Range<u64>, Invalid> {
    if !size.is_power_of_two() || size < block_size {
        return Err(at.key("size").refuse(format!(
            "{size} is not a power of two from the block size {block_size} on"
        )));
    }
    if !pos.is_multiple_of(size) {
        return Err(at.key("pos").refuse(format!(
            "{pos} is not a multiple of the folio's size {size}"
        )));
    }
    match pos.checked_add(size) {
        Some(end) => Ok(pos..end),
        None => Err(at
            .key("size")
            .refuse(format!("pos {pos} + size {size} is above 2^64-1"))),
    }
}

/// Refuses more than [`BLOCKS_MAX`] blocks.
pub(crate) fn check_blocks_max(blocks: u64, at: &At<'_>) -> Result<(), Invalid> {
    if blocks <= BLOCKS_MAX {
        return Ok(());
    }
    Err(at.refuse(format!(
        "{blocks} blocks of folios; one scenario may have {BLOCKS_MAX}"
    )))
}
