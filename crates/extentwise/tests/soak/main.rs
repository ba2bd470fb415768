//! The cache for threads in random runs from a seed: sizes, policies, threads,
//! faults and calls, against byte vectors; and more data than memory.
//!
//! `cargo xtask soak` runs the long ones.

// Offsets and lengths stay far below 2^32.
#![allow(clippy::cast_possible_truncation)]

mod disks;
mod large;
mod run;

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A run takes a fraction of a second; one that hangs is found.
const RUN_MAX: Duration = Duration::from_secs(60);

/// Runs a seed, and fails with it where that takes too long.
fn run_watched(seed: u64) -> run::Seen {
    let (done, ended) = channel();
    let runner = thread::spawn(move || {
        let found = run::run(seed);
        let _ = done.send(());
        found
    });
    match ended.recv_timeout(RUN_MAX) {
        Err(RecvTimeoutError::Timeout) => panic!("seed {seed} hangs"),
        // Without an answer it panicked: joining says so.
        Ok(()) | Err(RecvTimeoutError::Disconnected) => {}
    }
    let found = runner.join();
    found.unwrap_or_else(|_| panic!("seed {seed} fails: EXTENTWISE_SOAK_SEED={seed} runs it again"))
}

#[test]
fn random_runs_hold_what_threads_wrote_with_and_without_faults() {
    let mut all = run::Seen::default();
    for seed in 0..24 {
        all.add(run_watched(seed));
    }
    assert!(all.calls > 5_000 && all.refused > 0, "{all:?}");
    assert!(all.struck > 100, "no fault, no test of faults: {all:?}");
}

#[test]
#[ignore = "long: cargo xtask soak"]
fn soak_for_a_time() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    if let Some(seed) = number("EXTENTWISE_SOAK_SEED") {
        println!("soak: seed {seed}: {:?}", run_watched(seed));
        return;
    }
    let time = Duration::from_secs(number("EXTENTWISE_SOAK_SECONDS").unwrap_or(60));
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let first = now.map_or(1, |now| now.as_nanos() as u64 >> 10);
    println!("soak: seeds from {first} for {} s", time.as_secs());
    let (started, mut seed, mut all) = (Instant::now(), first, run::Seen::default());
    while started.elapsed() < time {
        all.add(run_watched(seed));
        seed += 1;
    }
    println!("soak: {} runs, {all:?}", seed - first);
}

#[test]
#[ignore = "long: cargo xtask soak"]
fn eight_gib_go_through_a_cache_of_64_mib() {
    large::write(8 << 30);
}

#[test]
fn more_data_than_memory_goes_through_a_small_cache() {
    large::write(256 << 20);
}
