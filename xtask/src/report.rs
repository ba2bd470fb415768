//! What a check found.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::workspace::Effort;

/// The findings of one check. It goes on after a fault, so that one run shows all of them.
#[derive(Default)]
pub(crate) struct Report {
    tallies: Vec<Tally>,
    faults: Vec<String>,
    not_run: Vec<String>,
}

/// Something that was counted, and how many there must be at least.
pub(crate) struct Tally {
    pub(crate) what: &'static str,
    pub(crate) count: u64,
    pub(crate) floor: Option<u64>,
}

impl Tally {
    pub(crate) fn holds(&self) -> bool {
        self.floor.is_none_or(|floor| self.count >= floor)
    }
}

impl Report {
    /// A count below `floor` fails the check: a check that looked at nothing found nothing.
    pub(crate) fn count(&mut self, what: &'static str, count: u64, floor: u64) {
        self.tallies.push(Tally {
            what,
            count,
            floor: Some(floor),
        });
    }

    /// A count for the reader only.
    pub(crate) fn note(&mut self, what: &'static str, count: u64) {
        self.tallies.push(Tally {
            what,
            count,
            floor: None,
        });
    }

    /// Something is wrong; said at once and again at the end.
    pub(crate) fn fault(&mut self, fault: impl Into<String>) {
        let fault = fault.into();
        eprintln!("fault: {fault}");
        self.faults.push(fault);
    }

    /// Something could not be looked at on this machine.
    pub(crate) fn not_run(&mut self, what: impl Into<String>) {
        self.not_run.push(what.into());
    }

    /// Something is not on this machine: named as not run, and on a build server a fault.
    pub(crate) fn missing(&mut self, effort: Effort, what: impl Into<String>) {
        match effort {
            Effort::Local => self.not_run(what),
            Effort::Ci => self.fault(what),
        }
    }

    /// Runs `command` with its output shown; an exit status other than 0 is a fault.
    pub(crate) fn run(&mut self, command: &mut Command) -> bool {
        let line = announce(command);
        let failure = match command.status() {
            Ok(status) if status.success() => return true,
            Ok(status) => format!("`{line}`: {status}"),
            Err(error) => format!("`{line}` did not start: {error}"),
        };
        self.fault(failure);
        false
    }

    pub(crate) fn passed(&self) -> bool {
        self.faults.is_empty() && self.tallies.iter().all(Tally::holds)
    }

    pub(crate) fn tallies(&self) -> &[Tally] {
        &self.tallies
    }

    pub(crate) fn faults(&self) -> &[String] {
        &self.faults
    }

    pub(crate) fn skipped(&self) -> &[String] {
        &self.not_run
    }
}

/// Runs `command` and hands on each line of its output as it comes. The error says how it ended,
/// unless with exit status 0.
pub(crate) fn read_lines(command: &mut Command, mut each: impl FnMut(&str)) -> Result<(), String> {
    let child = command.stdout(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| format!("did not start: {error}"))?;
    let output = child.stdout.take().map(BufReader::new);
    for text in output.into_iter().flat_map(|output| output.split(b'\n')) {
        let Ok(text) = text else { break };
        each(&String::from_utf8_lossy(&text));
    }
    match child.wait() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(status.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// Prints the command as one would type it, and returns it.
pub(crate) fn announce(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program())
        .file_name()
        .unwrap_or_default();
    let mut words: Vec<String> = command
        .get_envs()
        .filter_map(|(name, value)| Some((name, value?)))
        .map(|(name, value)| format!("{}='{}'", name.display(), value.display()))
        .collect();
    words.push(program.display().to_string());
    words.extend(
        command
            .get_args()
            .map(OsStr::display)
            .map(|word| word.to_string()),
    );
    let line = words.join(" ");
    eprintln!("$ {line}");
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_below_its_floor_fails_the_report() {
        let mut report = Report::default();
        report.count("tests", 3, 3);
        report.note("ignored", 0);
        assert!(report.passed());
        report.count("tests", 2, 3);
        assert!(!report.passed());
    }

    #[test]
    fn what_is_missing_is_a_fault_on_a_build_server_alone() {
        let mut report = Report::default();
        report.missing(Effort::Local, "a tool");
        assert!(report.passed());
        assert_eq!(report.skipped(), ["a tool"]);
        report.missing(Effort::Ci, "a tool");
        assert_eq!(report.faults(), ["a tool"]);
    }

    #[test]
    fn lines_are_handed_on_whatever_bytes_they_hold_and_the_end_is_told() {
        let shell = |text: &str| {
            let mut lines = Vec::new();
            let mut command = Command::new("sh");
            let ended = read_lines(command.args(["-c", text]), |line| lines.push(line.into()));
            (lines, ended.map_err(|error| error.contains('3')))
        };
        let said = ["a", "\u{fffd}"].map(String::from);
        assert_eq!(shell("printf 'a\n\\377\n'"), (said.to_vec(), Ok(())));
        assert_eq!(shell("printf a; exit 3"), (vec!["a".into()], Err(true)));
        let nothing = read_lines(&mut Command::new("/nonexistent/program"), |_| ());
        assert!(nothing.is_err_and(|error| error.starts_with("did not start: ")));
    }

    #[test]
    fn a_command_that_fails_or_does_not_exist_is_a_fault() {
        let mut report = Report::default();
        assert!(!report.run(&mut Command::new("/nonexistent/program")));
        assert!(!report.run(&mut Command::new("false")));
        assert!(report.run(&mut Command::new("true")));
        assert_eq!(report.faults().len(), 2);
        assert!(!report.passed());
    }
}
