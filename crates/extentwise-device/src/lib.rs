//! What the write path asks of a device, and nothing else (C7).
//!
//! A [`Device`] takes positioned, vectored reads and writes with 64-bit
//! addresses, and a flush that makes durable. It may take less than it is given:
//! [`read_exact`] and [`write_all`] carry on, in this one place, so that neither
//! devices nor their users do. What a device cannot do it refuses as
//! unsupported; it never guesses.
//!
//! Code that is written for `embedded-io` or `block-device-driver` takes devices
//! by `DeviceStream` and `DeviceBlocks`, behind features of those names.
//!
//! The testkit holds every device to one conformance suite.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(feature = "block-device-driver")]
mod blocks;
mod error;
mod geometry;
#[cfg(feature = "embedded-io")]
mod stream;
mod whole;
mod zeros;

#[cfg(feature = "block-device-driver")]
pub use blocks::DeviceBlocks;
pub use error::DeviceError;
pub use extentwise_core::errseq::ErrorClass;
pub use extentwise_core::geometry::{DiskByte, LenBytes};
pub use geometry::{DeviceGeometry, DeviceGeometryError, WriteCache};
#[cfg(feature = "embedded-io")]
pub use stream::{DeviceStream, StreamError};
pub use whole::{Transferred, read_exact, write_all};
pub use zeros::zero_exact;

/// A device of bytes.
///
/// Calls take `&self`: threads that submit share a device. Addresses, lengths
/// and buffer lengths are multiples of the logical block size
/// ([`DeviceGeometry::logical_block`]); a device may refuse others as
/// [`Denied`](ErrorClass::Denied), and one with a logical block of one byte has
/// no others.
///
/// **Invariant**: a call that answers an error may have changed any of the bytes
/// it named and no others. A read answers what the last successful write left,
/// also before a flush.
pub trait Device {
    /// Sizes and limits; they stay the same as long as the device is open.
    fn geometry(&self) -> DeviceGeometry;

    /// Fills `buffers`, one behind the other, from `at` on; answers how many
    /// bytes were read, which may be fewer than asked. Zero, with room in the
    /// buffers, means that `at` is at or past the end.
    fn read(&self, at: DiskByte, buffers: &mut [&mut [u8]]) -> Result<LenBytes, DeviceError>;

    /// Writes `buffers`, one behind the other, from `at` on; answers how many
    /// bytes were taken, which may be fewer than given.
    fn write(&self, at: DiskByte, buffers: &[&[u8]]) -> Result<LenBytes, DeviceError>;

    /// Makes durable every write that was answered before this call (C7).
    fn flush(&self) -> Result<(), DeviceError>;

    /// Makes `len` bytes from `at` on read as zero; all of them, or an error.
    fn write_zeroes(&self, at: DiskByte, len: LenBytes) -> Result<(), DeviceError> {
        let _ = (at, len);
        Err(DeviceError::UNSUPPORTED)
    }

    /// Says that nobody needs these bytes any more; what they read as is open.
    fn discard(&self, at: DiskByte, len: LenBytes) -> Result<(), DeviceError> {
        let _ = (at, len);
        Err(DeviceError::UNSUPPORTED)
    }
}

impl<D: Device + ?Sized> Device for &D {
    fn geometry(&self) -> DeviceGeometry {
        (**self).geometry()
    }

    fn read(&self, at: DiskByte, buffers: &mut [&mut [u8]]) -> Result<LenBytes, DeviceError> {
        (**self).read(at, buffers)
    }

    fn write(&self, at: DiskByte, buffers: &[&[u8]]) -> Result<LenBytes, DeviceError> {
        (**self).write(at, buffers)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        (**self).flush()
    }

    fn write_zeroes(&self, at: DiskByte, len: LenBytes) -> Result<(), DeviceError> {
        (**self).write_zeroes(at, len)
    }

    fn discard(&self, at: DiskByte, len: LenBytes) -> Result<(), DeviceError> {
        (**self).discard(at, len)
    }
}
