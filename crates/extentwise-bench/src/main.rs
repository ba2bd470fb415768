//! The performance of the workspace beside what else one could use, in one run.
//!
//! Every row takes both sides in turns in one process, so that other work on the
//! machine hits both; the ratio is the median of the ratios of the pairs, and above 1
//! means that ours is better. `cargo xtask bench` runs this; a row that misses its
//! goal makes it exit with 1.

#![forbid(unsafe_code)]
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts and times stay far below 2^52, and 64-bit machines are measured"
)]

mod bits;
mod cache;
mod chart;
mod files;
mod group;
mod hot;
mod machine;
mod mount;
mod options;
mod paired;
mod pass;
mod pictures;
mod pin;
mod record;
mod report;
mod row;
mod write;

use std::process::ExitCode;

use anyhow::{Context, Result};

use group::{GROUPS, counts, state};
use machine::Machine;
use options::{Command, Options};
use row::Outcome;

fn main() -> ExitCode {
    let words = std::env::args().skip(1);
    let options = match options::parse(words) {
        Ok(Command::Bench(options)) => options,
        Ok(Command::Hot(name, turns)) => {
            return ExitCode::from(u8::from(!hot::run(&name, turns)));
        }
        Ok(Command::State(folios, folio_bytes)) => {
            return match state::per_folio(folios, folio_bytes) {
                Ok(bytes) => {
                    println!("{bytes}");
                    ExitCode::SUCCESS
                }
                Err(_) => ExitCode::FAILURE,
            };
        }
        Ok(Command::Help) => {
            println!("{}", options::usage());
            return ExitCode::SUCCESS;
        }
        Err(reason) => {
            eprintln!("error: {reason}\n\n{}", options::usage());
            return ExitCode::from(2);
        }
    };
    run(&options).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::from(2)
    })
}

/// Measures what is asked for, prints it, keeps it where it is to be kept.
fn run(options: &Options) -> Result<ExitCode> {
    let machine = Machine::look();
    println!("{machine}\n");
    let mut outcomes = Vec::new();
    for group in GROUPS.iter().filter(|group| options.wants(group)) {
        eprintln!("measuring {}: {}", group.name, group.what);
        let judge = options.judge(group);
        let measured = (group.measure)(options.effort);
        let wanted = measured.into_iter().filter(|one| options.wants_row(one));
        outcomes.extend(wanted.map(|one| one.judged(judge)));
    }
    outcomes.sort_by_key(Outcome::place);
    report::print(&outcomes);
    if let Some(path) = &options.json {
        let text = report::json(&machine, &outcomes)?;
        std::fs::write(path, text).with_context(|| path.display().to_string())?;
    }
    let histograms = if options.wants_pictures() {
        pictures::histograms()
    } else {
        String::new()
    };
    println!("{histograms}");
    if options.record {
        // A whole run is to show where counts have moved, not to accept it.
        if options.is_whole() {
            record::record(&machine, &outcomes, &options.command(), &histograms)?;
        } else {
            counts::record(&outcomes)?;
        }
    }
    let failed = outcomes.iter().filter(|one| one.is_failed()).count();
    Ok(ExitCode::from(u8::from(failed > 0)))
}
