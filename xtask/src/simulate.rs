//! Runs the simulator of the testkit, and judges its counts.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use crate::Usage;
use crate::report::{Report, announce};
use crate::verify::{self, Step};
use crate::workspace::{Effort, Workspace};

/// What the durability table is compared with.
const DOCUMENT: &str = "docs/durability.md";

const SEQUENCES_FLOOR: u64 = 1_000_000;
const STATES_FLOOR: u64 = 100_000;
const SCENARIOS_FLOOR: u64 = 20;
/// Once and always, each in four ways.
const RUNS_A_CALL: u64 = 8;

/// A kind of simulation, and how many seeds `verify` runs.
struct Kind {
    name: &'static str,
    seeds: u64,
    /// It must fail: a host that does wrong.
    is_canary: bool,
}

const KINDS: [Kind; 6] = [
    kind("model", SEQUENCES_FLOOR / 2),
    kind("trouble", SEQUENCES_FLOOR / 2),
    kind("crash-flat", 2000),
    kind("crash-thin", 2000),
    kind("faults", 24),
    Kind {
        is_canary: true,
        ..kind("canary", 200)
    },
];

const fn kind(name: &'static str, seeds: u64) -> Kind {
    Kind {
        name,
        seeds,
        is_canary: false,
    }
}

/// What a run printed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) counts: BTreeMap<String, u64>,
    /// The seed that fails, and why.
    pub(crate) failure: Option<(String, String)>,
}

/// The step of `verify`.
pub(crate) fn check(workspace: &Workspace, effort: Effort) -> Report {
    let mut report = Report::default();
    let Some(program) = build(workspace, "simulate", &mut report) else {
        return report;
    };
    let times = match effort {
        Effort::Local => 1,
        Effort::Ci => 10,
    };
    let mut all = BTreeMap::new();
    for kind in &KINDS {
        // A fault costs a run of its own for each call: twice is enough.
        let times = match kind.name {
            "faults" => times.min(2),
            _ => times,
        };
        let seeds = (kind.seeds * times).to_string();
        let mut command = Command::new(&program);
        command.args([kind.name, "--count", &seeds]);
        let found = run_and_read(&mut command, &mut report);
        judge(kind, &found, &mut report);
        all.insert(kind.name, found.counts);
    }
    let count = |kind: &str, name: &str| {
        let counts = all.get(kind);
        counts
            .and_then(|counts| counts.get(name))
            .copied()
            .unwrap_or(0)
    };
    let sum =
        |kinds: [&str; 2], name: &str| kinds.iter().map(|kind| count(kind, name)).sum::<u64>();
    let crashes = ["crash-flat", "crash-thin"];
    let sequences = sum(["model", "trouble"], "sequences");
    let floor = SEQUENCES_FLOOR * times;
    report.count("sequences against byte vectors", sequences, floor);
    // All combinations of what was not flushed, and drawn ones where they are too many.
    let sampled = sum(crashes, "sampled");
    let states = sum(crashes, "states") - sampled;
    report.count("crash states, complete", states, STATES_FLOOR * times);
    report.note("crash states, drawn", sampled);
    report.note("places where the power was cut", sum(crashes, "cuts"));
    report.count(
        "fault scenarios",
        count("faults", "sequences"),
        SCENARIOS_FLOOR * times.min(2),
    );
    let calls = count("faults", "ordinals");
    report.count(
        "runs with a call that fails",
        count("faults", "fault_runs"),
        calls * RUNS_A_CALL,
    );
    check_table(workspace, &program, &mut report);
    report
}

/// `simulate [--KIND] [--seed S] [--count N] | --table`.
pub(crate) fn run(workspace: &Workspace, options: &[String]) -> Result<ExitCode, Usage> {
    let Some(words) = words(options)? else {
        let name = "simulate";
        return Ok(verify::run_steps(
            workspace,
            Effort::Local,
            &[Step { name, check }],
        ));
    };
    let mut report = Report::default();
    if let Some(program) = build(workspace, "simulate", &mut report) {
        report.run(Command::new(program).args(words));
    }
    Ok(ExitCode::from(u8::from(!report.passed())))
}

/// The simulator's own words; `None` where everything is to run.
fn words(options: &[String]) -> Result<Option<Vec<String>>, Usage> {
    let Some((first, rest)) = options.split_first() else {
        return Ok(None);
    };
    let known = || KINDS.iter().map(|kind| kind.name);
    let kind = first.strip_prefix("--").unwrap_or_default();
    if kind != "table" && !known().any(|name| name == kind) {
        let kinds: Vec<String> = known().map(|name| format!("--{name}")).collect();
        let reason = format!(
            "`{first}` is no simulation, only: {}, --table",
            kinds.join(", ")
        );
        return Err(Usage(reason));
    }
    let (pairs, odd) = rest.as_chunks::<2>();
    let is_option = |[name, value]: &[String; 2]| {
        ["--seed", "--count"].contains(&name.as_str()) && value.parse::<u64>().is_ok()
    };
    if !odd.is_empty() || !pairs.iter().all(is_option) {
        return Err(Usage(
            "a simulation takes --seed NUMBER and --count NUMBER".into(),
        ));
    }
    let mut words = vec![kind.to_owned()];
    words.extend_from_slice(rest);
    Ok(Some(words))
}

