//! Seeded mistakes: each is put into a copy of the crates, one at a time, and the tests must
//! notice. A check that has never failed proves nothing.
//!
//! The mistakes are texts in `xtask/seeded`, after public reports or after the rules; the
//! sources have no switches for them. `xtask/seeded/README.md` says how one is added.

mod bug;
mod copy;
mod suite;

use std::fmt::Write as _;
use std::io;
use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use crate::Usage;
use crate::report::Report;
use crate::workspace::{Effort, Workspace};
use bug::Bug;
use copy::CrateCopy;
use suite::{Suite, Tests};

/// Fewer than there are: that one got lost shows, and one can be taken out.
const CAUGHT_FLOOR: u64 = 69;
const AFTER_REPORTS_FLOOR: u64 = 24;

/// Copies of the crates, each with a mistake of its own at a time: building one leaves half of
/// two processors idle.
const COPIES: [&str; 2] = ["seeded", "seeded-2"];

/// The step of `verify`: every mistake must be caught.
pub(crate) fn check(workspace: &Workspace, _: Effort) -> Report {
    let mut report = Report::default();
    match bugs(workspace) {
        Ok(bugs) => {
            let verdicts = judge_all(workspace, &bugs, &mut report);
            println!("{}", table(&verdicts));
            let caught = || verdicts.iter().filter(|verdict| verdict.caught.is_ok());
            report.count(
                "seeded mistakes caught",
                caught().count() as u64,
                CAUGHT_FLOOR,
            );
            report.count(
                "of them after public reports",
                caught().filter(|v| v.bug.is_after_a_report()).count() as u64,
                AFTER_REPORTS_FLOOR,
            );
        }
        Err(error) => report.fault(format!("seeded mistakes: {error}")),
    }
    report
}

/// `mutants --seeded [--bug NAME]`, or all mutants that cargo-mutants makes.
pub(crate) fn run(workspace: &Workspace, options: &[String]) -> Result<ExitCode, Usage> {
    let words: Vec<&str> = options.iter().map(String::as_str).collect();
    match words[..] {
        [] => run_cargo_mutants(workspace),
        ["--seeded"] => Ok(run_chosen(workspace, &known(workspace)?)),
        ["--seeded", "--bug", name] => {
            let mut bugs = known(workspace)?;
            let names: Vec<String> = bugs.iter().map(|bug| format!("\n  {}", bug.name)).collect();
            bugs.retain(|bug| bug.name == name);
            if bugs.is_empty() {
                let names = names.concat();
                return Err(Usage(format!(
                    "no mistake is called `{name}`, only:{names}"
                )));
            }
            Ok(run_chosen(workspace, &bugs))
        }
        ["--seeded", "--bug"] => Err(Usage("--bug needs the name of a mistake".into())),
        _ => Err(Usage(format!(
            "`{}` is not understood here",
            words.join(" ")
        ))),
    }
}

fn run_chosen(workspace: &Workspace, bugs: &[Bug]) -> ExitCode {
    let mut report = Report::default();
    let verdicts = judge_all(workspace, bugs, &mut report);
    if let [verdict] = &verdicts[..] {
        println!("{}: {}", verdict.bug.name, verdict.bug.mistake);
        if let Ok(catch) = &verdict.caught {
            println!("{}", catch.tests.output);
        }
    }
    println!("{}", table(&verdicts));
    ExitCode::from(u8::from(!report.passed()))
}

fn run_cargo_mutants(workspace: &Workspace) -> Result<ExitCode, Usage> {
    if !workspace.has("cargo-mutants") {
        return Err(Usage(
            "all mutants need cargo-mutants (`cargo install cargo-mutants --locked`); \
             the seeded ones, `--seeded`, need nothing"
                .into(),
        ));
    }
    let output = workspace.target("mutants").display().to_string();
    let mut report = Report::default();
    let words = [
        "mutants",
        "--package",
        "extentwise-core",
        "--output",
        &output,
    ];
    report.run(&mut workspace.cargo(&words));
    Ok(ExitCode::from(u8::from(!report.passed())))
}

