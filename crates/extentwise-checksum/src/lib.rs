//! The checksums of metadata blocks, ready for the core's extent buffers (B5).
//!
//! [`Algorithm`] is chosen at run time, by name or by the number that an image
//! stores; [`Crc32c`], [`Xxhash64`], [`Sha256`] and [`Blake2b`] are its parts,
//! for callers that know theirs. All of them fill a field of [`CSUM_BYTES`]
//! bytes, padded with zeroes.
//!
//! ```
//! use extentwise_checksum::Algorithm;
//! use extentwise_core::extent_buffer::{Contiguous, ExtentBuffer};
//!
//! let block = ExtentBuffer::zeroed(1 << 20, Contiguous::new([0; 4096]));
//! let csum = Algorithm::Crc32c.of(&block)?;
//! assert_eq!(csum[Algorithm::Crc32c.digest_bytes()..], [0; 28]);
//! # Ok::<(), extentwise_core::extent_buffer::BufferError>(())
//! ```
//!
//! With the feature `std`, crc32c uses the instructions of the machine; without
//! it, a table. The digests are the same.

#![no_std]
#![forbid(unsafe_code)]

mod algorithm;
mod crc32c;
mod hashes;

pub use algorithm::Algorithm;
pub use crc32c::Crc32c;
pub use extentwise_core::extent_buffer::{CSUM_BYTES, Checksum};
pub use hashes::{Blake2b, Sha256, Xxhash64};

/// A short digest in its field.
fn padded(digest: &[u8]) -> [u8; CSUM_BYTES] {
    let mut field = [0; CSUM_BYTES];
    for (to, from) in field.iter_mut().zip(digest) {
        *to = *from;
    }
    field
}
