//! Offsets, lengths and block arithmetic: newtypes, so that a file offset
//! cannot be passed where a disk address is meant, and conversions that are
//! checked where a caller's value could overflow.

mod block;
mod folio;
mod offset;
mod range;

pub use block::{BlockIndex, BlockRange, BlockSize};
pub use folio::FolioGeometry;
pub use offset::{DiskByte, FileOffset, LenBytes};
pub use range::FileRange;

use core::fmt;

/// A size or position that breaks a rule of the geometry, with the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeometryError {
    /// A block size that is no power of two between 512 and 65,536 bytes.
    BlockSize(u64),
    /// A folio size that is no power of two or is smaller than a block.
    FolioSize(LenBytes),
    /// A folio position that is no multiple of the folio's size.
    FolioPosition(FileOffset),
    /// A folio that would end past 2^64 - 1.
    FolioEnd(FileOffset),
}

impl fmt::Display for GeometryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BlockSize(bytes) => write!(
                f,
                "block size {bytes}: must be a power of two from 512 to 65536"
            ),
            Self::FolioSize(len) => write!(
                f,
                "folio size {len}: must be a power of two and at least one block"
            ),
            Self::FolioPosition(pos) => write!(
                f,
                "folio position {pos}: must be a multiple of the folio's size"
            ),
            Self::FolioEnd(pos) => write!(f, "folio at {pos}: would end past 2^64 - 1"),
        }
    }
}

impl core::error::Error for GeometryError {}
