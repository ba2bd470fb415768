//! What is asked of a device.

use extentwise_device::{DeviceError, DiskByte, LenBytes};

/// The calls of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallKind {
    /// [`Device::read`](extentwise_device::Device::read).
    Read,
    /// [`Device::write`](extentwise_device::Device::write).
    Write,
    /// [`Device::flush`](extentwise_device::Device::flush).
    Flush,
    /// [`Device::write_zeroes`](extentwise_device::Device::write_zeroes).
    WriteZeroes,
    /// [`Device::discard`](extentwise_device::Device::discard).
    Discard,
}

impl CallKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [
        Self::Read,
        Self::Write,
        Self::Flush,
        Self::WriteZeroes,
        Self::Discard,
    ];
}

/// A call and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    /// What was called.
    pub kind: CallKind,
    /// The address; zero for a flush.
    pub at: DiskByte,
    /// Bytes asked for; zero for a flush.
    pub len: LenBytes,
    /// Bytes moved, or why none were. Where the call answers no number, `len`.
    pub answer: Result<LenBytes, DeviceError>,
    /// A hash of the bytes moved, if the log was asked for it
    /// ([`Contents::Hashed`](super::Contents::Hashed)).
    pub content: Option<u64>,
}
