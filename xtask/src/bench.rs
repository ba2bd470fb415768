//! Benchmarks that judge themselves: both sides of a row run in turns, and a ratio below
//! its goal is a failure, because times alone mean nothing on a busy machine. Instructions can be
//! counted on any machine, and are a check of `verify`.

use std::process::{Command, ExitCode};

use crate::Usage;
use crate::report::{Report, announce, read_lines};
use crate::workspace::{Effort, Workspace};

/// Hot paths whose instructions are on record.
const PATHS_FLOOR: u64 = 14;

/// The instructions of the hot paths against the record.
pub(crate) fn check(workspace: &Workspace, effort: Effort) -> Report {
    let mut report = Report::default();
    if !workspace.has("valgrind") {
        let reason = "instruction counts: valgrind is not here (`apt-get install valgrind`)";
        report.missing(effort, reason);
        return report;
    }
    let mut command = bench(workspace, &["--only", "counts"].map(String::from));
    let passed = rows_passed(&mut command, &mut report);
    report.count("hot paths within 2 % of the record", passed, PATHS_FLOOR);
    report
}

/// Runs the bench crate with these options, which it checks itself.
#[expect(clippy::unnecessary_wraps, reason = "it is a verb like the others")]
pub(crate) fn run(workspace: &Workspace, options: &[String]) -> Result<ExitCode, Usage> {
    let mut report = Report::default();
    report.run(&mut bench(workspace, options));
    Ok(ExitCode::from(u8::from(!report.passed())))
}

fn bench(workspace: &Workspace, options: &[String]) -> Command {
    let mut command = workspace.cargo(&["run", "--profile", "bench", "-p", "extentwise-bench"]);
    command.arg("--").args(options);
    command
}

/// Runs `command` with its output shown, and reads from it how many rows passed; an exit status
/// other than 0 is a fault.
fn rows_passed(command: &mut Command, report: &mut Report) -> u64 {
    let line = announce(command);
    let mut passed = 0;
    let ended = read_lines(command, |text| {
        println!("{text}");
        passed = passed_in(text).unwrap_or(passed);
    });
    if let Err(error) = ended {
        report.fault(format!("`{line}`: {error}"));
    }
    passed
}

/// Reads the closing line, `14 passed, 0 missed, 0 not measured`.
fn passed_in(line: &str) -> Option<u64> {
    let (passed, rest) = line.split_once(" passed, ")?;
    rest.ends_with(" not measured")
        .then(|| passed.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_line_is_read_and_no_other() {
        assert_eq!(passed_in("14 passed, 0 missed, 0 not measured"), Some(14));
        assert_eq!(passed_in("test result: ok. 14 passed, 0 missed"), None);
        assert_eq!(passed_in("14 passed, 0 failed"), None);
        assert_eq!(passed_in(""), None);
    }

    #[test]
    fn a_bench_that_fails_or_measures_nothing_is_a_fault() {
        let shell = |text: &str| {
            let mut report = Report::default();
            let passed = rows_passed(Command::new("sh").args(["-c", text]), &mut report);
            (passed, report.faults().len())
        };
        let line = "echo 3 passed, 1 missed, 0 not measured";
        assert_eq!(shell(line), (3, 0));
        assert_eq!(shell(&format!("{line}; exit 1")), (3, 1));
        assert_eq!(shell("true"), (0, 0));
    }
}
