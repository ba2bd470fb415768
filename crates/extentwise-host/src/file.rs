//! A file as a device.

use std::fs::{File, FileType, OpenOptions};
use std::io::{IoSlice, IoSliceMut};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use extentwise_device::{Device, DeviceError, DeviceGeometry, DiskByte, ErrorClass, LenBytes};
use rustix::fs::{FallocateFlags, FlockOperation, OFlags, SeekFrom};
use rustix::io::Errno;

use crate::errno::device_error;
use crate::open::{Access, FileOptions, Lock, Missing, OpenCause, OpenError};

/// Buffers that the operating system takes in one call (`IOV_MAX`).
const BUFFERS_MAX: usize = 1024;

/// Where every file ends at the latest: offsets of the operating system have 63
/// bits.
const END_MAX: u64 = i64::MAX as u64;

/// The unit of a file whose own is no power of two.
const PHYSICAL_BLOCK: u32 = 4096;

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
    file: File,
    geometry: DeviceGeometry,
}

impl FileDevice {
    /// Opens the file at `path`. The error names the path.
    pub fn open(path: impl AsRef<Path>, options: FileOptions) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let writes = options.access == Access::ReadWrite;
        let opened = OpenOptions::new()
            .read(true)
            .write(writes)
            .create(writes && options.missing == Missing::Create)
            // A pipe would keep the caller waiting for a peer, only to be refused.
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open(path);
        let device = opened
            .map_err(OpenError::from)
            .and_then(|file| Self::from_file(file, options.lock));
        device.map_err(|error| error.at(path))
    }

    /// A device of a file that is open.
    pub fn from_file(file: File, lock: Lock) -> Result<Self, OpenError> {
        let metadata = file.metadata()?;
        if let Some(kind) = kind_of_no_device(metadata.file_type()) {
            return Err(OpenCause::Kind(kind).into());
        }
        let flags = rustix::fs::fcntl_getfl(&file).map_err(std::io::Error::from)?;
        if flags.contains(OFlags::APPEND) {
            return Err(OpenCause::Append.into());
        }
        if flags.contains(OFlags::DIRECT) {
            return Err(OpenCause::Direct.into());
        }
        if lock == Lock::Exclusive {
            match retried(|| rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Err(OpenCause::InUse.into()),
                Err(errno) => return Err(std::io::Error::from(errno).into()),
            }
        }
        let physical = u32::try_from(metadata.blksize()).unwrap_or(PHYSICAL_BLOCK);
        let geometry = DeviceGeometry::new(1, physical)
            .or_else(|_| DeviceGeometry::new(1, PHYSICAL_BLOCK))
            .map_err(|_| OpenCause::Kind("file without a block size"))?;
        let geometry = if metadata.file_type().is_block_device() {
            let capacity = end(&file).map_err(std::io::Error::from)?;
            geometry.with_capacity(capacity)
        } else {
            geometry
        };
        Ok(Self { file, geometry })
    }

    /// Bytes of the file, as long as nobody changes it.
    pub fn len(&self) -> Result<LenBytes, DeviceError> {
        end(&self.file).map_err(device_error)
    }

    /// Whether the file has no byte.
    pub fn is_empty(&self) -> Result<bool, DeviceError> {
        self.len().map(LenBytes::is_zero)
    }

    /// Makes the file this long; what is new reads as zeros. Block devices keep
    /// their size.
    pub fn set_len(&self, len: LenBytes) -> Result<(), DeviceError> {
        if self.geometry.capacity().is_some() {
            return Err(DeviceError::UNSUPPORTED);
        }
        if len.get() > END_MAX {
            return Err(ErrorClass::TooLarge.into());
        }
        retried(|| rustix::fs::ftruncate(&self.file, len.get())).map_err(device_error)
    }

    /// The file inside, for good.
    #[must_use]
    pub fn into_file(self) -> File {
        self.file
    }

    /// Calls `fallocate`, which keeps the size. What the file system cannot do
    /// with this range (block devices: one that is not aligned) is unsupported,
    /// so that the caller writes zeros itself.
    fn allocate(&self, flags: FallocateFlags, at: u64, len: u64) -> Result<(), DeviceError> {
        let flags = flags | FallocateFlags::KEEP_SIZE;
        match retried(|| rustix::fs::fallocate(&self.file, flags, at, len)) {
            Ok(()) => Ok(()),
            Err(errno @ (Errno::INVAL | Errno::NODEV | Errno::SPIPE)) => Err(
                DeviceError::with_os_code(ErrorClass::Unsupported, errno.raw_os_error()),
            ),
            Err(errno) => Err(device_error(errno)),
        }
    }

    /// Refuses a range that no file has, or that passes the capacity.
    fn check_range(&self, at: DiskByte, len: LenBytes) -> Result<(), DeviceError> {
        let end = at.checked_add(len).filter(|end| end.get() <= END_MAX);
        let end = end.ok_or(ErrorClass::TooLarge)?;
        match self.geometry.capacity() {
            Some(capacity) if end.get() > capacity.get() => Err(ErrorClass::NoSpace.into()),
            _ => Ok(()),
        }
    }
}

