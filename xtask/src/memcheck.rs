//! The tests of the crate with raw memory, watched by Valgrind and by `AddressSanitizer`.
//!
//! Each tool first has to find a mistake that is made on purpose.

use std::process::Command;

use crate::report::{Report, announce};
use crate::test::run_and_count;
use crate::workspace::{Effort, Workspace};

const PACKAGE: &str = "extentwise-memory";
/// The test that is wrong on purpose.
const CANARY: &[&str] = &["--test", "canary", "--", "--ignored"];
const TESTS: &[&str] = &["--lib", "--tests", "--no-fail-fast"];
const TESTS_FLOOR: u64 = 20;

/// The target that `AddressSanitizer` is known to work on here.
const ASAN_TARGET: &str = "x86_64-unknown-linux-gnu";

const VALGRIND: &str = "target.'cfg(unix)'.runner=['valgrind', '--quiet', '--error-exitcode=9', \
                        '--leak-check=full', '--show-leak-kinds=definite,indirect', \
                        '--errors-for-leak-kinds=definite,indirect']";

/// What a tool's results are called, and what it says of the canary's mistake.
struct Words {
    passed: &'static str,
    found: &'static str,
    mistake: &'static str,
}

const VALGRIND_WORDS: Words = Words {
    passed: "valgrind: tests passed",
    found: "valgrind: mistakes found",
    mistake: "Invalid read",
};

const ASAN_WORDS: Words = Words {
    passed: "ASan: tests passed",
    found: "ASan: mistakes found",
    mistake: "heap-buffer-overflow",
};

/// Runs both tools; one that is missing is named, and on a build server a fault.
pub(crate) fn run(workspace: &Workspace, effort: Effort) -> Report {
    let mut report = Report::default();
    if workspace.has("valgrind") {
        let command = |words: &[&str]| {
            let front = ["test", "-p", PACKAGE, "--config", VALGRIND];
            workspace.cargo(&[&front, words].concat())
        };
        watch(command, &VALGRIND_WORDS, &mut report);
    } else {
        report.missing(
            effort,
            "valgrind: not installed (`apt-get install valgrind`)",
        );
    }
    if has_nightly() && cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        let target = workspace.target("asan").display().to_string();
        let command = |words: &[&str]| {
            let mut command = Command::new("rustup");
            command.current_dir(workspace.root());
            command.args(["run", "nightly", "cargo", "test", "-p", PACKAGE]);
            command.args(["--target", ASAN_TARGET, "--target-dir", &target]);
            command.args(words);
            command.env("RUSTFLAGS", "-Zsanitizer=address");
            command
        };
        watch(command, &ASAN_WORDS, &mut report);
    } else {
        report.missing(
            effort,
            "AddressSanitizer: needs a nightly toolchain on x86-64 Linux \
             (`rustup toolchain install nightly`)",
        );
    }
    report
}

/// The tests and the canary under one tool.
fn watch(command: impl Fn(&[&str]) -> Command, words: &Words, report: &mut Report) {
    let counts = run_and_count(&mut command(TESTS), report);
    report.count(words.passed, counts.passed, TESTS_FLOOR);
    let mut canary = command(CANARY);
    let line = announce(&canary);
    // Not shown: what a tool says about a mistake that is wanted would frighten.
    let (failed, said) = match canary.output() {
        Ok(output) => (
            !output.status.success(),
            [output.stdout, output.stderr].concat(),
        ),
        Err(error) => return report.fault(format!("`{line}` did not start: {error}")),
    };
    if failed && String::from_utf8_lossy(&said).contains(words.mistake) {
        report.count(words.found, 1, 1);
    } else {
        report.fault(format!("`{line}` did not say \"{}\"", words.mistake));
    }
}

fn has_nightly() -> bool {
    let words = ["run", "nightly", "cargo", "--version"];
    let output = Command::new("rustup").args(words).output();
    output.is_ok_and(|output| output.status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_misses_the_canary_is_a_fault() {
        // The second fails, but not for the mistake.
        for (program, faults) in [("true", 1), ("false", 2), ("/nonexistent/program", 2)] {
            let mut report = Report::default();
            watch(|_| Command::new(program), &ASAN_WORDS, &mut report);
            assert_eq!(report.faults().len(), faults, "{program}");
            assert!(!report.passed());
        }
    }
}
