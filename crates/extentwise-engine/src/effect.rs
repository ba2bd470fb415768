//! What the engine wants done, and what it tells.

use extentwise_core::errseq::ErrorClass;
use extentwise_core::geometry::{DiskByte, FileRange, LenBytes};

use crate::FileId;

/// Names an effect that is answered by [`Engine::complete`](crate::Engine::complete);
/// never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IoId(pub(crate) u64);

/// Names a sync under way; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SyncId(pub(crate) u64);

/// Why data is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// It could not be written, and the policy drops such data (C2).
    Failed(ErrorClass),
    /// The file was discarded with it (C6).
    Discarded,
    /// No ordered extent covered it at writeback (W7).
    MissingOrdered,
}

impl core::fmt::Display for Loss {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Failed(class) => write!(f, "it could not be written: {class}"),
            Self::Discarded => f.write_str("its file was closed without it"),
            Self::MissingOrdered => f.write_str("no ordered extent covered it at writeback"),
        }
    }
}

/// What the engine wants done, or tells. Those with an `io` are answered by
/// [`Engine::complete`](crate::Engine::complete), in any order, now or later.
#[must_use = "an effect that is dropped is never done: its data stays in writeback and its sync waits"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Read `len` bytes at `disk` into
    /// [`Engine::read_target`](crate::Engine::read_target).
    Read {
        /// To be answered.
        io: IoId,
        /// The file that they are for.
        file: FileId,
        /// Where they lie on the device.
        disk: DiskByte,
        /// How many; a multiple of the block size.
        len: LenBytes,
    },
    /// Write [`Engine::write_source`](crate::Engine::write_source), a bio, at
    /// `disk`.
    Write {
        /// To be answered.
        io: IoId,
        /// The file that it is of.
        file: FileId,
        /// Where it goes on the device.
        disk: DiskByte,
        /// How many bytes; a multiple of the block size.
        len: LenBytes,
        /// How many of them are the file's: what follows are zeros that fill
        /// the last block (S4).
        valid_len: LenBytes,
    },
    /// Flush the device of `file`: its writes come before what points at them
    /// (C8).
    Flush {
        /// To be answered.
        io: IoId,
        /// The file that is synced.
        file: FileId,
    },
    /// Make the map of `file` durable, with a flush behind it (C8).
    Persist {
        /// To be answered.
        io: IoId,
        /// The file that is synced.
        file: FileId,
    },
    /// A sync is over. An error is what failed since the handle's last report
    /// (E2).
    SyncEnded {
        /// The sync.
        sync: SyncId,
        /// Whether everything that was dirty when it began is durable.
        result: Result<(), ErrorClass>,
    },
    /// Whoever was told to wait ([`Refusal::Busy`], or a
    /// ticket that is pending) may try again.
    Wake,
    /// Data was lost; nobody can write it any more (C6).
    Lost {
        /// The file.
        file: FileId,
        /// Its bytes.
        range: FileRange,
        /// Why.
        why: Loss,
    },
}

/// Why the engine does not do what it was asked; nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Not now: too much is dirty, or somebody else holds what is needed. Carry
    /// out effects, and try again after [`Effect::Wake`] (C5).
    Busy,
    /// There is no such handle or file; it was closed.
    NotOpen,
    /// The range has no byte, or passes 2^63 - 1 where the file would grow to
    /// it.
    Range(FileRange),
    /// The mapping or the device answered an error of this class, or could not
    /// write what has to go first.
    Failed(ErrorClass),
    /// An earlier write could not be written back, and the policy latches the
    /// handle (C2).
    Latched(ErrorClass),
}

impl core::fmt::Display for Refusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Busy => f.write_str("busy: try again when something was completed"),
            Self::NotOpen => f.write_str("no such open file"),
            Self::Range(range) => {
                write!(f, "range {range}: must hold a byte and end before 2^63")
            }
            Self::Failed(class) => class.fmt(f),
            Self::Latched(class) => write!(
                f,
                "an earlier write could not be written back ({class}): open the file again"
            ),
        }
    }
}

impl core::error::Error for Refusal {}
