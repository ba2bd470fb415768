//! Fuzzing: campaigns, artifacts, corpora. `docs/fuzzing.md` says how to use it.

mod build;
mod campaign;
mod corpus;
mod repro;
mod targets;

use std::num::NonZero;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use crate::Usage;
use crate::coverage;
use crate::report::Report;
use crate::workspace::{Effort, Workspace};
use build::{Binaries, Sanitizer};
use campaign::Plan;
use targets::{TARGETS, Target};

const TARGETS_FLOOR: u64 = 8;
const EXECUTIONS_FLOOR: u64 = 1_000_000;
const EXECUTIONS_FLOOR_CI: u64 = 5_000_000;
/// Seconds for each target when nobody asks for more.
const SECONDS: u64 = 60;
const SECONDS_SMOKE: u64 = 12;
const SECONDS_SMOKE_CI: u64 = 45;
/// Percent of the core's lines that the committed corpora reach by themselves.
const CORPUS_COVERAGE_FLOOR: u64 = 90;

/// The verb: a campaign, or what its first word says.
pub(crate) fn run(workspace: &Workspace, options: &[String]) -> Result<ExitCode, Usage> {
    let mut report = Report::default();
    match options.first().map(String::as_str) {
        Some("repro") => return repro::run(workspace, &options[1..]),
        Some("cmin") => {
            let asked = Asked::parse(&options[1..], &["--target"])?;
            if let Some(binaries) = build(workspace, Sanitizer::None, &mut report) {
                corpus::minimise(workspace, &binaries, &asked.targets(), &mut report);
            }
        }
        Some("coverage") => {
            Asked::parse(&options[1..], &[])?;
            let words = ["test", "-p", "extentwise-testkit", "--test", "corpus"];
            coverage::measure(workspace, &words, CORPUS_COVERAGE_FLOOR, &mut report);
        }
        _ => {
            let asked = Asked::parse(options, &["--target", "--time", "--jobs", "--asan"])?;
            if let Some(binaries) = build(workspace, asked.sanitizer, &mut report) {
                let plan = Plan {
                    targets: asked.targets(),
                    time: Duration::from_secs(asked.seconds),
                    jobs: asked.jobs,
                    sanitizer: asked.sanitizer,
                };
                campaign::run(workspace, &binaries, &plan, &mut report);
            }
        }
    }
    Ok(ExitCode::from(u8::from(!report.passed())))
}

/// The step of `verify`: every target for some seconds, and the canary, which must crash.
pub(crate) fn check(workspace: &Workspace, effort: Effort) -> Report {
    let mut report = Report::default();
    if let Err(reason) = build::tool(workspace) {
        report.missing(effort, format!("FUZZING: {reason}"));
        return report;
    }
    let Some(binaries) = build(workspace, Sanitizer::None, &mut report) else {
        return report;
    };
    let (seconds, floor) = match effort {
        Effort::Local => (SECONDS_SMOKE, EXECUTIONS_FLOOR),
        Effort::Ci => (SECONDS_SMOKE_CI, EXECUTIONS_FLOOR_CI),
    };
    campaign::expect_canary(workspace, &binaries, &mut report);
    let plan = Plan {
        targets: TARGETS.iter().collect(),
        time: Duration::from_secs(seconds),
        jobs: 2,
        sanitizer: Sanitizer::None,
    };
    let sums = campaign::run(workspace, &binaries, &plan, &mut report);
    report.count("fuzz targets run", sums.targets, TARGETS_FLOOR);
    report.count("fuzz executions", sums.executions, floor);
    report
}

fn build(workspace: &Workspace, sanitizer: Sanitizer, report: &mut Report) -> Option<Binaries> {
    build::all(workspace, sanitizer)
        .map_err(|reason| report.fault(reason))
        .ok()
}

/// Processes that run at a time when nobody asks for another number.
fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// What the command line asks of a campaign.
#[derive(Debug)]
struct Asked {
    target: Option<&'static Target>,
    seconds: u64,
    jobs: usize,
    sanitizer: Sanitizer,
}

impl Asked {
    /// Reads the options that are `allowed`.
    fn parse(options: &[String], allowed: &[&str]) -> Result<Self, Usage> {
        let mut asked = Self {
            target: None,
            seconds: SECONDS,
            jobs: cores(),
            sanitizer: Sanitizer::None,
        };
        let mut words = options.iter();
        while let Some(option) = words.next() {
            if !allowed.contains(&option.as_str()) {
                return Err(Usage(format!("`{option}` is not an option here")));
            }
            if option == "--asan" {
                asked.sanitizer = Sanitizer::Address;
                continue;
            }
            let value = words
                .next()
                .ok_or_else(|| Usage(format!("{option} needs a value")))?;
            let number = || {
                let number = value.parse::<u64>().ok().filter(|number| *number > 0);
                number.ok_or_else(|| Usage(format!("{option} {value}: a number above 0 is needed")))
            };
            match option.as_str() {
                "--target" => asked.target = Some(targets::named(value).map_err(Usage)?),
                "--time" => asked.seconds = number()?,
                _ => asked.jobs = usize::try_from(number()?).unwrap_or(1),
            }
        }
        Ok(asked)
    }

    fn targets(&self) -> Vec<&'static Target> {
        self.target
            .map_or_else(|| TARGETS.iter().collect(), |target| vec![target])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Asked, String> {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        let allowed = ["--target", "--time", "--jobs", "--asan"];
        Asked::parse(&words, &allowed).map_err(|Usage(reason)| reason)
    }

    #[test]
    fn a_campaign_is_of_all_targets_unless_one_is_named() {
        assert_eq!(parse(&[]).unwrap().targets().len(), TARGETS.len());
        let asked = parse(&["--target", "bitmap", "--time", "5", "--asan"]).unwrap();
        assert_eq!(asked.targets().len(), 1);
        assert_eq!((asked.seconds, asked.jobs), (5, cores()));
        assert_eq!(asked.sanitizer, Sanitizer::Address);
    }

    #[test]
    fn wrong_options_are_named_in_the_refusal() {
        assert!(parse(&["--tim", "5"]).unwrap_err().contains("`--tim`"));
        assert!(parse(&["--time", "0"]).unwrap_err().contains("--time 0"));
        assert!(parse(&["--time"]).unwrap_err().contains("needs a value"));
        assert!(parse(&["--target", "x"]).unwrap_err().contains("bitmap"));
    }
}
