//! Row 19: memory that a cached folio takes beside its bytes, as the operating system
//! sees it.

use std::fs;

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
    let (Some(small), Some(large)) = (per_folio(folios, SMALL), per_folio(folios, LARGE)) else {
        let name = "bytes of state of a cached block";
        return vec![Outcome::skipped(
            "19",
            name,
            "/proc/self/statm says nothing",
        )];
    };
    let per_block = (large - small) / BLOCKS;
    let per_block_all = large / BLOCKS;
    vec![
        Row::of_costs(
            "19",
            "state of a cached block, 2 MiB folios, all in all",
            Bar::goal(1.0),
            "bytes",
            (per_block_all, 2.0, "a bound of 2 (buffer heads: 104)"),
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

/// Bytes that the process grows by for each folio of this size.
fn per_folio(folios: u64, folio_bytes: u64) -> Option<f64> {
    let before = resident_bytes()?;
    let cache = Cache::new(folios, folio_bytes);
    let after = resident_bytes()?;
    drop(cache);
    Some(after.saturating_sub(before) as f64 / folios as f64)
}

fn resident_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}
