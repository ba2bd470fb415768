//! Runs the scenes of the cache for threads under shuttle, and judges their counts.
//!
//! The test binary plays them and knows their names; `docs/concurrency.md` says what each is for.
//! A scene that only one of them knows is a fault.

use std::process::{Command, ExitCode, Stdio};

use crate::Usage;
use crate::documented::Listed;
use crate::report::{Report, announce};
use crate::verify::{self, Step};
use crate::workspace::{Effort, Workspace};

/// Where each scene is named.
const LISTED: Listed = Listed {
    document: "docs/concurrency.md",
    section: "## Scenes",
    kind: "scene",
};

const SCHEDULES_FLOOR: u64 = 10_000;

/// The cache's locks are shuttle's only with this.
const FLAGS: &str = "--cfg shuttle";

/// The step of `verify`: every scene holds, and none does with a mistake.
pub(crate) fn check(workspace: &Workspace, _: Effort) -> Report {
    let mut report = Report::default();
    lint(workspace, &mut report);
    let found = play(workspace, &[], &mut report);
    compare(workspace, &found.scenes, &mut report);
    let schedules = found.scenes.iter().map(|scene| scene.schedules).sum();
    report.count("schedules", schedules, SCHEDULES_FLOOR);
    let canaries = play(workspace, &["canary".into()], &mut report).canaries;
    let noticed = canaries.iter().map(|canary| canary.0).sum();
    let scenes: u64 = canaries.iter().map(|canary| canary.1).sum();
    report.count("scenes that notice a mistake", noticed, scenes.max(1));
    report
}

/// `shuttle [--scene NAME] [--seed S]`: the check, or some scenes of it.
pub(crate) fn run(workspace: &Workspace, options: &[String]) -> Result<ExitCode, Usage> {
    if options.is_empty() {
        let name = "shuttle";
        let step = [Step { name, check }];
        return Ok(verify::run_steps(workspace, Effort::Local, &step));
    }
    let words = chosen(options)?;
    let mut report = Report::default();
    let found = play(workspace, &words, &mut report);
    if found.scenes.is_empty() {
        return Err(Usage(format!(
            "no such scene; {} names them",
            LISTED.document
        )));
    }
    Ok(ExitCode::from(u8::from(!report.passed())))
}

/// The words for the test binary: a name, a seed.
fn chosen(options: &[String]) -> Result<Vec<String>, Usage> {
    let mut words = Vec::new();
    let mut rest = options.iter();
    while let Some(option) = rest.next() {
        let word = rest
            .next()
            .ok_or_else(|| Usage(format!("`{option}` needs a word behind it")))?;
        match option.as_str() {
            "--scene" => words.push(word.clone()),
            "--seed" if word.parse::<u64>().is_ok() => words.push(word.clone()),
            "--seed" => return Err(Usage(format!("--seed {word}: must be a number"))),
            _ => return Err(Usage(format!("`{option}` is not understood here"))),
        }
    }
    Ok(words)
}

/// `cargo WORDS` over the cache as the scenes see it.
fn cargo(workspace: &Workspace, words: &[&str]) -> Command {
    let target = workspace.target("shuttle").display().to_string();
    let scenes = ["--package", "extentwise", "--test", "shuttle"];
    let mut command = workspace.cargo(&[words, &scenes, &["--target-dir", &target]].concat());
    // Building weighs more than running here.
    for setting in ["opt-level=1", "debug=false"] {
        command.args(["--config", &format!("profile.test.{setting}")]);
    }
    command.env("RUSTFLAGS", FLAGS);
    command
}

/// What the other lints never see, because it is compiled only here.
fn lint(workspace: &Workspace, report: &mut Report) {
    let mut clippy = cargo(workspace, &["clippy", "--quiet"]);
    report.run(clippy.args(["--", "-D", "warnings"]));
}

