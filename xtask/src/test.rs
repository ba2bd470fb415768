//! Runs the tests and counts what really ran.

use std::process::Command;

use crate::report::{Report, announce, read_lines};
use crate::workspace::{Effort, Workspace};

/// Lower than what is there, high enough that a lost test file or feature shows.
const WORKSPACE_FLOOR: u64 = 150;
const WITHOUT_ALLOC_FLOOR: u64 = 75;

/// Runs every test of the workspace, then the core's as an embedder without a heap builds it.
/// A build server also runs them as released: without overflow checks and debug assertions.
pub(crate) fn run(workspace: &Workspace, effort: Effort) -> Report {
    let mut report = Report::default();
    let all = ["test", "--workspace", "--all-features", "--no-fail-fast"];
    let core = ["test", "-p", "extentwise-core", "--no-fail-fast"];

    let mut ignored = 0;
    let mut suite = |words: &[&str], what, floor| {
        let counts = run_and_count(&mut workspace.cargo(words), &mut report);
        report.count(what, counts.passed, floor);
        ignored += counts.ignored;
    };
    suite(&all, "tests of the workspace passed", WORKSPACE_FLOOR);
    suite(
        &core,
        "tests of the core without alloc passed",
        WITHOUT_ALLOC_FLOOR,
    );
    if effort == Effort::Ci {
        let released = [&all[..], &["--release"]].concat();
        suite(&released, "tests as released passed", WORKSPACE_FLOOR);
    }
    report.note("tests ignored", ignored);
    report
}

#[derive(Default, PartialEq, Eq, Debug)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    failed: u64,
    ignored: u64,
}

/// Shows the output as it comes and adds up the closing line of each test binary.
pub(crate) fn run_and_count(command: &mut Command, report: &mut Report) -> Counts {
    let line = announce(command);
    let mut counts = Counts::default();
    let ended = read_lines(command, |text| {
        println!("{text}");
        counts.add(text);
    });
    match ended {
        _ if counts.failed > 0 => {
            report.fault(format!("`{line}`: {} tests failed", counts.failed));
        }
        Ok(()) => {}
        // Something that did not compile, or a test that took its process down.
        Err(error) => report.fault(format!("`{line}`: {error}")),
    }
    counts
}

impl Counts {
    /// Reads `test result: ok. 3 passed; 0 failed; 1 ignored; …`; other lines count nothing.
    fn add(&mut self, line: &str) {
        let Some((_, numbers)) = line
            .strip_prefix("test result: ")
            .and_then(|rest| rest.split_once(". "))
        else {
            return;
        };
        for part in numbers.split("; ") {
            let Some((Ok(number), word)) = part
                .split_once(' ')
                .map(|(number, word)| (number.parse::<u64>(), word))
            else {
                continue;
            };
            match word {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.ignored += number,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_of_all_binaries_are_added_up() {
        let mut counts = Counts::default();
        for line in [
            "running 5 tests",
            "test a_test ... ok",
            "test result: ok. 3 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.01s",
            "test result: FAILED. 40 passed; 1 failed; 0 ignored; 0 measured; 7 filtered out; finished in 1.5s",
            "test result: ",
            " test result: ok. 9 passed; 0 failed",
        ] {
            counts.add(line);
        }
        let expected = Counts {
            passed: 43,
            failed: 1,
            ignored: 2,
        };
        assert_eq!(counts, expected);
    }

    #[test]
    fn a_run_that_executes_no_test_is_below_its_floor() {
        let mut report = Report::default();
        let counts = run_and_count(&mut Command::new("true"), &mut report);
        assert!(report.passed());
        report.count("tests", counts.passed, WORKSPACE_FLOOR);
        assert!(!report.passed());
    }

    #[test]
    fn a_failed_test_is_a_fault_even_if_the_command_hides_it() {
        let mut report = Report::default();
        let mut command = Command::new("echo");
        command.arg("test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured");
        let counts = run_and_count(&mut command, &mut report);
        assert_eq!((counts.passed, counts.failed), (1, 1));
        assert!(!report.passed());
    }
}
