//! Why the store refused.

use core::fmt;

use extentwise_core::errseq::ErrorClass;
use extentwise_core::geometry::{DiskByte, GeometryError, LenBytes};
use extentwise_device::DeviceError;
use extentwise_engine::FileId;

/// What kept the store from being made, opened or made durable. Nothing in
/// memory is lost by any of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ThinError {
    /// The device refused.
    Device(DeviceError),
    /// No block has this size.
    BlockSize(GeometryError),
    /// The device takes nothing smaller than this, or a power cut tears nothing
    /// smaller: a block must be a multiple of it.
    DeviceBlock {
        /// Bytes of the store's block.
        block: u64,
        /// Bytes of the device's.
        device: u32,
    },
    /// The device does not say where it ends.
    NoCapacity,
    /// The device has fewer blocks than a store needs.
    TooSmall {
        /// Blocks that it has.
        blocks: u64,
        /// Blocks that are needed.
        needed: u64,
    },
    /// The device is shorter than the store on it.
    Shortened {
        /// Bytes of the device.
        capacity: LenBytes,
        /// Blocks of the store.
        blocks: u64,
    },
    /// Neither place of a superblock holds one.
    NoSuperblock,
    /// A superblock breaks a rule.
    Superblock {
        /// Where it lies.
        at: DiskByte,
        /// The rule.
        broken: Broken,
    },
    /// A block of the map breaks a rule.
    Map {
        /// Where it lies.
        at: DiskByte,
        /// The rule.
        broken: Broken,
    },
    /// There is a file of this name.
    Exists(FileId),
    /// There is no file of this name.
    NoFile(FileId),
    /// A range that is not made of blocks.
    Unaligned {
        /// Its first byte.
        start: u64,
        /// Behind its last.
        end: u64,
    },
    /// There are too few free blocks.
    NoSpace {
        /// Blocks that are free.
        free: u64,
    },
    /// 2^64 generations were written.
    Generations,
}

/// A rule of the format that was broken, with the value that breaks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Broken {
    /// It does not begin as it must.
    Magic,
    /// Its checksum does not fit.
    Checksum,
    /// A field is not what it must be.
    Field {
        /// Which one.
        name: &'static str,
        /// What it holds.
        value: u64,
        /// What it must be.
        rule: &'static str,
    },
    /// Blocks lie in something else too.
    Overlap {
        /// The first.
        block: u64,
        /// How many.
        count: u64,
    },
}

impl ThinError {
    /// What kind of failure it is, for who hands on only that (E3).
    #[must_use]
    pub const fn class(&self) -> ErrorClass {
        match self {
            Self::Device(error) => error.class(),
            Self::NoSpace { .. } | Self::TooSmall { .. } => ErrorClass::NoSpace,
            Self::NoFile(_) => ErrorClass::Gone,
            Self::Exists(_) | Self::Unaligned { .. } => ErrorClass::Denied,
            Self::BlockSize(_) | Self::DeviceBlock { .. } | Self::NoCapacity => {
                ErrorClass::Unsupported
            }
            Self::Generations => ErrorClass::TooLarge,
            Self::Shortened { .. }
            | Self::NoSuperblock
            | Self::Superblock { .. }
            | Self::Map { .. } => ErrorClass::Io,
        }
    }
}

impl From<DeviceError> for ThinError {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}

impl fmt::Display for ThinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(error) => error.fmt(f),
            Self::BlockSize(error) => error.fmt(f),
            Self::DeviceBlock { block, device } => write!(
                f,
                "block size {block}: must be a multiple of the device's block of {device}"
            ),
            Self::NoCapacity => f.write_str("the device has no end: a store needs a capacity"),
            Self::TooSmall { blocks, needed } => {
                write!(f, "device of {blocks} blocks: a store needs {needed}")
            }
            Self::Shortened { capacity, blocks } => {
                write!(
                    f,
                    "device of {capacity} bytes: its store has {blocks} blocks"
                )
            }
            Self::NoSuperblock => f.write_str("no superblock: the device holds no store"),
            Self::Superblock { at, broken } => write!(f, "superblock at {at}: {broken}"),
            Self::Map { at, broken } => write!(f, "map block at {at}: {broken}"),
            Self::Exists(file) => write!(f, "{file} exists"),
            Self::NoFile(file) => write!(f, "there is no {file}"),
            Self::Unaligned { start, end } => write!(
                f,
                "range [{start}, {end}): must be multiples of the block size"
            ),
            Self::NoSpace { free } => write!(
                f,
                "no space left: {free} blocks are free, and promised or kept for the map"
            ),
            Self::Generations => f.write_str("the generations are used up"),
        }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic => f.write_str("the magic is missing"),
            Self::Checksum => f.write_str("the checksum does not fit"),
            Self::Field { name, value, rule } => write!(f, "{name} {value}: {rule}"),
            Self::Overlap { block, count } => write!(
                f,
                "{count} blocks from block {block} on lie in something else too"
            ),
        }
    }
}

impl core::error::Error for ThinError {}
impl core::error::Error for Broken {}
