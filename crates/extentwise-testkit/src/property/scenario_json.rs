//! Hostile text as scenarios.

use extentwise_scenario::{
    ExtentBufferScenario, Scenario, WriteBeginScenario, WritebackScenario, oracle, parse,
    picture::Picture, run,
};

/// Scenarios of one text that are looked at.
const ITEMS_MAX: usize = 8;
/// What is run through core and oracle, in blocks or operations; larger ones are
/// only parsed.
const BLOCKS_MAX: u64 = 1024;
const RANGES_MAX: usize = 256;

/// Any text either parses or is refused with a reason. What parses prints and
/// parses again as the same, and if it is small, core and oracle agree on it and
/// it can be drawn.
///
/// # Panics
///
/// Where that does not hold.
pub fn scenario_json(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let lines = text.lines().count();
    for item in parse::scenarios(text).take(ITEMS_MAX) {
        assert!((1..=lines).contains(&item.line), "line {}", item.line);
        match item.scenario {
            Err(invalid) => assert!(!invalid.to_string().is_empty(), "refused without a reason"),
            Ok(scenario) => examine(&scenario),
        }
    }
}

pub(super) fn describe(data: &[u8]) -> String {
    String::from_utf8_lossy(data).into_owned()
}

fn examine(scenario: &Scenario) {
    assert_eq!(scenario.check(), Ok(()), "parsed, so it was checked");
    let blocks = match scenario {
        Scenario::Writeback(writeback) => blocks_of(writeback),
        Scenario::WriteBegin(write) => write.size / write.block_size,
        Scenario::ExtentBuffer(buffer) => buffer.ops.len() as u64,
    };
    if blocks > BLOCKS_MAX {
        return;
    }
    let printed = scenario.to_string();
    assert_eq!(parse::parse_line(&printed).as_ref(), Ok(scenario));
    match scenario {
        Scenario::Writeback(writeback) => examine_writeback(writeback),
        Scenario::WriteBegin(write) => examine_write_begin(write),
        Scenario::ExtentBuffer(buffer) => examine_extent_buffer(buffer),
    }
}

fn blocks_of(scenario: &WritebackScenario) -> u64 {
    let sizes = scenario.folios.iter().map(|folio| folio.size);
    sizes.fold(0, u64::saturating_add) / scenario.block_size
}

fn examine_writeback(scenario: &WritebackScenario) {
    let ranges = |list: &[std::ops::Range<u64>]| list.len();
    let finished: usize = scenario.ordered.iter().map(|e| ranges(&e.finished)).sum();
    if scenario.ordered.len() + finished + ranges(&scenario.fail_io) > RANGES_MAX {
        return;
    }
    let result = run::writeback(scenario);
    assert_eq!(result, oracle::writeback(scenario));
    assert!(!Picture::writeback(scenario, &result).to_text().is_empty());
}

fn examine_write_begin(scenario: &WriteBeginScenario) {
    let result = run::write_begin(scenario);
    assert_eq!(result, oracle::write_begin(scenario));
    assert!(!Picture::write_begin(scenario, &result).to_text().is_empty());
}

fn examine_extent_buffer(scenario: &ExtentBufferScenario) {
    let result = run::extent_buffer(scenario);
    assert_eq!(result, oracle::extent_buffer(scenario));
    assert!(
        !Picture::extent_buffer(scenario, &result)
            .to_text()
            .is_empty()
    );
}
