//! Extent buffers: metadata blocks in borrowed memory (B1–B10).
//!
//! An [`ExtentBuffer`] is one metadata block at a logical address. Its bytes lie
//! in a [`BlockMemory`]: one slice ([`Contiguous`], whether the memory behind it
//! was allocated so or mapped side by side), or separate pages ([`Scattered`]).
//! Every operation does the same on both; on one slice it is the slice operation
//! plus a bounds check.

mod bits;
mod buffer;
mod checksum;
mod memory;
#[cfg(test)]
mod tests;

pub use buffer::{BufferError, BufferFlags, ExtentBuffer, ForSync, LittleEndian};
pub use checksum::{CSUM_BYTES, Checksum};
pub use memory::{BlockMemory, Contiguous, PageList, Scattered, ScatteredError};
