//! A file as a device, through the page cache.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use extentwise_device::{Device, DeviceError, DeviceGeometry, DiskByte, LenBytes};

use crate::disk::{Disk, Mode};
use crate::open::{FileOptions, Lock, OpenError};

/// A file or a block device, through the page cache of the operating system.
///
/// It takes any address and length; a file grows as it is written, a block
/// device has its capacity. A flush is `fdatasync`. Zeroes and discards are left
/// to the file system, and unsupported where it has none. Errors keep the
/// operating system's number.
///
/// **Invariant**: the file is open neither to append nor for direct I/O, so that
/// every address and every buffer is good.
#[derive(Debug)]
pub struct FileDevice {
    pub(crate) disk: Disk,
}

impl FileDevice {
    /// Opens the file at `path`. The error names the path.
    pub fn open(path: impl AsRef<Path>, options: FileOptions) -> Result<Self, OpenError> {
        let disk = Disk::open(path.as_ref(), options, Mode::Buffered)?;
        Ok(Self { disk })
    }

    /// A device of a file that is open.
    pub fn from_file(file: File, lock: Lock) -> Result<Self, OpenError> {
        let disk = Disk::from_file(file, lock, Mode::Buffered)?;
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

    /// Makes the file this long; what is new reads as zeros. Block devices keep
    /// their size.
    pub fn set_len(&self, len: LenBytes) -> Result<(), DeviceError> {
        self.disk.set_len(len)
    }

    /// The file inside, for good; others have it as long as they read or write
    /// it.
    #[must_use]
    pub fn into_file(self) -> Arc<File> {
        self.disk.into_file()
    }
}

impl Device for FileDevice {
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
