//! Random runs of the cache for threads, for a time.

use std::process::{Command, ExitCode};

use crate::Usage;
use crate::report::Report;
use crate::test::run_and_count;
use crate::workspace::{Effort, Workspace};

/// Seconds that a build server, a developer's `verify`, and the verb by itself
/// take.
const CI_SECONDS: u64 = 60;
const LOCAL_SECONDS: u64 = 5;

/// What the test takes its orders from.
const SECONDS: &str = "EXTENTWISE_SOAK_SECONDS";
const SEED: &str = "EXTENTWISE_SOAK_SEED";

/// The random runs; and, on a build server, more data than there is memory.
pub(crate) fn check(workspace: &Workspace, effort: Effort) -> Report {
    let mut report = Report::default();
    let (seconds, tests) = match effort {
        Effort::Local => (LOCAL_SECONDS, &["soak_for_a_time"][..]),
        Effort::Ci => (CI_SECONDS, &[][..]),
    };
    let mut command = soak(workspace, tests);
    command.env(SECONDS, seconds.to_string());
    soak_and_count(&mut command, tests, &mut report);
    report
}

/// `soak [--time S] [--seed N]`.
pub(crate) fn run(workspace: &Workspace, options: &[String]) -> Result<ExitCode, Usage> {
    let (name, value) = order(options)?;
    let tests = if name == SEED {
        &["soak_for_a_time"][..]
    } else {
        &[]
    };
    let mut report = Report::default();
    let mut command = soak(workspace, tests);
    command.env(name, value.to_string());
    soak_and_count(&mut command, tests, &mut report);
    Ok(ExitCode::from(u8::from(!report.passed())))
}

/// Which order the test is given.
fn order(options: &[String]) -> Result<(&'static str, u64), Usage> {
    let number = |value: &String| {
        let number = value.parse();
        number.map_err(|_| Usage(format!("`{value}`: must be a number")))
    };
    match options {
        [] => Ok((SECONDS, CI_SECONDS)),
        [option, value] if option == "--time" => Ok((SECONDS, number(value)?)),
        [option, value] if option == "--seed" => Ok((SEED, number(value)?)),
        [option, ..] => Err(Usage(format!(
            "`{option}` is not understood here, only: --time SECONDS, --seed NUMBER"
        ))),
    }
}

fn soak(workspace: &Workspace, tests: &[&str]) -> Command {
    let words = ["test", "-p", "extentwise", "--test", "soak", "--"];
    let mut command = workspace.cargo(&words);
    command
        .args(["--ignored", "--nocapture", "--test-threads", "1"])
        .args(tests);
    command
}

fn soak_and_count(command: &mut Command, tests: &[&str], report: &mut Report) {
    let counts = run_and_count(command, report);
    let floor = if tests.is_empty() { 2 } else { 1 };
    report.count("long runs of the threaded cache", counts.passed, floor);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_or_a_seed_is_an_order_and_anything_else_is_refused() {
        let of = |text: &str| {
            let options: Vec<String> = text.split_whitespace().map(String::from).collect();
            order(&options).map_err(|Usage(reason)| reason)
        };
        assert_eq!(of(""), Ok((SECONDS, 60)));
        assert_eq!(of("--time 5"), Ok((SECONDS, 5)));
        assert_eq!(of("--seed 7"), Ok((SEED, 7)));
        for wrong in ["--time", "--time x", "--tame 5", "--time 5 --seed 7"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
