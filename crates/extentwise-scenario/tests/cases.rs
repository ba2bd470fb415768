//! The cases with known results, decided by the oracle and by the core.

use extentwise_scenario::result::ScenarioResult;
use extentwise_scenario::{Scenario, oracle, parse, run};
use serde_json::Value;

/// Holds one way of deciding scenarios against the expected results; they are
/// compared as parsed JSON.
fn check(cases: &str, expected: &str, decide: fn(&Scenario) -> ScenarioResult) {
    let mut expected = expected.lines();
    let mut count = 0;
    for item in parse::scenarios(cases) {
        let scenario = item
            .scenario
            .unwrap_or_else(|invalid| panic!("line {}: {invalid}", item.line));
        let got = serde_json::to_value(decide(&scenario)).unwrap();
        let want: Value = serde_json::from_str(expected.next().expect("a result a case")).unwrap();
        assert_eq!(got, want, "line {}: {scenario}", item.line);
        count += 1;
    }
    assert_eq!(expected.next(), None);
    assert!(count > 0);
}

fn by_oracle(scenario: &Scenario) -> ScenarioResult {
    ScenarioResult::of(
        scenario,
        oracle::writeback,
        oracle::write_begin,
        oracle::extent_buffer,
    )
}

fn by_core(scenario: &Scenario) -> ScenarioResult {
    ScenarioResult::of(
        scenario,
        run::writeback,
        run::write_begin,
        run::extent_buffer,
    )
}

macro_rules! case_files {
    ($($oracle:ident, $core:ident: $file:literal;)*) => {$(
        #[test]
        fn $oracle() {
            check(
                include_str!(concat!("cases/", $file, ".jsonl")),
                include_str!(concat!("cases/", $file, ".expected.jsonl")),
                by_oracle,
            );
        }

        #[test]
        fn $core() {
            check(
                include_str!(concat!("cases/", $file, ".jsonl")),
                include_str!(concat!("cases/", $file, ".expected.jsonl")),
                by_core,
            );
        }
    )*};
}

case_files! {
    oracle_decides_named_writeback_cases, core_decides_named_writeback_cases: "named-writeback";
    oracle_decides_random_writeback_cases, core_decides_random_writeback_cases: "random-writeback";
    oracle_decides_named_write_begin_cases, core_decides_named_write_begin_cases: "named-write_begin";
    oracle_decides_random_write_begin_cases, core_decides_random_write_begin_cases: "random-write_begin";
    oracle_decides_named_extent_buffer_cases, core_decides_named_extent_buffer_cases: "named-extent_buffer";
    oracle_decides_random_extent_buffer_cases, core_decides_random_extent_buffer_cases: "random-extent_buffer";
}

#[test]
fn every_invalid_case_is_refused_with_the_key_named() {
    let keys = [
        "folios[0].submit",
        "ordered[1]",
        "folios[0].submit",
        "block_size",
        "i_sise",
        "folios[0].pos",
    ];
    let items: Vec<_> = parse::scenarios(include_str!("cases/invalid.jsonl")).collect();
    assert_eq!(items.len(), keys.len());
    for (item, key) in items.into_iter().zip(keys) {
        let invalid = item.scenario.expect_err("the case is invalid");
        assert_eq!(invalid.key, key, "line {}", item.line);
        assert!(invalid.to_string().contains(&format!("key \"{key}\": ")));
        assert!(invalid.name.is_some());
    }
}

#[test]
fn cases_print_as_scenarios_that_read_back_the_same() {
    for text in [
        include_str!("cases/named-writeback.jsonl"),
        include_str!("cases/random-writeback.jsonl"),
        include_str!("cases/named-write_begin.jsonl"),
        include_str!("cases/random-write_begin.jsonl"),
        include_str!("cases/named-extent_buffer.jsonl"),
        include_str!("cases/random-extent_buffer.jsonl"),
    ] {
        for item in parse::scenarios(text) {
            let scenario = item.scenario.unwrap();
            assert_eq!(parse::parse_line(&scenario.to_string()), Ok(scenario));
        }
    }
}
