//! Benchmarks that judge themselves: both sides of a row run in turns, and a ratio below
//! its goal is a failure, because times alone mean nothing on a busy machine.

use std::process::ExitCode;

use crate::Usage;
use crate::report::Report;
use crate::workspace::Workspace;

/// Runs the bench crate with these options, which it checks itself.
#[expect(clippy::unnecessary_wraps, reason = "it is a verb like the others")]
pub(crate) fn run(workspace: &Workspace, options: &[String]) -> Result<ExitCode, Usage> {
    let mut report = Report::default();
    let mut command = workspace.cargo(&["run", "--profile", "bench", "-p", "extentwise-bench"]);
    report.run(command.arg("--").args(options));
    Ok(ExitCode::from(u8::from(!report.passed())))
}
