//! Checksums over a metadata block (B5).

use super::{BlockMemory, BufferError, ExtentBuffer};

/// Bytes of a checksum field; shorter checksums are padded with zeroes.
pub const CSUM_BYTES: usize = 32;

/// A checksum in the making. Implementations wrap the crate of the algorithm.
pub trait Checksum: Sized {
    /// Takes more bytes.
    fn update(&mut self, bytes: &[u8]);

    /// The checksum, padded with zeroes.
    fn finish(self) -> [u8; CSUM_BYTES];

    /// The checksum of one slice; algorithms with a faster way for it have one.
    #[must_use]
    fn of(mut self, bytes: &[u8]) -> [u8; CSUM_BYTES] {
        self.update(bytes);
        self.finish()
    }
}

impl<M: BlockMemory> ExtentBuffer<M> {
    /// The checksum of the block over all bytes behind the checksum field
    /// itself: in one call where they are contiguous, else page by page with
    /// the same result (B5). A block that is no longer than the field is out of
    /// range.
    pub fn checksum<C: Checksum>(&self, mut state: C) -> Result<[u8; CSUM_BYTES], BufferError> {
        let behind = CSUM_BYTES as u64;
        let len = (self.len() as u64).saturating_sub(behind);
        let range = self.range(behind, len)?;
        let whole = self.memory.chunk(range.start);
        if whole.len() >= range.len() {
            return Ok(state.of(whole.get(..range.len()).unwrap_or_default()));
        }
        self.each(range, |chunk, _| state.update(chunk));
        Ok(state.finish())
    }
}
