//! Operations, as a fuzzer draws them, and as a model makes them exact.

// `file` and `fill` are what they are called everywhere.
#![allow(clippy::similar_names)]

use arbitrary::Arbitrary;

use super::Model;

/// A file, drawn: one of those the model has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Arbitrary)]
pub struct FileIndex(pub u8);

/// A place in a file, drawn so that it is often near where something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Arbitrary)]
pub enum Place {
    /// Any byte.
    Byte(u16),
    /// The edge in front of a unit.
    Edge(u8),
    /// So many bytes from the edge in front of a unit.
    NearEdge(u8, i8),
    /// The end of the file.
    End,
    /// So many bytes from the end of the file.
    NearEnd(i8),
    /// So many units from the end of the file.
    UnitsFromEnd(i8),
}

/// A length, drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Arbitrary)]
pub enum Len {
    /// Up to 255 bytes.
    Small(u8),
    /// So many units, up to four.
    Units(u8),
    /// So many units and bytes.
    Odd(u8, u8),
    /// Up to the end of the file, and so many bytes more or less.
    ToEnd(i8),
}

/// An operation on a page cache, drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Arbitrary)]
pub enum Op {
    /// Writes.
    Write(FileIndex, Place, Len, u8),
    /// Writes at the end: what most files are made by.
    Append(FileIndex, Len, u8),
    /// Reads and compares.
    Read(FileIndex, Place, Len),
    /// Changes the size.
    Resize(FileIndex, Place),
    /// Makes zeros.
    Punch(FileIndex, Place, Len),
    /// Syncs a file.
    Sync(FileIndex),
    /// Syncs part of a file.
    SyncRange(FileIndex, Place, Len),
    /// Closes a file and opens it again.
    Reopen(FileIndex),
    /// Starts writeback of a file.
    Writeback(FileIndex),
    /// Drops what is clean from the cache.
    Evict,
    /// Lets so much time or so many completions pass.
    Wait(u8),
}

/// An operation made exact: its bytes are inside the model's largest file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// Writes [`pattern`](super::pattern) of `fill`.
    Write {
        /// The file.
        file: usize,
        /// The first byte.
        offset: usize,
        /// Bytes.
        len: usize,
        /// Which write it is.
        fill: u8,
    },
    /// Reads.
    Read {
        /// The file.
        file: usize,
        /// The first byte.
        offset: usize,
        /// Bytes.
        len: usize,
    },
    /// Changes the size.
    Resize {
        /// The file.
        file: usize,
        /// Bytes.
        size: usize,
    },
    /// Makes zeros.
    Punch {
        /// The file.
        file: usize,
        /// The first byte.
        offset: usize,
        /// Bytes.
        len: usize,
    },
    /// Syncs a file.
    Sync {
        /// The file.
        file: usize,
    },
    /// Syncs part of a file.
    SyncRange {
        /// The file.
        file: usize,
        /// The first byte.
        offset: usize,
        /// Bytes.
        len: usize,
    },
    /// Closes and opens again.
    Reopen {
        /// The file.
        file: usize,
    },
    /// Starts writeback.
    Writeback {
        /// The file.
        file: usize,
    },
    /// Drops what is clean.
    Evict,
    /// Lets time or completions pass.
    Wait {
        /// How much.
        steps: u8,
    },
}

impl Model {
    /// What an operation means here and now.
    #[must_use]
    pub fn call(&self, op: &Op) -> Call {
        match *op {
            Op::Write(file, place, len, fill) => {
                let (file, offset, len) = self.stretch(file, place, len);
                Call::Write {
                    file,
                    offset,
                    len,
                    fill,
                }
            }
            Op::Append(file, len, fill) => {
                let (file, offset, len) = self.stretch(file, Place::End, len);
                Call::Write {
                    file,
                    offset,
                    len,
                    fill,
                }
            }
            Op::Read(file, place, len) => {
                let (file, offset, len) = self.stretch(file, place, len);
                Call::Read { file, offset, len }
            }
            Op::Resize(file, place) => {
                let file = self.file(file);
                let size = self.place(file, place);
                Call::Resize { file, size }
            }
            Op::Punch(file, place, len) => {
                let (file, offset, len) = self.stretch(file, place, len);
                Call::Punch { file, offset, len }
            }
            Op::Sync(file) => Call::Sync {
                file: self.file(file),
            },
            Op::SyncRange(file, place, len) => {
                let (file, offset, len) = self.stretch(file, place, len);
                Call::SyncRange { file, offset, len }
            }
            Op::Reopen(file) => Call::Reopen {
                file: self.file(file),
            },
            Op::Writeback(file) => Call::Writeback {
                file: self.file(file),
            },
            Op::Evict => Call::Evict,
            Op::Wait(steps) => Call::Wait { steps },
        }
    }

    fn file(&self, index: FileIndex) -> usize {
        usize::from(index.0) % self.geometry().files
    }

    fn stretch(&self, file: FileIndex, place: Place, len: Len) -> (usize, usize, usize) {
        let file = self.file(file);
        let offset = self.place(file, place);
        let unit = self.geometry().unit;
        let len = match len {
            Len::Small(bytes) => usize::from(bytes),
            Len::Units(count) => (1 + usize::from(count) % 4).saturating_mul(unit),
            Len::Odd(count, bytes) => (usize::from(count) % 4)
                .saturating_mul(unit)
                .saturating_add(usize::from(bytes)),
            Len::ToEnd(more) => {
                let to_end = self.bytes(file).len().saturating_sub(offset);
                to_end.saturating_add_signed(isize::from(more))
            }
        };
        (file, offset, len.min(self.geometry().size_max - offset))
    }

    fn place(&self, file: usize, place: Place) -> usize {
        let geometry = self.geometry();
        let units = geometry.size_max / geometry.unit + 1;
        let edge = |index: u8| (usize::from(index) % units).saturating_mul(geometry.unit);
        let end = self.bytes(file).len();
        let place = match place {
            Place::Byte(byte) => usize::from(byte) % geometry.size_max.max(1),
            Place::Edge(index) => edge(index),
            Place::NearEdge(index, by) => edge(index).saturating_add_signed(isize::from(by)),
            Place::End => end,
            Place::NearEnd(by) => end.saturating_add_signed(isize::from(by)),
            Place::UnitsFromEnd(by) => {
                let by = isize::from(by % 8);
                let unit = isize::try_from(geometry.unit).unwrap_or(isize::MAX);
                end.saturating_add_signed(by.saturating_mul(unit))
            }
        };
        place.min(geometry.size_max)
    }
}
