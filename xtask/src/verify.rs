//! Runs checks one after the other and closes with the table.

use std::process::ExitCode;
use std::time::Instant;

use crate::report::Report;
use crate::table::{self, Row};
use crate::workspace::{Effort, Workspace};

/// What this project would like to run and no check here can.
const NEVER_RUN: &[&str] = &[
    "Miri: its component and the library sources must be downloaded",
    "Kani: its compiler must be downloaded",
    "a build with the oldest supported toolchain: clippy::incompatible_msrv stands in for it",
];

/// One check and the verb it is known by.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) check: fn(&Workspace, Effort) -> Report,
}

/// Runs all `steps`, also behind a failed one, and prints what they found.
pub(crate) fn run_steps(workspace: &Workspace, effort: Effort, steps: &[Step]) -> ExitCode {
    let mut done = Vec::new();
    for step in steps {
        eprintln!("== {}", step.name);
        let start = Instant::now();
        let report = (step.check)(workspace, effort);
        done.push((step.name, report, start.elapsed()));
    }

    let mut rows = vec![Row::header()];
    rows.extend(
        done.iter()
            .flat_map(|(name, report, time)| table::rows(name, report, *time)),
    );
    println!("\n{}", table::render(&rows));

    println!("not run:");
    let skipped = done.iter().flat_map(|(_, report, _)| report.skipped());
    for what in skipped.map(String::as_str).chain(NEVER_RUN.iter().copied()) {
        println!("  {what}");
    }
    for (name, report, _) in &done {
        for fault in report.faults() {
            println!("fault in {name}: {fault}");
        }
        for tally in report.tallies().iter().filter(|tally| !tally.holds()) {
            println!("fault in {name}: too few {}: {}", tally.what, tally.count);
        }
    }

    let passed = done.iter().filter(|(_, report, _)| report.passed()).count();
    let failed = done.len() - passed;
    println!("{passed} passed, {failed} failed");
    ExitCode::from(u8::from(failed != 0))
}
