//! What a pass reports: every block counted once (W9).

use crate::folio::WritebackEnd;
use crate::geometry::{FileOffset, LenBytes};
use core::fmt;

/// The first thing that went wrong in a pass (W9). `E` is the submitter's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassError<E> {
    /// No ordered extent covers the block at this offset (W7).
    MissingOrdered {
        /// First byte of the gap.
        file_offset: FileOffset,
    },
    /// The device refused the piece at this offset (W8).
    Refused {
        /// First byte of the piece.
        file_offset: FileOffset,
        /// The submitter's reason, as it came.
        error: E,
    },
}

impl<E: fmt::Display> fmt::Display for PassError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingOrdered { file_offset } => {
                write!(
                    f,
                    "no ordered extent covers the dirty block at {file_offset}"
                )
            }
            Self::Refused { file_offset, error } => {
                write!(f, "the piece at {file_offset} was refused: {error}")
            }
        }
    }
}

impl<E: core::error::Error> core::error::Error for PassError<E> {}

/// How the blocks of a pass were decided, in bytes. Each block is counted in
/// one field only (W9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassCounts {
    /// Queued for the device.
    pub submitted: LenBytes,
    /// Refused by the device (W8).
    pub refused: LenBytes,
    /// At or past the end of the file (W5).
    pub beyond_eof: LenBytes,
    /// Without an ordered extent (W7).
    pub missing: LenBytes,
}

impl PassCounts {
    /// All bytes that the pass decided.
    #[must_use]
    pub const fn total(&self) -> LenBytes {
        self.submitted
            .saturating_add(self.refused)
            .saturating_add(self.beyond_eof)
            .saturating_add(self.missing)
    }
}

/// What a pass did.
#[must_use = "a report that is dropped swallows an error and the end of writeback"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassReport<E> {
    /// The first error, or `None`. Later runs were tried all the same (W8, W9).
    pub error: Option<PassError<E>>,
    /// How each block was decided.
    pub counts: PassCounts,
    /// Whether the folio has dirty blocks left: those that somebody else owns,
    /// or that were dirtied meanwhile. If not, it leaves the dirty list (W10).
    pub folio_dirty: bool,
    /// Whether the folio's writeback ended with this pass: every piece was
    /// completed before, or none was queued after a gap (W7, W11).
    pub writeback: WritebackEnd,
}
