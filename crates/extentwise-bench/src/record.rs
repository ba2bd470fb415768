//! Keeping a run in the repository: BENCHMARKS.md, and the pictures beside it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::group::counts;
use crate::machine::Machine;
use crate::pictures;
use crate::report::shown;
use crate::row::Outcome;

/// What lies between these lines is written anew; the reading around them is by hand.
const BEGIN: &str = "<!-- begin of the last full run -->\n";
const END: &str = "<!-- end of the last full run -->\n";

/// Writes the run into BENCHMARKS.md and draws the pictures anew.
pub(crate) fn record(
    machine: &Machine,
    outcomes: &[Outcome],
    command: &str,
    histograms: &str,
) -> Result<()> {
    let path = root().join("BENCHMARKS.md");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let run = markdown(machine, outcomes, command, histograms);
    let text = replaced(&text, &run)
        .with_context(|| format!("{}: the lines around the run are gone", path.display()))?;
    let folder = root().join("docs").join("bench");
    fs::create_dir_all(&folder)?;
    for (name, svg) in pictures::svgs()? {
        fs::write(folder.join(name), svg)?;
    }
    fs::write(&path, text).with_context(|| path.display().to_string())
}

/// The folder of the workspace.
fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = package.ancestors().nth(2);
    root.unwrap_or(package).to_owned()
}

/// The text with another run between the two lines.
fn replaced(text: &str, run: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{run}{END}{after}"))
}

fn markdown(machine: &Machine, outcomes: &[Outcome], command: &str, histograms: &str) -> String {
    let head = format!(
        "\n{}, {} cores, {} MiB, Linux {}; {}; extentwise {}.\n`{command}`, {}; processes that \
         wanted to run when it began, over one minute and over five: {}.\n\n\
         | row | work | ours | peer | unit | ratio | goal | |\n\
         |---|---|--:|--:|---|--:|--:|---|\n",
        machine.cpu,
        machine.cores,
        machine.memory_mib,
        machine.kernel,
        machine.rustc,
        machine.version,
        machine.date,
        machine.load
    );
    // Counts have a record of their own.
    let shown_here = outcomes.iter().filter(|one| one.id() != counts::ID);
    let lines = shown_here.map(|outcome| match outcome {
        Outcome::Measured(row) => {
            let goal = row.goal.map_or("–".into(), |goal| format!("{goal:.2}"));
            let pass = match (row.pass, row.goal) {
                (false, _) => "**missed**",
                (true, Some(_)) => "pass",
                (true, None) => "",
            };
            format!(
                "| {} | {}; against {} | {} | {} | {} | {:.2} | {goal} | {pass} |\n",
                row.id,
                row.name,
                row.peer_name,
                shown(row.ours),
                shown(row.peer),
                row.unit,
                row.ratio
            )
        }
        Outcome::Skipped { id, name, why } => {
            format!("| {id} | {name} | | | | | | not measured: {why} |\n")
        }
    });
    let table: String = std::iter::once(head).chain(lines).collect();
    format!("{table}\n```text\n{histograms}```\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_between_the_lines_is_replaced() {
        let text = format!("by hand\n{BEGIN}old\n{END}also by hand\n");
        let new = replaced(&text, "new\n").unwrap();
        assert_eq!(new, format!("by hand\n{BEGIN}new\n{END}also by hand\n"));
        assert_eq!(replaced("by hand\n", "new\n"), None);
    }

    #[test]
    fn the_file_in_the_repository_has_a_place_for_the_run() {
        let text = fs::read_to_string(root().join("BENCHMARKS.md")).unwrap();
        assert!(replaced(&text, "").is_some());
    }
}
