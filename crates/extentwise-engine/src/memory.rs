//! Where the bytes of folios are.

use alloc::vec::Vec;
use core::ops::Range;

/// The host has no memory for a folio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

impl core::fmt::Display for NoMemory {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the host has no memory for a folio")
    }
}

impl core::error::Error for NoMemory {}

/// The host's memory for folios.
///
/// The engine asks for memory and zeroes parts of it; it never reads it.
pub trait Memory {
    /// The bytes of one folio.
    type Bytes;

    /// `len` bytes, a power of two; what they hold is open.
    fn allocate(&mut self, len: usize) -> Result<Self::Bytes, NoMemory>;

    /// Zeroes a part; `range` lies inside.
    fn zero(&mut self, bytes: &mut Self::Bytes, range: Range<usize>);

    /// Takes memory back.
    fn release(&mut self, bytes: Self::Bytes) {
        drop(bytes);
    }
}

/// Memory of the global allocator.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeapMemory;

impl Memory for HeapMemory {
    type Bytes = Vec<u8>;

    fn allocate(&mut self, len: usize) -> Result<Vec<u8>, NoMemory> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|_| NoMemory)?;
        bytes.resize(len, 0);
        Ok(bytes)
    }

    fn zero(&mut self, bytes: &mut Vec<u8>, range: Range<usize>) {
        if let Some(part) = bytes.get_mut(range) {
            part.fill(0);
        }
    }
}
