//! Every property over bytes made from seeds, and the canary over the same.
//!
//! A failure names its seed and the command that runs it alone.

use std::ops::Range;

use extentwise_testkit::property::{self, target};
use extentwise_testkit::seed;

/// Runs one seed instead of all of them.
const SEED_VARIABLE: &str = "EXTENTWISE_SEED";

/// Says which seed fails, if one does.
struct Seed {
    test: &'static str,
    seed: u64,
}

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "seed {} fails; alone: {SEED_VARIABLE}={} cargo test -p extentwise-testkit --test seeded {}",
                self.seed, self.seed, self.test
            );
        }
    }
}

fn seeds(all: Range<u64>) -> Range<u64> {
    match std::env::var(SEED_VARIABLE).map(|text| text.parse::<u64>()) {
        Ok(Ok(seed)) => seed..seed.saturating_add(1),
        Ok(Err(error)) => panic!("{SEED_VARIABLE}: {error}"),
        Err(_) => all,
    }
}

fn run_all(test: &'static str, count: u64, make: impl Fn(u64) -> Vec<u8>) {
    let Some(target) = target(test) else {
        panic!("no property is called {test}");
    };
    for seed in seeds(0..count) {
        let _named = Seed { test, seed };
        (target.run)(&make(seed));
    }
}

/// Bytes of a seed; their number changes with it, for short cases differ in kind.
fn noise(seed: u64, len_max: u64) -> Vec<u8> {
    let len = usize::try_from(seed.wrapping_mul(0x9e37_79b9) % len_max).unwrap_or(0);
    seed::bytes(seed, len + 1)
}

#[test]
fn writeback() {
    run_all("writeback", 30_000, |seed| noise(seed, 2048));
}

#[test]
fn writeback_invariants() {
    run_all("writeback_invariants", 60_000, |seed| noise(seed, 400));
}

#[test]
fn ordered_table() {
    run_all("ordered_table", 40_000, |seed| noise(seed, 250));
}

#[test]
fn write_begin() {
    run_all("write_begin", 60_000, |seed| noise(seed, 400));
}

#[test]
fn thin_store() {
    run_all("thin_store", 20_000, |seed| noise(seed, 224));
}

#[test]
fn engine_ops() {
    run_all("engine_ops", 20_000, |seed| noise(seed, 320));
}

#[test]
fn btrfs_image() {
    run_all("btrfs_image", 20_000, |seed| noise(seed, 40));
}

#[test]
fn bitmap() {
    run_all("bitmap", 60_000, |seed| noise(seed, 120));
}

#[test]
fn errseq() {
    run_all("errseq", 60_000, |seed| noise(seed, 130));
}

#[test]
fn extent_buffer() {
    run_all("extent_buffer", 5_000, |seed| noise(seed, 600));
}

#[test]
fn scenario_json() {
    let cases = [
        include_str!("../../extentwise-scenario/tests/cases/named-writeback.jsonl"),
        include_str!("../../extentwise-scenario/tests/cases/named-write_begin.jsonl"),
        include_str!("../../extentwise-scenario/tests/cases/named-extent_buffer.jsonl"),
        include_str!("../../extentwise-scenario/tests/cases/invalid.jsonl"),
    ];
    let lines: Vec<&str> = cases.iter().flat_map(|text| text.lines()).collect();
    run_all("scenario_json", 20_000, |seed| damaged(&lines, seed));
}

#[test]
fn iolog() {
    let lines = [
        "fio version 2 iolog",
        "fio version 3 iolog",
        "/tmp/a file add",
        "/tmp/a file open",
        "/tmp/a file write 0 4096",
        "/tmp/a file read 18446744073709551615 1",
        "/tmp/a file trim 9223372036854775807 0",
        "/tmp/a file wait 100",
        "12 /tmp/a file add",
        "13 /tmp/a file datasync",
        "14 /tmp/a file close",
        "",
    ];
    run_all("iolog", 40_000, |seed| {
        // A header that fits comes first, or little would be read.
        let mut log = lines[usize::from(seed % 3 == 0)].as_bytes().to_vec();
        log.push(b'\n');
        for part in 0..seed % 9 {
            log.extend(damaged(&lines, seed.wrapping_mul(16) + part));
            log.push(b'\n');
        }
        log
    });
}

/// A line of `lines` with a few bytes changed, doubled, swapped or dropped; half
/// of the seeds leave it whole.
fn damaged(lines: &[&str], seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut below = |end: usize| {
        let number = seed::next(&mut state) % (end.max(1) as u64);
        usize::try_from(number).unwrap_or(0)
    };
    let mut text = lines[below(lines.len())].as_bytes().to_vec();
    let digits = b"0123456789\"[]{},:- \\e";
    for _ in 0..[0, 0, 1, 1, 2, 8][below(6)] {
        let at = below(text.len());
        let other = below(text.len());
        match below(5) {
            _ if text.is_empty() => {}
            0 => text[at] = digits[below(digits.len())],
            1 => text.insert(at, digits[below(digits.len())]),
            2 => text.swap(at, other),
            3 => drop(text.drain(at.min(other)..at.max(other))),
            _ => text.insert(at, u8::try_from(below(256)).unwrap_or(0)),
        }
    }
    text
}

#[test]
fn the_canary_is_caught() {
    let caught = (0..1000).any(|seed| {
        let bytes = noise(seed, 120);
        std::panic::catch_unwind(|| property::canary(&bytes)).is_err()
    });
    assert!(caught, "seeded bytes find nothing");
}

#[test]
fn no_bytes_at_all_are_a_case_of_every_property() {
    for target in property::TARGETS {
        (target.run)(&[]);
        (target.run)(&[0]);
        assert!(!(target.describe)(&[1, 2, 3]).is_empty(), "{}", target.name);
    }
}
