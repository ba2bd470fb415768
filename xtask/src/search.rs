//! Runs the search of the testkit, and judges its counts.

use std::process::Command;

use crate::report::Report;
use crate::simulate::{build, run_and_read};
use crate::workspace::{Effort, Workspace};

const STATES_FLOOR: u64 = 2_000_000;

/// Every state of small files over the real core.
pub(crate) fn check(workspace: &Workspace, effort: Effort) -> Report {
    let mut report = Report::default();
    let Some(program) = build(workspace, "search", &mut report) else {
        return report;
    };
    let mut command = Command::new(program);
    let floor = match effort {
        Effort::Local => STATES_FLOOR,
        Effort::Ci => {
            command.arg("wide");
            10 * STATES_FLOOR
        }
    };
    let found = run_and_read(&mut command, &mut report);
    let count = |name: &str| found.counts.get(name).copied().unwrap_or(0);
    if let Some((shape, fault)) = &found.failure {
        report.fault(format!("{shape}: {fault}"));
    }
    report.count("states, searched to the end", count("states"), floor);
    let shapes = count("shapes").max(1);
    report.count("shapes of which no state is left", count("closed"), shapes);
    let mistakes = count("mistakes").max(1);
    report.count("mistakes that were found", count("found"), mistakes);
    report
}
