//! What a run found, for people and for programs.

use anyhow::Result;
use serde_json::json;

use crate::machine::Machine;
use crate::row::{Outcome, Row};

/// The table in the terminal.
pub(crate) fn print(outcomes: &[Outcome]) {
    println!(
        "\n{:>8} {:<52} {:>11} {:>11} {:<8} {:>9} {:>7}",
        "row", "work", "ours", "peer", "", "ratio", "goal"
    );
    for outcome in outcomes {
        match outcome {
            Outcome::Measured(row) => println!("{}", line(row)),
            Outcome::Skipped { id, name, why } => {
                println!("{id:>8} {name:<52} NOT MEASURED: {why}");
            }
        }
    }
    let count = |what: fn(&Outcome) -> bool| outcomes.iter().filter(|one| what(one)).count();
    let skipped = count(|one| matches!(one, Outcome::Skipped { .. }));
    let failed = count(Outcome::is_failed);
    let passed = outcomes.len() - skipped - failed;
    println!("\n{passed} passed, {failed} missed, {skipped} not measured");
}

fn line(row: &Row) -> String {
    let goal = row.goal.map_or("-".into(), |goal| format!("{goal:.2}"));
    format!(
        "{:>8} {:<52} {:>11} {:>11} {:<8} {:>9.3} {goal:>7}  {}{}",
        row.id,
        row.name,
        shown(row.ours),
        shown(row.peer),
        row.unit,
        row.ratio,
        if row.pass { "" } else { "MISSED " },
        row.peer_name,
    )
}

/// Digits that tell something.
pub(crate) fn shown(value: f64) -> String {
    match value.abs() {
        ..10.0 => format!("{value:.2}"),
        10.0..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// The run as JSON.
pub(crate) fn json(machine: &Machine, outcomes: &[Outcome]) -> Result<String> {
    let rows: Vec<_> = outcomes
        .iter()
        .map(|outcome| match outcome {
            Outcome::Measured(row) => json!(row),
            Outcome::Skipped { id, name, why } => {
                json!({"id": id, "name": name, "skipped": why})
            }
        })
        .collect();
    let run = json!({"machine": machine, "rows": rows});
    Ok(serde_json::to_string_pretty(&run)? + "\n")
}
