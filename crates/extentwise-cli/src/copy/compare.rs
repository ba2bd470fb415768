//! Reading both files back and comparing them.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::holes;

use super::source::Source;

const READ_LEN: usize = 1 << 20;

/// Compares the first `size` bytes of the source with the file at `path`, which
/// has as many; `go_on` is asked between reads. Where both have holes, nothing
/// is read.
pub(crate) fn compare(
    source: &Source,
    path: &Path,
    size: u64,
    go_on: impl Fn() -> Result<()>,
) -> Result<()> {
    let at_path = || path.display().to_string();
    let copy = File::open(path).with_context(at_path)?;
    let len = copy.metadata().with_context(at_path)?.len();
    if len != size {
        bail!("the check failed: the copy has {len} bytes and must have {size}");
    }
    let (mut right, mut found) = (vec![0; READ_LEN], vec![0; READ_LEN]);
    let mut cursor = 0;
    while cursor < size {
        go_on()?;
        let data_of = |file: &File| holes::next_data(file, cursor, size).with_context(at_path);
        let (ours, theirs) = (data_of(source.file())?, data_of(&copy)?);
        // Behind the length it was opened with, a source is read to its end.
        let start = ours.start.min(theirs.start).min(source.len().max(cursor));
        let rest = usize::try_from(size - start).unwrap_or(usize::MAX);
        let len = rest.min(READ_LEN);
        source.read_exact(start, &mut right[..len])?;
        let read = copy.read_exact_at(&mut found[..len], start);
        read.with_context(at_path)?;
        if right[..len] != found[..len] {
            let pairs = right.iter().zip(&found);
            let at = pairs.take_while(|(right, found)| right == found).count();
            bail!(
                "the check failed: byte {} of the copy is {:#04x} and must be {:#04x}",
                start + at as u64,
                found[at],
                right[at]
            );
        }
        cursor = start + len as u64;
    }
    Ok(())
}