fn bugs(workspace: &Workspace) -> io::Result<Vec<Bug>> {
    Bug::all(&workspace.root().join("xtask/seeded"))
}

fn known(workspace: &Workspace) -> Result<Vec<Bug>, Usage> {
    bugs(workspace).map_err(|error| Usage(error.to_string()))
}

/// What became of one mistake.
struct Verdict<'a> {
    bug: &'a Bug,
    /// What caught it, or why nothing did.
    caught: Result<Catch, String>,
    time: Duration,
}

/// The suite that failed, and its tests.
struct Catch {
    suite: &'static str,
    tests: Tests,
}

/// Puts each mistake in and looks for what notices it; first without any, where all must pass.
fn judge_all<'a>(workspace: &Workspace, bugs: &'a [Bug], report: &mut Report) -> Vec<Verdict<'a>> {
    let workers = COPIES.len().min(bugs.len());
    let waiting = Mutex::new(bugs.iter());
    let next = || waiting.lock().ok().and_then(|mut bugs| bugs.next());
    let done = Mutex::new(Vec::new());
    let fault = Mutex::new(None);
    thread::scope(|scope| {
        for name in &COPIES[..workers] {
            let (next, done, fault) = (&next, &done, &fault);
            scope.spawn(move || {
                let judged = judge_from(workspace, name, bugs, next);
                match (judged, done.lock(), fault.lock()) {
                    (Ok(verdicts), Ok(mut done), _) => done.extend(verdicts),
                    (Err(reason), _, Ok(mut fault)) => *fault = Some(reason),
                    _ => {}
                }
            });
        }
    });
    if let Some(reason) = fault.into_inner().unwrap_or_default() {
        report.fault(reason);
    }
    let mut verdicts = done.into_inner().unwrap_or_default();
    verdicts.sort_by_key(|verdict: &Verdict<'_>| &verdict.bug.name);
    for verdict in &verdicts {
        if let Err(reason) = &verdict.caught {
            report.fault(format!("mistake {}: {reason}", verdict.bug.name));
        }
    }
    verdicts
}

/// Judges mistakes in the copy `name` until none is waiting.
fn judge_from<'a>(
    workspace: &Workspace,
    name: &str,
    bugs: &[Bug],
    next: impl Fn() -> Option<&'a Bug>,
) -> Result<Vec<Verdict<'a>>, String> {
    let copy = CrateCopy::make(workspace.root(), workspace.target(name))
        .map_err(|error| format!("the copy of the crates: {error}"))?;
    eprintln!("without a mistake, in {}", copy.folder().display());
    baseline(workspace, &copy, bugs).map_err(|fault| format!("without a mistake: {fault}"))?;
    let mut verdicts = Vec::new();
    while let Some(bug) = next() {
        let start = Instant::now();
        let caught = copy.with(bug, || hunt(workspace, &copy, bug));
        let caught = caught.and_then(|result| result);
        if let Ok(catch) = &caught {
            eprintln!("{}: {}", bug.name, catch.describe(bug));
        }
        verdicts.push(Verdict {
            bug,
            caught,
            time: start.elapsed(),
        });
    }
    Ok(verdicts)
}

/// All suites that `bugs` need, on the sources as they are.
fn baseline(workspace: &Workspace, copy: &CrateCopy, bugs: &[Bug]) -> Result<(), String> {
    let needed = |suite: &&Suite| {
        let mut hunting = bugs.iter().flat_map(Suite::hunting);
        hunting.any(|needed| needed.name == suite.name)
    };
    for suite in Suite::ALL.iter().filter(needed) {
        let binary = suite.build(workspace, copy.folder())?;
        let tests = suite.run(&binary, None)?;
        if let Some(name) = tests.failed.first() {
            return Err(format!("{name} fails:\n{}", tests.output));
        }
        if tests.passed == 0 {
            return Err(format!("the suite {} has no tests", suite.name));
        }
    }
    Ok(())
}

