//! Runs the loom models of the core and judges their counts.
//!
//! The test binary explores and knows the models; `docs/concurrency.md` says what each is for.
//! A model that only one of them knows is a fault.

use std::collections::BTreeSet;
use std::process::{Command, ExitCode};

use crate::Usage;
use crate::documented::Listed;
use crate::report::{Report, announce, read_lines};
use crate::table::{self, Row};
use crate::workspace::{Effort, Workspace};

/// Where each model is named.
const LISTED: Listed = Listed {
    document: "docs/concurrency.md",
    section: "## Models",
    kind: "model",
};

const MODELS_FLOOR: u64 = 14;

/// The core's locks are loom's only with this.
const FLAGS: &str = "--cfg loom";

/// The step of `verify`: every model complete, every twin rejected.
pub(crate) fn check(workspace: &Workspace, _: Effort) -> Report {
    let mut report = Report::default();
    match LISTED.names(workspace) {
        Ok(names) => {
            lint(workspace, &mut report);
            let found = explore(workspace, &names, None, &mut report);
            let complete = found.iter().filter(|model| model.is_complete()).count();
            let rejected = found
                .iter()
                .filter(|model| model.rejects_its_twin())
                .count();
            report.count("models complete", complete as u64, MODELS_FLOOR);
            report.count("twins rejected", rejected as u64, MODELS_FLOOR);
            report.note(
                "executions explored",
                found.iter().map(|model| model.executions).sum(),
            );
        }
        Err(error) => report.fault(error),
    }
    report
}

/// `loom [--model NAME]`: the models, or one of them.
pub(crate) fn run(workspace: &Workspace, options: &[String]) -> Result<ExitCode, Usage> {
    let known = LISTED.names(workspace).map_err(Usage)?;
    let one = chosen(options, &known)?;
    let mut report = Report::default();
    if one.is_none() {
        lint(workspace, &mut report);
    }
    let found = explore(workspace, &known, one, &mut report);
    if one.is_none() {
        report.count("models complete", found.len() as u64, MODELS_FLOOR);
    }
    println!("{} models, {} faults", found.len(), report.faults().len());
    Ok(ExitCode::from(u8::from(!report.passed())))
}

fn chosen<'a>(options: &'a [String], known: &BTreeSet<String>) -> Result<Option<&'a str>, Usage> {
    let names = || known.iter().map(|name| format!("\n  {name}"));
    let refuse = |reason| Usage(names().fold(reason, |text, name| text + &name));
    match options {
        [] => Ok(None),
        [option] if option == "--model" => Err(refuse("--model needs one of:".into())),
        [option, name] if option == "--model" && known.contains(name) => Ok(Some(name)),
        [option, name] if option == "--model" => {
            Err(refuse(format!("no model is called `{name}`, only:")))
        }
        [first, ..] => Err(Usage(format!("`{first}` is not understood here"))),
    }
}

/// `cargo WORDS` over the core as the models see it.
fn cargo(workspace: &Workspace, words: &[&str]) -> Command {
    let target = workspace.target("loom").display().to_string();
    let core = ["--package", "extentwise-core", "--test", "loom"];
    let mut command = workspace.cargo(&[words, &core, &["--target-dir", &target]].concat());
    command.env("RUSTFLAGS", FLAGS);
    command
}

/// What the other lints never see, because it is compiled only here.
fn lint(workspace: &Workspace, report: &mut Report) {
    let mut clippy = cargo(workspace, &["clippy", "--quiet"]);
    report.run(clippy.args(["--", "-D", "warnings"]));
}

/// Runs the models, all or `one`, and prints the table. What did not hold is a fault.
fn explore(
    workspace: &Workspace,
    known: &BTreeSet<String>,
    one: Option<&str>,
    report: &mut Report,
) -> Vec<Model> {
    let mut command = cargo(workspace, &["test", "--quiet", "--release"]);
    command.arg("--").args(one);
    let found = run_and_read(&mut command, report);

    if let Some(one) = one {
        if !found.iter().any(|model| model.name == one) {
            report.fault(format!("model {one} did not run"));
        }
    } else {
        LISTED.compare(known, found.iter().map(|model| &*model.name), report);
    }
    for model in &found {
        for fault in model.faults() {
            let again = format!("cargo xtask loom --model {}", model.name);
            report.fault(format!(
                "model {}: {fault}; again with `{again}`",
                model.name
            ));
        }
    }

    let mut rows = vec![Row::of(
        ["model", "rules", "executions", "floor", "complete", "twin"].map(String::from),
    )];
    rows.extend(found.iter().map(Model::row));
    println!("\n{}", table::render(&rows));
    found
}

