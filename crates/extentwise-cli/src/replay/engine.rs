//! The cache under a replay: bytes of its pattern go in, and are shown again.

use std::ops::Range;

use anyhow::{Result, bail};
use extentwise_files::pattern;

use crate::timed::TimedCache;

/// Writes `range` of a file into the cache, with the pattern of the write of this
/// number; the file grows if the range ends past its size.
pub(crate) fn write(
    cache: &mut TimedCache,
    file: usize,
    range: Range<u64>,
    write: u64,
) -> Result<()> {
    let (start, len) = (range.start, range.end - range.start);
    cache.call(file, |cache| {
        cache.write(file, start, len, &mut |bytes, into| {
            pattern::fill(bytes, start + into, write);
        })
    })
}

/// Reads `range`, which must lie in the file, and shows it to `see`, piece by
/// piece with its offset.
pub(crate) fn read(
    cache: &mut TimedCache,
    file: usize,
    range: Range<u64>,
    see: impl Fn(&[u8], u64) -> Result<()>,
) -> Result<()> {
    let mut seen = Ok(());
    let (start, len) = (range.start, range.end - range.start);
    let read = cache.call(file, |cache| {
        cache.read(file, start, len, &mut |bytes, into| {
            if seen.is_ok() {
                seen = see(bytes, start + into);
            }
        })
    })?;
    seen?;
    if read != len {
        bail!("read [{start}, {}): only {read} bytes came", range.end);
    }
    Ok(())
}
