//! What can be wrong with a block, and what an image is refused for.

use std::fmt;
use std::io;

use crate::disk::{Key, Uuid};

/// A block copy that is not what it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bad {
    /// Logical address of the block; for a superblock, its place on the device.
    pub bytenr: u64,
    /// Which copy, from 1; 0 where the block has no copy at all.
    pub mirror: u32,
    /// What is wrong with it.
    pub reason: Reason,
    /// The copy that is sound and was used in its place.
    pub used: Option<u32>,
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            bytenr,
            mirror,
            reason,
            used,
        } = self;
        write!(f, "block {bytenr}, mirror {mirror}: {reason}")?;
        match used {
            Some(used) => write!(f, "; mirror {used} is sound and was used"),
            None => Ok(()),
        }
    }
}

/// What is wrong with a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There is no superblock where one must be.
    Magic,
    /// No chunk of metadata maps the whole block.
    Unmapped,
    /// It cannot be read.
    Unreadable(io::ErrorKind),
    /// The checksum is not that of its bytes.
    Checksum {
        /// The checksum in the block, as far as the algorithm has bytes.
        found: Vec<u8>,
        /// The checksum of its bytes.
        computed: Vec<u8>,
    },
    /// Bytes behind a checksum shorter than its field are not zero.
    ChecksumPadding,
    /// A UUID is another one.
    Uuid {
        /// The name of the field.
        field: &'static str,
        /// What the block has there.
        found: Uuid,
        /// What it must have.
        expected: Uuid,
    },
    /// A field has a value that breaks a rule.
    Field(Field),
    /// A key does not come after the one before it.
    KeyOrder {
        /// Its slot.
        slot: u32,
        /// The key.
        key: Key,
        /// The one before it.
        before: Key,
    },
    /// The first key is not the one by which the parent knows the block.
    FirstKey {
        /// The first key.
        key: Key,
        /// The parent's.
        parent: Key,
    },
    /// A key in the block or below it reaches into what the parent's next child
    /// has.
    LastKey {
        /// The last key.
        key: Key,
        /// The parent's next.
        next: Key,
    },
    /// A copy has other bytes than the one that was used, and both seem right.
    CopyDiffers,
}

/// A field that breaks a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// The slot of the item, where it belongs to one.
    pub slot: Option<u32>,
    /// Its value.
    pub found: u64,
    /// The rule that it breaks.
    pub rule: Rule,
}

impl Field {
    pub(crate) const fn new(name: &'static str, found: u64, rule: Rule) -> Self {
        Self {
            name,
            slot: None,
            found,
            rule,
        }
    }

    pub(crate) const fn of_item(slot: u32, name: &'static str, found: u64, rule: Rule) -> Self {
        Self {
            name,
            slot: Some(slot),
            found,
            rule,
        }
    }

    pub(crate) const fn in_slot(mut self, slot: u32) -> Self {
        self.slot = Some(slot);
        self
    }
}

/// A rule that a field can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// It must be this value.
    Is(u64),
    /// It must be this or less.
    AtMost(u64),
    /// It must be this or more.
    AtLeast(u64),
    /// It must be divisible by this.
    MultipleOf(u64),
    /// It must be a power of two in these bounds, both inclusive.
    PowerOfTwo(u64, u64),
    /// It must be the id of a subvolume.
    Subvolume,
    /// It ends behind the last address there is.
    Overflows,
    /// It must be a value that is known here.
    Known,
    /// It is the address of a chunk that is there already, and another.
    Once,
    /// It overlaps the chunk that begins at this address.
    NoOverlap(u64),
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(slot) = self.slot {
            write!(f, "item {slot}: ")?;
        }
        write!(f, "{} {}", self.name, self.found)?;
        match self.rule {
            Rule::Is(value) => write!(f, ": must be {value}"),
            Rule::AtMost(most) => write!(f, ": must be at most {most}"),
            Rule::AtLeast(least) => write!(f, ": must be at least {least}"),
            Rule::MultipleOf(unit) => write!(f, ": must be a multiple of {unit}"),
            Rule::PowerOfTwo(least, most) => {
                write!(f, ": must be a power of two from {least} to {most}")
            }
            Rule::Subvolume => f.write_str(": must be the id of a subvolume"),
            Rule::Overflows => f.write_str(": ends behind the last address"),
            Rule::Known => f.write_str(": is not known"),
            Rule::Once => f.write_str(": differs from what was said of it before"),
            Rule::NoOverlap(start) => write!(f, ": overlaps the chunk at {start}"),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic => f.write_str("the magic is missing"),
            Self::Unmapped => f.write_str("no chunk of metadata maps it"),
            Self::Unreadable(io::ErrorKind::UnexpectedEof) => {
                f.write_str("it lies behind the end of the image")
            }
            Self::Unreadable(kind) => write!(f, "cannot be read: {kind}"),
            Self::Checksum { found, computed } => {
                write!(f, "csum {}: computed {}", Hex(found), Hex(computed))
            }
            Self::ChecksumPadding => f.write_str("csum: the bytes behind it are not zero"),
            Self::Uuid {
                field,
                found,
                expected,
            } => write!(f, "{field} {}: must be {}", Dashed(found), Dashed(expected)),
            Self::Field(field) => field.fmt(f),
            Self::KeyOrder { slot, key, before } => {
                write!(f, "item {slot}: key {key} must come after {before}")
            }
            Self::FirstKey { key, parent } => {
                write!(f, "first key {key}: the parent has {parent}")
            }
            Self::LastKey { key, next } => {
                write!(
                    f,
                    "last key {key}: the parent's next child begins at {next}"
                )
            }
            Self::CopyDiffers => f.write_str("differs from the copy that was used"),
        }
    }
}