/// Plays scenes and prints the table. What did not hold is a fault.
fn play(workspace: &Workspace, words: &[String], report: &mut Report) -> Found {
    let mut command = cargo(workspace, &["test", "--quiet"]);
    // Scenes that have to fail say much.
    let said = if words == ["canary"] {
        Stdio::null()
    } else {
        Stdio::inherit()
    };
    command.arg("--").args(words).stderr(said);
    let line = announce(&command);
    let found = match command.output() {
        Ok(output) => {
            if !output.status.success() {
                report.fault(format!("`{line}`: {}", output.status));
            }
            Found::read(&String::from_utf8_lossy(&output.stdout))
        }
        Err(error) => {
            report.fault(format!("`{line}` did not start: {error}"));
            Found::default()
        }
    };
    for scene in found.scenes.iter().filter(|scene| !scene.held) {
        let Scene { name, seed, .. } = scene;
        report.fault(format!(
            "scene {name} failed, and its schedule stands above; again with \
             `cargo xtask shuttle --scene {name} --seed {seed}`"
        ));
    }
    if !found.scenes.is_empty() {
        println!(
            "\n{:<42}{:<10}{:>9}{:>6}  held",
            "scene", "rules", "schedules", "seed"
        );
        for scene in &found.scenes {
            println!("{}", scene.row());
        }
    }
    found
}

/// The scenes that the document names are those that were played.
fn compare(workspace: &Workspace, scenes: &[Scene], report: &mut Report) {
    match LISTED.names(workspace) {
        Ok(known) => LISTED.compare(&known, scenes.iter().map(|scene| &*scene.name), report),
        Err(reason) => report.fault(reason),
    }
}

/// What the test binary printed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    scenes: Vec<Scene>,
    /// For each mistake how many scenes failed, and of how many.
    canaries: Vec<(u64, u64)>,
}

#[derive(Debug, PartialEq, Eq)]
struct Scene {
    name: String,
    rules: String,
    schedules: u64,
    seed: u64,
    held: bool,
}

impl Found {
    /// Reads `scene`, name, rules, schedules, seed, `held`; or `canary`, mistake, failed, scenes;
    /// separated by tabs. Other lines are not ours.
    fn read(text: &str) -> Self {
        let mut found = Self::default();
        for line in text.lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            match fields[..] {
                ["scene", name, rules, schedules, seed, held] => found.scenes.push(Scene {
                    name: name.into(),
                    rules: rules.into(),
                    schedules: schedules.parse().unwrap_or(0),
                    seed: seed.parse().unwrap_or(0),
                    held: held == "held",
                }),
                ["canary", _, failed, scenes] => {
                    let count = |field: &str| field.parse().ok();
                    found.canaries.extend(count(failed).zip(count(scenes)));
                }
                _ => {}
            }
        }
        found
    }
}

impl Scene {
    fn row(&self) -> String {
        let Self {
            name,
            rules,
            schedules,
            seed,
            held,
        } = self;
        let held = if *held { "yes" } else { "NO" };
        format!("{name:<42}{rules:<10}{schedules:>9}{seed:>6}  {held}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenes_and_the_canary_are_read_and_other_lines_left_out() {
        let text =
            "running\nscene\ta\tC4\t1200\t7\theld\nscene\tb\tC5\t0\t7\tfailed\ncanary\tx\t2\t2\n";
        let found = Found::read(text);
        let held: Vec<bool> = found.scenes.iter().map(|scene| scene.held).collect();
        assert_eq!(held, [true, false]);
        assert_eq!(found.scenes[0].schedules, 1200);
        assert_eq!(found.canaries, [(2, 2)]);
        assert_eq!(Found::read("canary\tx\tmany\t2"), Found::default());
    }

    #[test]
    fn a_scene_and_a_seed_are_chosen_by_their_options() {
        let choose = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            chosen(&words).map_err(|Usage(reason)| reason)
        };
        assert_eq!(choose(&[]), Ok(vec![]));
        assert_eq!(
            choose(&["--scene", "a", "--seed", "7"]),
            Ok(vec!["a".into(), "7".into()])
        );
        assert!(choose(&["--seed", "x"]).is_err_and(|reason| reason.contains("a number")));
        assert!(choose(&["--scene"]).is_err());
        assert!(choose(&["--fast", "1"]).is_err_and(|reason| reason.contains("`--fast`")));
    }
}
