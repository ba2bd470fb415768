//! Why there is no memory.

use std::error::Error;
use std::fmt;

/// Memory that was not got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryError {
    /// The size of a folio is no power of two.
    FolioSize(usize),
    /// The size of a block is no power of two from 4 to 64 KiB.
    NodeSize(usize),
    /// The size of a page is none of 4, 16 and 64 KiB.
    PageSize(usize),
    /// So many bytes could not be got; nothing of them is held.
    OutOfMemory(usize),
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FolioSize(size) => write!(f, "folio size {size}: must be a power of two"),
            Self::NodeSize(size) => write!(
                f,
                "node size {size}: must be a power of two from 4096 to 65536"
            ),
            Self::PageSize(size) => write!(f, "page size {size}: must be 4096, 16384 or 65536"),
            Self::OutOfMemory(bytes) => write!(f, "no memory for {bytes} bytes"),
        }
    }
}

impl Error for MemoryError {}