impl From<Field> for Reason {
    fn from(field: Field) -> Self {
        Self::Field(field)
    }
}

/// An image that cannot be walked at all.
#[derive(Debug)]
pub enum Error {
    /// No superblock is sound: what is wrong with each that the image has room
    /// for.
    NoSuperblock(Vec<(u64, Reason)>),
    /// The image is sound as far as seen, and uses what is not supported.
    Unsupported(Unsupported),
    /// A chunk of the superblock's array is not what it must be.
    SystemChunk {
        /// Byte of the array at which the chunk begins.
        at: usize,
        /// What is wrong.
        field: Field,
    },
    /// No chunk of metadata maps a block that was asked for.
    Unmapped(u64),
    /// No copy of a block that was asked for can be read.
    Unreadable(u64),
    /// There is no memory for a block.
    Memory(String),
}

/// What images may have, and this reader does not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsupported {
    /// More than one device.
    Devices(u64),
    /// A chunk, by its address, is not on this device but on that.
    Device(u64, u64),
    /// A chunk, by its address, has parts in stripes: the flags of its type.
    Striped(u64, u64),
    /// Incompatible features that are known and not supported, or unknown.
    Incompat(u64),
    /// An unknown algorithm of checksums, by its number.
    Csum(u16),
    /// Flags of the superblock that say that the file system is being changed
    /// as a whole, or is no plain image.
    Flags(u64),
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Devices(count) => write!(f, "{count} devices: only one is supported"),
            Self::Device(chunk, devid) => {
                write!(
                    f,
                    "chunk {chunk} lies on device {devid}: only one is supported"
                )
            }
            Self::Striped(chunk, flags) => write!(
                f,
                "chunk {chunk} has type {flags:#x}: only single, DUP and RAID1 are supported"
            ),
            Self::Incompat(bits) => {
                write!(f, "incompat_flags {bits:#x}: not supported")?;
                let names: Vec<_> = INCOMPAT_NAMES
                    .iter()
                    .filter(|(bit, _)| bits & bit != 0)
                    .map(|(_, name)| *name)
                    .collect();
                if names.is_empty() {
                    return Ok(());
                }
                write!(f, " ({})", names.join(", "))
            }
            Self::Csum(id) => write!(f, "csum_type {id}: not known"),
            Self::Flags(bits) => write!(
                f,
                "flags {bits:#x}: a dump or a file system amid a conversion is not supported"
            ),
        }
    }
}

const INCOMPAT_NAMES: [(u64, &str); 4] = [
    (1 << 7, "raid56"),
    (1 << 12, "zoned"),
    (1 << 13, "extent-tree-v2"),
    (1 << 14, "raid-stripe-tree"),
];

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuperblock(faults) => {
                f.write_str("no superblock")?;
                for (at, fault) in faults {
                    write!(f, "; at {at}: {fault}")?;
                }
                Ok(())
            }
            Self::Unsupported(what) => what.fmt(f),
            Self::SystemChunk { at, field } => {
                write!(f, "superblock, sys_chunk_array at byte {at}: {field}")
            }
            Self::Unmapped(bytenr) => write!(f, "block {bytenr}: no chunk of metadata maps it"),
            Self::Unreadable(bytenr) => write!(f, "block {bytenr}: no copy can be read"),
            Self::Memory(why) => write!(f, "no memory for a tree block: {why}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<Unsupported> for Error {
    fn from(what: Unsupported) -> Self {
        Self::Unsupported(what)
    }
}

/// Bytes as hexadecimal digits.
#[derive(Debug)]
pub struct Hex<'a>(pub &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A UUID as people write it.
#[derive(Debug)]
pub struct Dashed<'a>(pub &'a Uuid);

impl fmt::Display for Dashed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = u128::from_be_bytes(*self.0);
        let (high, low) = (number >> 64, number & u128::from(u64::MAX));
        write!(
            f,
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            high >> 16 & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff
        )
    }
}
