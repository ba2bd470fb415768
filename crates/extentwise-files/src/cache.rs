//! What one thread does with a cache of files.

use std::ops::Range;

use anyhow::Error;
use extentwise_engine::{Blocks, Counts, Refusal};

/// Makes the bytes of a write: it is called with memory, and how far into the
/// write that lies.
pub type Fill<'a> = dyn FnMut(&mut [u8], u64) + 'a;

/// Is shown the bytes of a read, and how far into it they lie.
pub type See<'a> = dyn FnMut(&[u8], u64) + 'a;

/// A cache of files as one thread uses it; files are known by their place in the
/// list that the cache was made with, from 0.
///
/// A place that is in no list is refused as [`Refusal::NotOpen`].
pub trait Cache {
    /// Writes `len` bytes at `at`; the file grows if they end past its size.
    fn write(&mut self, nth: usize, at: u64, len: u64, fill: &mut Fill<'_>) -> Result<(), Refusal>;

    /// Shows up to `len` bytes from `at` on, piece by piece; answers how many
    /// there were.
    fn read(&mut self, nth: usize, at: u64, len: u64, see: &mut See<'_>) -> Result<u64, Refusal>;

    /// Makes a range read as zero and gives its space back.
    fn punch(&mut self, nth: usize, range: Range<u64>) -> Result<(), Refusal>;

    /// Gives a file another size; what is new reads as zero.
    fn resize(&mut self, nth: usize, size: u64) -> Result<(), Refusal>;

    /// Writes a file back, and its size.
    fn sync(&mut self, nth: usize) -> Result<(), Refusal>;

    /// What the engine did so far.
    fn counts(&self) -> Counts;

    /// Passes of writeback that calls of this thread carried out: none where
    /// other threads do.
    fn passes(&self) -> u64;

    /// How the cache stands now. Costs a step for each folio.
    fn gauge(&self) -> Gauge;

    /// What failed first with a file since somebody asked, for people: refusals
    /// have classes only.
    fn take_failure(&self, nth: usize) -> Option<Error>;
}

/// How a cache stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauge {
    /// Bytes of dirty blocks, those that could not be written among them.
    pub dirty_bytes: u64,
    /// Bytes of blocks in writeback.
    pub writeback_bytes: u64,
    /// Writes that devices were asked for so far.
    pub device_writes: u64,
    /// Bytes of them.
    pub device_bytes: u64,
}

impl Gauge {
    pub(crate) fn new(blocks: Blocks, device_writes: u64, device_bytes: u64) -> Self {
        let dirty = blocks.dirty.saturating_add(blocks.failed);
        Self {
            dirty_bytes: dirty.get(),
            writeback_bytes: blocks.writeback.get(),
            device_writes,
            device_bytes,
        }
    }
}
