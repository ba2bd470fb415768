//! What a replay tells while it goes on, for programs: a JSON object a line.

use std::io::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

/// Whether standard output hears of syncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Events {
    /// It does not.
    Silent,
    /// A line for each sync that has ended.
    Lines,
}

#[derive(Serialize)]
struct SyncLine {
    synced: Synced,
}

#[derive(Serialize)]
struct Synced {
    path: String,
    line: u64,
    writes: u64,
}

impl Events {
    /// The sync on `line` of the trace has ended well: what the trace wrote to
    /// the file before it, up to write number `writes`, is durable.
    pub(crate) fn synced(self, path: &Path, line: u64, writes: u64) -> Result<()> {
        if self == Self::Silent {
            return Ok(());
        }
        let synced = Synced {
            path: path.display().to_string(),
            line,
            writes,
        };
        let text = serde_json::to_string(&SyncLine { synced })? + "\n";
        // Whole, and at once: who reads it may rely on it from now on.
        let mut stdout = std::io::stdout().lock();
        let told = stdout.write_all(text.as_bytes());
        told.and_then(|()| stdout.flush())
            .context("standard output")
    }
}
