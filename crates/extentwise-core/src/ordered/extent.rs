//! One ordered extent: its numbers, its flags, its outcome.

use crate::geometry::{BlockSize, DiskByte, FileOffset, FileRange, LenBytes};
use bitflags::bitflags;
use core::fmt;

bitflags! {
    /// What an ordered extent is and what happened to it.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct OrderedFlags: u8 {
        /// Overwrites an extent in place; that extent stands whatever happens (O5).
        const NOCOW = 1 << 0;
        /// Fills an extent allocated before; success converts it to written (O5).
        const PREALLOC = 1 << 1;
        /// All its bytes are finished (O4).
        const IO_DONE = 1 << 2;
        /// Some of its bytes failed (O4).
        const IO_ERROR = 1 << 3;
        /// Its tail was cut off (O2).
        const TRUNCATED = 1 << 4;
    }
}

/// How the data of an ordered extent relates to what is on the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OrderedKind {
    /// A newly allocated place; success inserts an extent.
    #[default]
    Plain,
    /// An existing extent is overwritten; success records nothing.
    Nocow,
    /// A preallocated extent is filled; success converts it.
    Prealloc,
}

impl OrderedKind {
    const fn flags(self) -> OrderedFlags {
        match self {
            Self::Plain => OrderedFlags::empty(),
            Self::Nocow => OrderedFlags::NOCOW,
            Self::Prealloc => OrderedFlags::PREALLOC,
        }
    }
}

/// The numbers of an ordered extent that is to be inserted; all are multiples
/// of the block size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewOrdered {
    /// First byte in the file.
    pub file_offset: FileOffset,
    /// Bytes of the file that it covers; not zero.
    pub num_bytes: LenBytes,
    /// Start of the extent on the device.
    pub disk_bytenr: DiskByte,
    /// Where in the device extent the first byte lies.
    pub offset: LenBytes,
    /// Bytes of the extent on the device; at least `offset + num_bytes`.
    pub disk_num_bytes: LenBytes,
    /// What success does.
    pub kind: OrderedKind,
}

impl NewOrdered {
    /// A plain extent of `num_bytes` at `file_offset` that fills its place on
    /// the device.
    #[must_use]
    pub const fn plain(file_offset: FileOffset, num_bytes: LenBytes, disk: DiskByte) -> Self {
        Self {
            file_offset,
            num_bytes,
            disk_bytenr: disk,
            offset: LenBytes::ZERO,
            disk_num_bytes: num_bytes,
            kind: OrderedKind::Plain,
        }
    }

    /// Checks the numbers (O1); answers the bytes of the file.
    #[inline]
    pub(super) fn check(&self, block_size: BlockSize) -> Result<FileRange, OrderedError> {
        let numbers = [
            ("file_offset", self.file_offset.get()),
            ("num_bytes", self.num_bytes.get()),
            ("disk_bytenr", self.disk_bytenr.get()),
            ("offset", self.offset.get()),
            ("disk_num_bytes", self.disk_num_bytes.get()),
        ];
        let all = numbers.iter().fold(0, |all, (_, value)| all | value);
        if !block_size.divides(all) {
            let odd = numbers.into_iter().find(|(_, v)| !block_size.divides(*v));
            let (name, value) = odd.unwrap_or_default();
            return Err(OrderedError::Unaligned(name, value));
        }
        if self.num_bytes.is_zero() {
            return Err(OrderedError::Empty);
        }
        let range = FileRange::at(self.file_offset, self.num_bytes)
            .ok_or(OrderedError::Overflow("file_offset + num_bytes"))?;
        let used = self
            .offset
            .checked_add(self.num_bytes)
            .ok_or(OrderedError::Overflow("offset + num_bytes"))?;
        if self.disk_num_bytes < used {
            return Err(OrderedError::DiskTooSmall(self.disk_num_bytes));
        }
        self.disk_bytenr
            .checked_add(self.disk_num_bytes)
            .ok_or(OrderedError::Overflow("disk_bytenr + disk_num_bytes"))?;
        Ok(range)
    }
}

/// A rule that the numbers of an ordered extent break (O1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderedError {
    /// It covers no byte.
    Empty,
    /// A number, named, is no multiple of the block size.
    Unaligned(&'static str, u64),
    /// Its end in the file or on the device, named, passes 2^64 - 1.
    Overflow(&'static str),
    /// `disk_num_bytes` is less than `offset + num_bytes`.
    DiskTooSmall(LenBytes),
}

impl fmt::Display for OrderedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("num_bytes 0: an ordered extent covers at least a block"),
            Self::Unaligned(name, value) => {
                write!(f, "{name} {value}: must be a multiple of the block size")
            }
            Self::Overflow(name) => write!(f, "{name}: the end passes 2^64 - 1"),
            Self::DiskTooSmall(len) => {
                write!(
                    f,
                    "disk_num_bytes {len}: must be at least offset + num_bytes"
                )
            }
        }
    }
}

impl core::error::Error for OrderedError {}

/// Names an ordered extent for as long as its table lives; never used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OrderedId(pub(super) u64);

/// What the file's metadata learns from an ordered extent (O5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// Nothing is to be recorded.
    Nothing,
    /// A new extent is inserted.
    Insert {
        /// The bytes of the file that it covers.
        file: FileRange,
        /// Where they lie on the device.
        disk: DiskByte,
    },
    /// That part of an existing extent becomes written.
    Convert {
        /// The bytes of the file that became written.
        file: FileRange,
        /// Where they lie on the device.
        disk: DiskByte,
    },
}