/// Shows the models as they end.
fn run_and_read(command: &mut Command, report: &mut Report) -> Vec<Model> {
    let line = announce(command);
    let mut found = Vec::new();
    let ended = read_lines(command, |text| {
        if let Some(model) = Model::parse(text) {
            eprintln!("{}: {} executions", model.name, model.executions);
            found.push(model);
        }
    });
    match ended {
        // The faults of the models are named one by one.
        _ if found.iter().any(|model| !model.faults().is_empty()) => {}
        Ok(()) => {}
        Err(error) => report.fault(format!("`{line}`: {error}")),
    }
    found
}

/// What the test binary says of one model.
#[derive(Debug, PartialEq, Eq)]
struct Model {
    name: String,
    rules: String,
    executions: u64,
    floor: u64,
    complete: String,
    twin: String,
}

impl Model {
    /// Reads `model`, name, rules, executions, floor, complete, twin; separated by tabs.
    fn parse(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.split('\t').collect();
        let ["model", name, rules, executions, floor, complete, twin] = fields[..] else {
            return None;
        };
        Some(Self {
            name: name.into(),
            rules: rules.into(),
            executions: executions.parse().ok()?,
            floor: floor.parse().ok()?,
            complete: complete.into(),
            twin: twin.into(),
        })
    }

    fn is_complete(&self) -> bool {
        self.complete == "complete"
    }

    fn rejects_its_twin(&self) -> bool {
        self.twin.starts_with("rejected in ")
    }

    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if !self.is_complete() {
            faults.push(self.complete.clone());
        }
        if self.executions < self.floor {
            let Self {
                executions, floor, ..
            } = self;
            faults.push(format!(
                "{executions} executions, at least {floor} expected"
            ));
        }
        if !self.rejects_its_twin() {
            faults.push(format!("its twin: {}", self.twin));
        }
        faults
    }

    fn row(&self) -> Row {
        let complete = if self.is_complete() { "yes" } else { "NO" };
        Row::of([
            self.name.clone(),
            self.rules.clone(),
            self.executions.to_string(),
            self.floor.to_string(),
            complete.into(),
            self.twin.clone(),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "model\ta\tO8\t90\t80\tcomplete\trejected in execution 3";

    fn faults(line: &str) -> usize {
        Model::parse(line).map_or(usize::MAX, |model| model.faults().len())
    }

    #[test]
    fn each_way_of_proving_nothing_is_a_fault() {
        assert_eq!(faults(GOOD), 0);
        assert_eq!(faults(&GOOD.replace("90", "79")), 1);
        assert_eq!(
            faults(&GOOD.replace("complete", "failed in execution 7: x")),
            1
        );
        assert_eq!(faults(&GOOD.replace("rejected in", "accepted in all")), 1);
        assert_eq!(
            faults(&GOOD.replace("rejected in", "fell over something else:")),
            1
        );
    }

    #[test]
    fn other_lines_are_not_taken_for_models() {
        assert_eq!(Model::parse("running 3 tests"), None);
        assert_eq!(
            Model::parse("model\ta\tO8\tmany\t80\tcomplete\trejected"),
            None
        );
        assert_eq!(Model::parse(&format!("{GOOD}\tmore")), None);
    }

    #[test]
    fn only_known_models_are_chosen() {
        let known: BTreeSet<String> = ["a", "b"].map(String::from).into();
        let choose = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            chosen(&words, &known)
                .map(|one| one.map(String::from))
                .map_err(|Usage(reason)| reason)
        };
        assert_eq!(choose(&[]), Ok(None));
        assert_eq!(choose(&["--model", "b"]), Ok(Some("b".into())));
        assert_eq!(
            choose(&["--model", "c"]),
            Err("no model is called `c`, only:\n  a\n  b".into())
        );
        assert!(choose(&["--model"]).is_err_and(|reason| reason.contains("\n  a")));
        assert!(choose(&["--fast"]).is_err_and(|reason| reason.contains("`--fast`")));
    }

    #[test]
    fn a_run_without_models_is_below_its_floor() {
        let mut report = Report::default();
        assert!(run_and_read(&mut Command::new("true"), &mut report).is_empty());
        assert!(report.passed());
        report.count("models complete", 0, MODELS_FLOOR);
        assert!(!report.passed());
        run_and_read(&mut Command::new("false"), &mut report);
        assert_eq!(report.faults().len(), 1);
    }
}
