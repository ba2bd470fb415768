//! Comparing the files byte for byte with what the trace says, through plain
//! reads of freshly opened files: nothing of the cache takes part.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::holes::next_data;

use super::model::{Mismatch, Model};

const READ_LEN: usize = 1 << 20;

/// Compares the file at `path` with `model`; answers how many bytes that were,
/// holes included. Holes cost nothing: they are asked for, not read.
pub(crate) fn verify(path: &Path, model: &Model) -> Result<u64> {
    let at_path = || path.display().to_string();
    let file = File::open(path).with_context(at_path)?;
    let len = file.metadata().with_context(at_path)?.len();
    if len != model.len() {
        bail!(
            "{}: the file has {len} bytes, the trace makes it {}",
            path.display(),
            model.len()
        );
    }
    let mut buffer = vec![0; READ_LEN];
    let mut cursor = 0;
    while cursor < len {
        let data = next_data(&file, cursor, len).with_context(at_path)?;
        check(path, model.mismatch_of_hole(cursor..data.start))?;
        let mut at = data.start;
        while at < data.end {
            let want = (data.end - at).min(READ_LEN as u64) as usize;
            let bytes = &mut buffer[..want];
            std::os::unix::fs::FileExt::read_exact_at(&file, bytes, at)
                .with_context(|| format!("{}: reading {want} bytes at {at}", path.display()))?;
            check(path, model.mismatch(bytes, at))?;
            at += want as u64;
        }
        cursor = data.end;
    }
    Ok(len)
}

/// Fails if there is a mismatch, with a message that names it.
pub(crate) fn check(path: &Path, mismatch: Option<Mismatch>) -> Result<()> {
    let Some(wrong) = mismatch else {
        return Ok(());
    };
    let source = match wrong.write {
        Some(write) => format!("write {write} of the trace"),
        None => "no write of the trace reaches it, or it was trimmed".to_owned(),
    };
    bail!(
        "{}: byte {} is {:#04x} and must be {:#04x} ({source})",
        path.display(),
        wrong.offset,
        wrong.found,
        wrong.expected
    )
}