/// What the completer does with an ordered extent that is done (O5).
#[must_use = "an outcome that is dropped loses the extent or its space"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What the metadata records.
    pub record: Record,
    /// Space on the device to give back: start and length.
    pub release: Option<(DiskByte, LenBytes)>,
}

/// A range of a file on its way to the device.
///
/// Byte `p` of the file lies at `disk_bytenr + offset + (p - file_offset)`.
///
/// **Invariant**: numbers are block-aligned and their sums fit 64 bits;
/// `truncated_len` and `bytes_left` only fall; `IO_DONE` is set when
/// `bytes_left` reaches 0, once (O2, O4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderedExtent {
    pub(super) id: OrderedId,
    pub(super) spec: NewOrdered,
    pub(super) bytes_left: LenBytes,
    pub(super) truncated_len: LenBytes,
    pub(super) flags: OrderedFlags,
    pub(super) valid_end: FileOffset,
}

impl OrderedExtent {
    /// An extent of checked numbers: nothing finished, nothing truncated (O1).
    #[inline]
    pub(super) const fn new(id: OrderedId, spec: NewOrdered) -> Self {
        Self {
            id,
            spec,
            bytes_left: spec.num_bytes,
            truncated_len: spec.num_bytes,
            flags: spec.kind.flags(),
            valid_end: spec.file_offset,
        }
    }

    /// Its name.
    #[must_use]
    pub const fn id(&self) -> OrderedId {
        self.id
    }

    /// The numbers it was made from.
    #[must_use]
    pub const fn spec(&self) -> NewOrdered {
        self.spec
    }

    /// First byte in the file.
    #[must_use]
    pub const fn file_offset(&self) -> FileOffset {
        self.spec.file_offset
    }

    /// Bytes of the file that it covers.
    #[must_use]
    pub const fn num_bytes(&self) -> LenBytes {
        self.spec.num_bytes
    }

    /// The bytes of the file that it covers.
    #[must_use]
    pub const fn range(&self) -> FileRange {
        let start = self.spec.file_offset;
        FileRange::clamped(
            start,
            FileOffset::new(start.get().saturating_add(self.spec.num_bytes.get())),
        )
    }

    /// Bytes that are not finished yet.
    #[must_use]
    pub const fn bytes_left(&self) -> LenBytes {
        self.bytes_left
    }

    /// Bytes from its start that count; the rest was truncated away (O2).
    #[must_use]
    pub const fn truncated_len(&self) -> LenBytes {
        self.truncated_len
    }

    /// First byte behind the valid ones of the bios that were finished so far
    /// (S4); its start while there are none.
    #[must_use]
    pub const fn valid_end(&self) -> FileOffset {
        self.valid_end
    }

    /// What it is and what happened to it.
    #[must_use]
    pub const fn flags(&self) -> OrderedFlags {
        self.flags
    }

    /// Where byte `at` of the file lies on the device, or `None` outside the
    /// extent.
    #[must_use]
    pub const fn disk_of(&self, at: FileOffset) -> Option<DiskByte> {
        if self.range().contains(at) {
            Some(self.disk_at(at))
        } else {
            None
        }
    }

    /// The recorded file size after this extent, given the size recorded before
    /// and the current `i_size`: it rises only if the extent is done without
    /// error, to the end of the valid bytes of its bios, and never past
    /// `i_size`, for a later truncate wins (S4).
    #[must_use]
    pub fn recorded_size(&self, recorded: FileOffset, i_size: FileOffset) -> FileOffset {
        if !self.succeeded() {
            return recorded;
        }
        recorded.max(self.valid_end.min(i_size))
    }

    /// What the completer has to do, or `None` while bytes are left (O5).
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        if !self.flags.contains(OrderedFlags::IO_DONE) {
            return None;
        }
        let spec = &self.spec;
        let in_place = matches!(spec.kind, OrderedKind::Nocow | OrderedKind::Prealloc);
        if !self.succeeded() || self.truncated_len.is_zero() {
            return Some(Outcome {
                record: Record::Nothing,
                release: (!in_place).then_some((spec.disk_bytenr, spec.disk_num_bytes)),
            });
        }
        let end = FileOffset::new(
            spec.file_offset
                .get()
                .saturating_add(self.truncated_len.get()),
        );
        let file = FileRange::clamped(spec.file_offset, end);
        let disk = self.disk_at(spec.file_offset);
        let record = match spec.kind {
            OrderedKind::Plain => Record::Insert { file, disk },
            OrderedKind::Prealloc => Record::Convert { file, disk },
            OrderedKind::Nocow => Record::Nothing,
        };
        Some(Outcome {
            record,
            release: None,
        })
    }

    const fn succeeded(&self) -> bool {
        self.flags.contains(OrderedFlags::IO_DONE) && !self.flags.contains(OrderedFlags::IO_ERROR)
    }

    /// Device address of a byte inside the extent; `new` checked that the sum fits.
    pub(crate) const fn disk_at(&self, at: FileOffset) -> DiskByte {
        let into = at.distance_from(self.spec.file_offset).get();
        let start = self.spec.disk_bytenr.get();
        DiskByte::new(
            start
                .saturating_add(self.spec.offset.get())
                .saturating_add(into),
        )
    }
}
