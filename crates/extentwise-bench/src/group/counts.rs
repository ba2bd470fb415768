//! Instructions of the hot paths, counted by valgrind, against those on record: they do
//! not depend on what else a machine does.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::hot::{HOT_PATHS, HotPath};
use crate::paired::Effort;
use crate::row::{Bar, Outcome, Row};

/// How far a count may be from the one on record, either way.
const TOLERANCE: f64 = 0.02;
pub(crate) const ID: &str = "instructions";

pub(crate) fn rows(_: Effort) -> Vec<Outcome> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        let why = "valgrind is not installed (`apt-get install valgrind`)";
        return vec![Outcome::skipped(ID, "instructions of hot paths", why)];
    }
    let recorded = recorded().unwrap_or_else(|error| {
        eprintln!("no record to compare with: {error:#}");
        BTreeMap::new()
    });
    HOT_PATHS
        .iter()
        .map(|path| match count(path) {
            Ok(count) => {
                let known = recorded.get(path.name).copied().unwrap_or(f64::NAN);
                let bar = Bar::within(TOLERANCE);
                let figures = (count, known, "on record");
                Row::of_costs(ID, path.name, bar, "instr", figures).into()
            }
            Err(error) => Outcome::skipped(ID, path.name, format!("{error:#}")),
        })
        .collect()
}

/// Instructions of one turn: what a long run takes more than a short one.
fn count(path: &HotPath) -> Result<f64> {
    let short = run(path, path.turns)?;
    let long = run(path, 2 * path.turns)?;
    Ok((long - short) / f64::from(path.turns))
}

fn run(path: &HotPath, turns: u32) -> Result<f64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(env::current_exe()?)
        .args(["--hot", path.name, &turns.to_string()])
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("valgrind: {}", said.trim());
    }
    let line = said.lines().find(|line| line.contains("Collected : "));
    let count = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
    count.context("valgrind counted nothing")
}

/// Where the counts are kept.
fn record_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("counts.tsv")
}

fn recorded() -> Result<BTreeMap<String, f64>> {
    let path = record_path();
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let entries = text.lines().map(|line| {
        let (name, count) = line.split_once('\t')?;
        Some((name.to_owned(), count.parse().ok()?))
    });
    let entries: Option<_> = entries.collect();
    entries.with_context(|| format!("{}: a line is no name and number", path.display()))
}

/// Keeps the counts of a run as those to compare with.
pub(crate) fn record(outcomes: &[Outcome]) -> Result<()> {
    let counts = outcomes.iter().filter_map(|outcome| match outcome {
        Outcome::Measured(row) if row.id == ID => Some(format!("{}\t{:.1}\n", row.name, row.ours)),
        _ => None,
    });
    let text: String = counts.collect();
    if text.is_empty() {
        return Ok(());
    }
    let path = record_path();
    fs::write(&path, text).with_context(|| path.display().to_string())
}
