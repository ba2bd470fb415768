//! Row 19: memory that a cached folio takes beside its bytes, as the operating system
//! sees it.

use std::env;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use crate::cache::Cache;
use crate::paired::Effort;
use crate::row::{Bar, Outcome, Row};

const SMALL: u64 = 4096;
const LARGE: u64 = 2 << 20;
const BLOCKS: f64 = 512.0;

pub(crate) fn rows(effort: Effort) -> Vec<Outcome> {
    let folios = match effort {
        Effort::Quick => 20_000,
        Effort::Full => 100_000,
    };
    let measured =
        in_a_process(folios, SMALL).and_then(|small| Ok((small, in_a_process(folios, LARGE)?)));
    let (small, large) = match measured {
        Ok(measured) => measured,
        Err(error) => {
            let name = "bytes of state of a cached block";
            return vec![Outcome::skipped("19", name, format!("{error:#}"))];
        }
    };
    let per_block = (large - small) / BLOCKS;
    let all_in_all = large / BLOCKS;
    vec![
        Row::of_costs(
            "19",
            "state of a cached block, 2 MiB folios, all in all",
            Bar::goal(1.0),
            "bytes",
            (all_in_all, 2.0, "a bound of 2 (buffer heads: 104)"),
        )
        .into(),
        Row::of_costs(
            "19",
            "state of a folio beside its blocks'",
            Bar::goal(1.0),
            "bytes",
            (small - per_block, 160.0, "a bound of 160"),
        )
        .into(),
    ]
}

/// Bytes for each folio of this size, in a process of its own: what this one has freed
/// would be used again, and not be seen.
fn in_a_process(folios: u64, folio_bytes: u64) -> Result<f64> {
    let output = Command::new(env::current_exe()?)
        .args(["--state", &folios.to_string(), &folio_bytes.to_string()])
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let bytes = said.trim().parse();
    bytes.with_context(|| format!("`{}` is no number of bytes", said.trim()))
}

/// Bytes that this process grows by for each folio of this size.
pub(crate) fn per_folio(folios: u64, folio_bytes: u64) -> Result<f64> {
    // The pages of the code itself are no state of folios.
    drop(Cache::new(16, folio_bytes));
    let before = resident_bytes()?;
    let cache = Cache::new(folios, folio_bytes);
    let after = resident_bytes()?;
    drop(cache);
    Ok(after.saturating_sub(before) as f64 / folios as f64)
}

fn resident_bytes() -> Result<u64> {
    let text = fs::read_to_string("/proc/self/statm").context("/proc/self/statm")?;
    let pages = text
        .split(' ')
        .nth(1)
        .context("/proc/self/statm: no second number")?;
    Ok(pages.parse::<u64>()? * rustix::param::page_size() as u64)
}
