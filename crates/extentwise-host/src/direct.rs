//! A file as a device, past the page cache.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use extentwise_device::{Device, DeviceError, DeviceGeometry, DiskByte, LenBytes};

use crate::disk::{Disk, Mode};
use crate::open::{FileOptions, Lock, OpenError};

/// A file or a block device, past the page cache of the operating system
/// (`O_DIRECT`).
///
/// Addresses and lengths are multiples of the logical block, which is what the
/// file asks for (C9): its file system, its block device or a read that is
/// tried says so; others are refused as
/// [`Denied`](extentwise_device::ErrorClass::Denied). Buffers may lie anywhere:
/// those that are aligned in memory ([`memory_align`](Self::memory_align)) go as
/// they are, others through aligned memory, a part at a time.
///
/// A file may end within a block: the rest of it reads as zero. A write of its
/// last block makes it end behind that block; [`set_len`](Self::set_len) trims
/// it. All else is as for [`FileDevice`](crate::FileDevice).
#[derive(Debug)]
pub struct DirectDevice {
    pub(crate) disk: Disk,
}

impl DirectDevice {
    /// Opens the file at `path`. The error names the path.
    pub fn open(path: impl AsRef<Path>, options: FileOptions) -> Result<Self, OpenError> {
        let disk = Disk::open(path.as_ref(), options, Mode::Direct)?;
        Ok(Self { disk })
    }

    /// A device of a file that is open to read, at least; whoever shares the
    /// open file has direct I/O from now on as well.
    pub fn from_file(file: File, lock: Lock) -> Result<Self, OpenError> {
        let disk = Disk::from_file(file, lock, Mode::Direct)?;
        Ok(Self { disk })
    }

    /// Bytes of the file, as long as nobody changes it.
    pub fn len(&self) -> Result<LenBytes, DeviceError> {
        self.disk.len()
    }

    /// Whether the file has no byte.
    pub fn is_empty(&self) -> Result<bool, DeviceError> {
        self.len().map(LenBytes::is_zero)
    }

    /// Makes the file this long, in bytes; what is new reads as zeros. Block
    /// devices keep their size.
    pub fn set_len(&self, len: LenBytes) -> Result<(), DeviceError> {
        self.disk.set_len(len)
    }

    /// The alignment of buffers that go without a copy; a power of two.
    #[must_use]
    pub fn memory_align(&self) -> usize {
        self.disk.memory_align()
    }

    /// The file inside, for good; others have it as long as they read or write
    /// it.
    #[must_use]
    pub fn into_file(self) -> Arc<File> {
        self.disk.into_file()
    }
}

impl Device for DirectDevice {
    fn geometry(&self) -> DeviceGeometry {
        self.disk.geometry()
    }

    fn read(&self, at: DiskByte, buffers: &mut [&mut [u8]]) -> Result<LenBytes, DeviceError> {
        let file = self.disk.file();
        self.disk.read_by(at, buffers, |slices, at| {
            rustix::io::preadv(file, slices, at)
        })
    }

    fn write(&self, at: DiskByte, buffers: &[&[u8]]) -> Result<LenBytes, DeviceError> {
        let file = self.disk.file();
        self.disk.write_by(at, buffers, |slices, at| {
            rustix::io::pwritev(file, slices, at)
        })
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.disk.flush()
    }

    fn write_zeroes(&self, at: DiskByte, len: LenBytes) -> Result<(), DeviceError> {
        self.disk.write_zeroes(at, len)
    }

    fn discard(&self, at: DiskByte, len: LenBytes) -> Result<(), DeviceError> {
        self.disk.discard(at, len)
    }
}
