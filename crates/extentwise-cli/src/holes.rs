//! Where a file has data, and where holes.

use std::fs::File;
use std::ops::Range;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

/// The next range at or behind `from` that is no hole; empty at `len` if there
/// is none. A file system that knows no holes has data everywhere.
pub(crate) fn next_data(file: &File, from: u64, len: u64) -> Result<Range<u64>, Errno> {
    let start = match rustix::fs::seek(file, SeekFrom::Data(from)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(len..len),
        Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(from..len),
        Err(error) => return Err(error),
    };
    let end = rustix::fs::seek(file, SeekFrom::Hole(start))?;
    Ok(start.min(len)..end.min(len))
}