impl Device for FileDevice {
    fn geometry(&self) -> DeviceGeometry {
        self.geometry
    }

    fn read(&self, at: DiskByte, buffers: &mut [&mut [u8]]) -> Result<LenBytes, DeviceError> {
        let mut room = room_behind(at);
        let mut slices = Vec::with_capacity(buffers.len().min(BUFFERS_MAX));
        for buffer in buffers.iter_mut().filter(|buffer| !buffer.is_empty()) {
            if slices.len() == BUFFERS_MAX || room == 0 {
                break;
            }
            let len = buffer.len().min(room);
            room -= len;
            slices.push(IoSliceMut::new(&mut buffer[..len]));
        }
        if slices.is_empty() {
            return Ok(LenBytes::ZERO);
        }
        let read = retried(|| rustix::io::preadv(&self.file, &mut slices, at.get()));
        moved(read)
    }

    fn write(&self, at: DiskByte, buffers: &[&[u8]]) -> Result<LenBytes, DeviceError> {
        let mut room = room_behind(at);
        let mut slices = Vec::with_capacity(buffers.len().min(BUFFERS_MAX));
        for buffer in buffers.iter().filter(|buffer| !buffer.is_empty()) {
            if room == 0 && slices.is_empty() {
                return Err(ErrorClass::TooLarge.into());
            }
            if slices.len() == BUFFERS_MAX || room == 0 {
                break;
            }
            let len = buffer.len().min(room);
            room -= len;
            slices.push(IoSlice::new(&buffer[..len]));
        }
        if slices.is_empty() {
            return Ok(LenBytes::ZERO);
        }
        moved(retried(|| {
            rustix::io::pwritev(&self.file, &slices, at.get())
        }))
    }

    fn flush(&self) -> Result<(), DeviceError> {
        // Not retried: what an error says about is forgotten by the second call.
        match rustix::fs::fdatasync(&self.file) {
            // Special files without storage.
            Err(Errno::INVAL) => Err(DeviceError::with_os_code(
                ErrorClass::Unsupported,
                Errno::INVAL.raw_os_error(),
            )),
            answer => answer.map_err(device_error),
        }
    }

    fn write_zeroes(&self, at: DiskByte, len: LenBytes) -> Result<(), DeviceError> {
        self.check_range(at, len)?;
        if len.is_zero() {
            return Ok(());
        }
        // The file system keeps the space if it can, else it gives it back.
        let zeroed = self.allocate(FallocateFlags::ZERO_RANGE, at.get(), len.get());
        match zeroed {
            Err(error) if error.class() == ErrorClass::Unsupported => {
                self.allocate(FallocateFlags::PUNCH_HOLE, at.get(), len.get())
            }
            answer => answer,
        }
    }

    fn discard(&self, at: DiskByte, len: LenBytes) -> Result<(), DeviceError> {
        self.check_range(at, len)?;
        if len.is_zero() {
            return Ok(());
        }
        self.allocate(FallocateFlags::PUNCH_HOLE, at.get(), len.get())
    }
}

/// What a file of this type is called, if it is no device.
fn kind_of_no_device(kind: FileType) -> Option<&'static str> {
    if kind.is_dir() {
        Some("directory")
    } else if kind.is_fifo() {
        Some("pipe")
    } else if kind.is_socket() {
        Some("socket")
    } else {
        None
    }
}

fn end(file: &File) -> Result<LenBytes, Errno> {
    let metadata = rustix::fs::fstat(file)?;
    match u64::try_from(metadata.st_size) {
        Ok(size) if size > 0 => Ok(LenBytes::new(size)),
        // The size of a block device is where its end is.
        _ => rustix::fs::seek(file, SeekFrom::End(0)).map(LenBytes::new),
    }
}

/// Bytes that a file can have from `at` on.
fn room_behind(at: DiskByte) -> usize {
    usize::try_from(END_MAX.saturating_sub(at.get())).unwrap_or(usize::MAX)
}

/// Calls again as long as a signal comes between.
fn retried<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            answer => return answer,
        }
    }
}

fn moved(answer: Result<usize, Errno>) -> Result<LenBytes, DeviceError> {
    let len = answer.map_err(device_error)?;
    Ok(LenBytes::new(len as u64))
}
