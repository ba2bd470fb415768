//! What the engine asks of a file system: where data is, and where it goes.

mod identity;

pub use identity::{Identity, PendingFile};

use core::fmt;

use extentwise_core::errseq::ErrorClass;
use extentwise_core::geometry::{BlockSize, DiskByte, FileOffset, FileRange};
use extentwise_core::ordered::{NewOrdered, OrderedExtent, Outcome};

/// Names a file; the embedder's own number, as an inode's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u64);

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file {}", self.0)
    }
}

/// What is behind a range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtentKind {
    /// Nothing: it reads as zero.
    Hole,
    /// Data, from this address on.
    Data(DiskByte),
    /// A place without data, from this address on: it reads as zero.
    Unwritten(DiskByte),
}

/// The answer to "what is behind this range?".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileExtent {
    /// The bytes of the file that the answer holds for. It begins at or before
    /// the start of what was asked and goes at least a block further; it may end
    /// before or behind what was asked.
    pub range: FileRange,
    /// What is there; the address is that of the first byte of `range`.
    pub kind: ExtentKind,
}

/// The map of a file system: from bytes of files to bytes of the device.
///
/// The engine calls it, and no call may wait: the map is in memory, or what is
/// asked was brought there when the file was opened. Making it durable is the
/// host's work, when the engine asks for it
/// ([`Effect::Persist`](crate::Effect::Persist)).
///
/// A write that is prepared *reserves*; writeback *allocates*, which uses the
/// reservation up; the completed write is [`complete`](Self::complete)d. What is
/// given up before is *unreserved*. All ranges are multiples of the block size.
///
/// **Invariant**: nothing that a crash may show points at data before the device
/// was flushed (C8): what `complete` records becomes durable only when the host
/// persists the map, and the engine asks for that behind a flush.
pub trait Mapping {
    /// The blocks in which it keeps space; [`Engine::new`](crate::Engine::new)
    /// refuses others. `None` where any will do.
    fn block_size(&self) -> Option<BlockSize> {
        None
    }

    /// What is behind the start of `range`.
    fn map(&mut self, file: FileId, range: FileRange) -> Result<FileExtent, ErrorClass>;

    /// Promises space for the bytes of `range`, so that running out of it is
    /// known when they are written and not at writeback (W14). A reserve right
    /// after an extent of at least as many bytes was given back succeeds.
    fn reserve(&mut self, file: FileId, range: FileRange) -> Result<(), ErrorClass>;

    /// Takes a promise back.
    fn unreserve(&mut self, file: FileId, range: FileRange);

    /// Gives the start of `range`, all of it reserved, a place. The answer must
    /// begin at the start of `range` and may be shorter; it uses up the promise
    /// for as many bytes as it covers.
    fn allocate(&mut self, file: FileId, range: FileRange) -> Result<NewOrdered, ErrorClass>;

    /// Takes back a place that was allocated and cannot be used, for it is not
    /// what was asked.
    fn give_back(&mut self, file: FileId, unused: NewOrdered) {
        let _ = (file, unused);
    }

    /// Learns what became of an ordered extent: what to record, what space to
    /// give back (O5). `extent.flags()` says whether it failed. An error counts
    /// as a failure of the extent: its data is not recorded.
    fn complete(
        &mut self,
        file: FileId,
        extent: &OrderedExtent,
        outcome: Outcome,
    ) -> Result<(), ErrorClass>;

    /// Makes `range` a hole and gives its space back.
    fn punch(&mut self, file: FileId, range: FileRange) -> Result<(), ErrorClass>;

    /// The file was cut at `size`: `behind`, the whole blocks from there to the
    /// end of all files, becomes a hole. The size on record follows by
    /// [`set_size`](Self::set_size).
    fn truncate(
        &mut self,
        file: FileId,
        size: FileOffset,
        behind: FileRange,
    ) -> Result<(), ErrorClass> {
        let _ = size;
        self.punch(file, behind)
    }

    /// Whether data is written over what the map says there was: a hole that was
    /// made, and is not carried out on the device, may then lie below an extent
    /// that is being written. A sync of such a hole waits for that extent.
    fn is_in_place(&self) -> bool {
        false
    }

    /// The size that the file has on record from now on (S4); smaller than
    /// before only after a truncate. Data may lie behind it that is not counted
    /// yet.
    fn set_size(&mut self, file: FileId, size: FileOffset) -> Result<(), ErrorClass>;
}
