//! `simulate KIND [--seed S] [--count N]`: runs seeds, from S on or from 0, on
//! all processors, and prints what was looked at, a count a line. What fails is
//! named by its seed, the lowest that does.
//!
//! `simulate table` prints the table of what survives a crash.

use std::panic::catch_unwind;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use extentwise_testkit::sim::{self, Backing, Choices, Host, Setup, Tally, Trouble};

const USAGE: &str = "usage: simulate model|trouble|crash-flat|crash-thin|canary|faults \
                     [--seed S] [--count N]\n       simulate table";

type Run = fn(u64) -> Result<Tally, String>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words == ["table"] {
        print!("{}", sim::durability_table());
        return ExitCode::SUCCESS;
    }
    let Some((kind, first, count)) = parse(&words) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let Some(run) = run_of(&kind) else {
        eprintln!("{kind} is not known\n{USAGE}");
        return ExitCode::from(2);
    };
    let (tally, failure) = run_all(run, first, first.saturating_add(count));
    for (name, count) in tally.counts() {
        println!("count\t{name}\t{count}");
    }
    let Some((seed, fault)) = failure else {
        return ExitCode::SUCCESS;
    };
    println!("failed\t{kind}\t{seed}\t{fault}");
    if count == 1 {
        println!("{}", narrate(&kind, seed));
    }
    ExitCode::FAILURE
}

/// Runs the seeds on as many threads as there are processors; each seed on one.
fn run_all(run: Run, first: u64, end: u64) -> (Tally, Option<(u64, String)>) {
    let next = AtomicU64::new(first);
    // Seeds from here on need not be run any more.
    let stop = AtomicU64::new(end);
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let work = || {
        let mut tally = Tally::default();
        let mut failure = None;
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= stop.load(Ordering::Relaxed) {
                return (tally, failure);
            }
            match catch_unwind(|| run(seed)).unwrap_or(Err("it panics".into())) {
                Ok(found) => tally.add(&found),
                Err(fault) => {
                    stop.fetch_min(seed, Ordering::Relaxed);
                    failure = Some((seed, fault));
                }
            }
        }
    };
    let done: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .map(std::thread::ScopedJoinHandle::join)
            .collect()
    });
    let mut tally = Tally::default();
    let mut failures = Vec::new();
    for (found, failure) in done.into_iter().flatten() {
        tally.add(&found);
        failures.extend(failure);
    }
    (tally, failures.into_iter().min())
}

/// What happens in the sequence of a seed, up to where it fails by itself.
fn narrate(kind: &str, seed: u64) -> String {
    let mut choices = Choices::Seed(seed);
    let backing = match kind {
        "crash-flat" => Backing::Flat,
        "crash-thin" | "canary" => Backing::Thin,
        _ => choices.one_of(&[Backing::Flat, Backing::Thin]),
    };
    let trouble = match kind {
        "trouble" | "faults" => Trouble::Faults,
        _ => Trouble::None,
    };
    let setup = Setup::drawn(&mut choices, backing, trouble);
    sim::narrate(setup, &mut choices)
}

fn run_of(kind: &str) -> Option<Run> {
    Some(match kind {
        "model" => |seed| sim::model(seed, Trouble::None),
        "trouble" => |seed| sim::model(seed, Trouble::Faults),
        "crash-flat" => |seed| sim::crash(seed, Backing::Flat, Host::Right),
        "crash-thin" => |seed| sim::crash(seed, Backing::Thin, Host::Right),
        "canary" => |seed| sim::crash(seed, Backing::Thin, Host::LeavesFlushesOut),
        "faults" => sim::faults,
        _ => return None,
    })
}

/// The kind, the first seed and how many; one where only a seed is named.
fn parse(words: &[String]) -> Option<(String, u64, u64)> {
    let (kind, mut options) = words.split_first()?;
    let (mut first, mut count, mut one) = (0, None, 1000);
    while let [name, value, rest @ ..] = options {
        let value = value.parse().ok()?;
        match name.as_str() {
            "--seed" => (first, one) = (value, 1),
            "--count" => count = Some(value),
            _ => return None,
        }
        options = rest;
    }
    let count = count.unwrap_or(one);
    options.is_empty().then(|| (kind.clone(), first, count))
}