/// The first suite that fails on the mistake; where it names a test, that one must.
fn hunt(workspace: &Workspace, copy: &CrateCopy, bug: &Bug) -> Result<Catch, String> {
    let test = bug.test.as_deref().and_then(|test| test.split_once("::"));
    for suite in Suite::hunting(bug) {
        let binary = suite.build(workspace, copy.folder())?;
        let tests = suite.run(&binary, bug.module().as_deref())?;
        if let Some((_, name)) = test
            && !tests.failed.iter().any(|failed| failed == name)
        {
            let others = tests.failed.join(", ");
            return Err(format!("{name} does not notice it; others: [{others}]"));
        }
        if !tests.failed.is_empty() {
            let suite = suite.name;
            return Ok(Catch { suite, tests });
        }
    }
    Err("no test notices it".into())
}

impl Catch {
    /// The suite, a failed test (the one that the mistake names, if any), and how many more
    /// failed with it.
    fn describe(&self, bug: &Bug) -> String {
        let named = bug.test.as_deref();
        let witness = named.or_else(|| self.tests.witness(&bug.rule));
        let test = witness.unwrap_or_default();
        let test = test.rsplit("::").next().unwrap_or(test);
        let more = match self.tests.failed.len().saturating_sub(1) {
            0 => String::new(),
            more => format!(" (+{more})"),
        };
        format!("{} {test}{more}", self.suite)
    }
}

/// One line a mistake, and how many were caught.
fn table(verdicts: &[Verdict<'_>]) -> String {
    let mut rows = vec![["bug", "rule", "after", "caught by", "seconds"].map(String::from)];
    rows.extend(verdicts.iter().map(|verdict| {
        let bug = verdict.bug;
        let caught = match &verdict.caught {
            Ok(catch) => catch.describe(bug),
            Err(reason) => {
                let first = reason.lines().next().unwrap_or_default();
                format!("NOT CAUGHT: {first}")
            }
        };
        let seconds = format!("{:.1}", verdict.time.as_secs_f64());
        [
            bug.name.clone(),
            bug.rule.clone(),
            bug.after.clone(),
            caught,
            seconds,
        ]
    }));
    let widths: [usize; 5] = std::array::from_fn(|column| {
        let lengths = rows.iter().map(|row| row[column].chars().count());
        lengths.max().unwrap_or(0)
    });
    let mut text = String::new();
    for row in &rows {
        for (cell, width) in row.iter().zip(widths) {
            let _ = write!(text, "{cell:<width$}  ");
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    let caught = verdicts.iter().filter(|verdict| verdict.caught.is_ok());
    let _ = write!(text, "{} of {} caught", caught.count(), verdicts.len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(words: &[&str]) -> Option<String> {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        run(&Workspace::locate(), &words)
            .err()
            .map(|Usage(reason)| reason)
    }

    #[test]
    fn only_known_mistakes_are_chosen_and_the_others_are_listed() {
        let unknown = refusal(&["--seeded", "--bug", "nothing"]).expect("no such mistake");
        assert!(unknown.contains("missing-extent-finishes-its-run"));
        assert!(refusal(&["--seeded", "--bug"]).is_some());
        assert!(refusal(&["--seeds"]).is_some_and(|reason| reason.contains("`--seeds`")));
    }

    #[test]
    fn every_mistake_has_a_suite_that_hunts_it() {
        for bug in bugs(&Workspace::locate()).expect("the mistakes are readable") {
            assert!(Suite::hunting(&bug).next().is_some(), "{}", bug.name);
        }
    }

    #[test]
    fn the_table_says_what_was_caught_and_what_was_not() {
        let bugs = bugs(&Workspace::locate()).expect("the mistakes are readable");
        let tests = Tests {
            passed: 3,
            failed: vec!["a::first".into(), "b::second".into()],
            output: String::new(),
        };
        let caught = [
            Ok(Catch {
                suite: "core",
                tests,
            }),
            Err("no test\nat all".into()),
        ];
        let verdicts: Vec<Verdict<'_>> = bugs
            .iter()
            .zip(caught)
            .map(|(bug, caught)| Verdict {
                bug,
                caught,
                time: Duration::from_millis(1520),
            })
            .collect();
        let table = table(&verdicts);
        assert!(table.contains("core first (+1)"));
        assert!(table.contains("NOT CAUGHT: no test "));
        assert!(table.ends_with("\n1 of 2 caught"));
    }
}