/// Builds a program of the testkit.
pub(crate) fn build(workspace: &Workspace, name: &str, report: &mut Report) -> Option<PathBuf> {
    let words = ["--release", "--package", "extentwise-testkit", "--example"];
    let target = workspace.target("simulate");
    let mut command = workspace.cargo(&["build", "--quiet"]);
    command.args(words).arg(name);
    command.arg("--target-dir").arg(&target);
    report
        .run(&mut command)
        .then(|| target.join("release/examples").join(name))
}

/// Runs such a program.
pub(crate) fn run_and_read(command: &mut Command, report: &mut Report) -> Found {
    let line = announce(command);
    match command.output() {
        Ok(output) => read(&String::from_utf8_lossy(&output.stdout)),
        Err(error) => {
            report.fault(format!("`{line}` did not start: {error}"));
            Found::default()
        }
    }
}

/// Reads `count`, name, number and `failed`, kind, seed, reason; separated by tabs.
fn read(text: &str) -> Found {
    let mut found = Found::default();
    for line in text.lines() {
        match line.split('\t').collect::<Vec<_>>()[..] {
            ["count", name, count] => {
                found
                    .counts
                    .extend(count.parse().map(|count| (name.to_owned(), count)));
            }
            ["failed", _, seed, reason] => found.failure = Some((seed.into(), reason.into())),
            _ => {}
        }
    }
    found
}

fn judge(kind: &Kind, found: &Found, report: &mut Report) {
    match &found.failure {
        Some((seed, reason)) if !kind.is_canary => report.fault(format!(
            "{} seed {seed}: {reason}; again with `cargo xtask simulate --{} --seed {seed}`",
            kind.name, kind.name
        )),
        Some(_) => report.count("hosts without flushes that were caught", 1, 1),
        None if kind.is_canary => {
            report.count("hosts without flushes that were caught", 0, 1);
        }
        None => {}
    }
}

fn check_table(workspace: &Workspace, program: &PathBuf, report: &mut Report) {
    let printed = match Command::new(program).arg("table").output() {
        Ok(output) if output.status.success() => output.stdout,
        Ok(output) => return report.fault(format!("the durability table: {}", output.status)),
        Err(error) => return report.fault(format!("the durability table: {error}")),
    };
    match fs::read(workspace.root().join(DOCUMENT)) {
        Ok(committed) if committed == printed => {}
        Ok(_) => report.fault(format!(
            "{DOCUMENT} is not what crashes leave: `cargo xtask simulate --table` prints that"
        )),
        Err(error) => report.fault(format!("{DOCUMENT}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_the_failing_seed_are_read_from_what_the_simulator_prints() {
        let text = "count\tsequences\t12\nfailed\tmodel\t7\tbytes differ\nSetup\ncount\tx\ty\n";
        let found = read(text);
        assert_eq!(found.counts, BTreeMap::from([("sequences".into(), 12)]));
        assert_eq!(found.failure, Some(("7".into(), "bytes differ".into())));
    }

    #[test]
    fn a_canary_that_is_not_caught_is_a_fault_and_so_is_any_other_failure() {
        let failed = read("failed\tcanary\t0\tthe store does not open");
        let [passed, canary] = [Found::default(), failed];
        for (kind, found, holds) in [
            (5, &canary, true),
            (5, &passed, false),
            (0, &canary, false),
            (0, &passed, true),
        ] {
            let mut report = Report::default();
            judge(&KINDS[kind], found, &mut report);
            assert_eq!(report.passed(), holds);
        }
    }

    #[test]
    fn words_that_are_not_understood_are_refused_by_name() {
        let of = |text: &str| {
            let options: Vec<String> = text.split_whitespace().map(String::from).collect();
            words(&options).map_err(|Usage(reason)| reason)
        };
        assert_eq!(of(""), Ok(None));
        let seed = of("--model --seed 7").unwrap().unwrap();
        assert_eq!(seed, ["model", "--seed", "7"]);
        assert!(of("--modle").unwrap_err().contains("`--modle`"));
        assert!(
            of("--model --seed x")
                .unwrap_err()
                .contains("--seed NUMBER")
        );
        assert!(of("--model --seed").unwrap_err().contains("--seed NUMBER"));
    }
}
