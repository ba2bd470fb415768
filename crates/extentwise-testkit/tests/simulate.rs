//! Some of every simulation, with debug assertions; `cargo xtask simulate` runs
//! a thousand times as many.

use extentwise_testkit::sim::{self, Backing, Host, Tally, Trouble};

/// Runs seeds, and names the one that fails with the command that runs it alone.
#[track_caller]
fn run_all(kind: &str, count: u64, run: impl Fn(u64) -> Result<Tally, String>) -> Tally {
    let mut tally = Tally::default();
    for seed in 0..count {
        match run(seed) {
            Ok(found) => tally.add(&found),
            Err(fault) => {
                panic!("{fault}; alone: cargo xtask simulate --{kind} --seed {seed}")
            }
        }
    }
    tally
}

#[test]
fn what_is_read_and_synced_is_what_was_written() {
    let tally = run_all("model", 1500, |seed| sim::model(seed, Trouble::None));
    assert!(tally.syncs > 1500);
}

#[test]
fn no_error_and_no_data_is_lost_in_silence() {
    let tally = run_all("trouble", 1500, |seed| sim::model(seed, Trouble::Faults));
    assert!(tally.syncs > 1500);
}

#[test]
fn c8_a_crash_shows_what_was_synced_or_newer() {
    for (kind, backing) in [("crash-flat", Backing::Flat), ("crash-thin", Backing::Thin)] {
        let tally = run_all(kind, 40, |seed| sim::crash(seed, backing, Host::Right));
        assert!(tally.states > 2000, "{tally:?}");
    }
}

#[test]
fn c8_a_host_that_leaves_flushes_out_is_caught() {
    let host = Host::LeavesFlushesOut;
    let caught = (0..40).any(|seed| sim::crash(seed, Backing::Thin, host).is_err());
    assert!(caught);
}

#[test]
fn each_call_of_a_scenario_fails_in_every_way() {
    let tally = run_all("faults", 4, sim::faults);
    assert_eq!(tally.fault_runs, tally.ordinals * 8);
    assert!(tally.struck * 2 > tally.fault_runs, "{tally:?}");
}

#[test]
fn c11_the_durability_table_is_what_crashes_leave() {
    let committed = include_str!("../../../docs/durability.md");
    assert!(
        committed == sim::durability_table(),
        "docs/durability.md: `cargo xtask simulate --table` prints what it must be"
    );
}
