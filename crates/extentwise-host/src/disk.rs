//! An open file, as every device of this crate has one.

use std::fs::{File, FileType, OpenOptions};
use std::io::{IoSlice, IoSliceMut};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use extentwise_device::{DeviceError, DeviceGeometry, DiskByte, ErrorClass, LenBytes};
use rustix::fs::{FallocateFlags, FlockOperation, OFlags, SeekFrom};
use rustix::io::Errno;

use crate::alignment::Alignment;
use crate::errno::device_error;
use crate::open::{Access, FileOptions, Lock, Missing, OpenCause, OpenError};
use crate::transfer::{Bounce, Pieces, PiecesMut};

/// Where every file ends at the latest: offsets of the operating system have 63
/// bits.
const END_MAX: u64 = i64::MAX as u64;

/// The unit of a file whose own is no power of two.
const PHYSICAL_BLOCK: u32 = 4096;

/// Whether the page cache of the operating system lies between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Buffered,
    Direct,
}

/// An open file or block device.
///
/// **Invariant**: the file is not open to append; it is open for direct I/O if
/// and only if the mode is direct. The logical block of the geometry, and the
/// alignment of memory, are what the file asks for: one byte in buffered mode.
#[derive(Debug)]
pub(crate) struct Disk {
    file: Arc<File>,
    geometry: DeviceGeometry,
    memory_align: usize,
    bounce: Bounce,
}

impl Disk {
    pub(crate) fn open(path: &Path, options: FileOptions, mode: Mode) -> Result<Self, OpenError> {
        let writes = options.access == Access::ReadWrite;
        let opened = OpenOptions::new()
            .read(true)
            .write(writes)
            .create(writes && options.missing == Missing::Create)
            // A pipe would keep the caller waiting for a peer, only to be refused.
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open(path);
        let disk = opened.map_err(OpenError::from).and_then(|file| {
            refuse_no_device(&file)?;
            // A ring would not wait for such a file.
            set_flags(&file, |flags| flags - OFlags::NONBLOCK)?;
            Self::from_file(file, options.lock, mode)
        });
        disk.map_err(|error| error.at(path))
    }

    pub(crate) fn from_file(file: File, lock: Lock, mode: Mode) -> Result<Self, OpenError> {
        refuse_no_device(&file)?;
        let flags = rustix::fs::fcntl_getfl(&file).map_err(std::io::Error::from)?;
        if flags.contains(OFlags::APPEND) {
            return Err(OpenCause::Append.into());
        }
        match mode {
            Mode::Buffered if flags.contains(OFlags::DIRECT) => {
                return Err(OpenCause::Direct.into());
            }
            Mode::Buffered => {}
            Mode::Direct => set_direct(&file)?,
        }
        if lock == Lock::Exclusive {
            match retried(|| rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Err(OpenCause::InUse.into()),
                Err(errno) => return Err(std::io::Error::from(errno).into()),
            }
        }
        let metadata = file.metadata()?;
        let alignment = match mode {
            Mode::Buffered => Alignment::NONE,
            Mode::Direct => Alignment::of(&file, metadata.file_type())?,
        };
        let logical = alignment.block;
        let own = u32::try_from(metadata.blksize()).unwrap_or(PHYSICAL_BLOCK);
        let physical = alignment.physical.unwrap_or(own).max(logical);
        let geometry = DeviceGeometry::new(logical, physical)
            .or_else(|_| DeviceGeometry::new(logical, PHYSICAL_BLOCK.max(logical)))
            .map_err(|_| OpenCause::Kind("file without a block size"))?;
        let geometry = if metadata.file_type().is_block_device() {
            let capacity = end(&file).map_err(std::io::Error::from)?;
            geometry.with_capacity(capacity)
        } else {
            geometry
        };
        Ok(Self {
            file: Arc::new(file),
            geometry,
            memory_align: alignment.memory,
            bounce: Bounce::default(),
        })
    }

    pub(crate) fn file(&self) -> &Arc<File> {
        &self.file
    }

    pub(crate) fn into_file(self) -> Arc<File> {
        self.file
    }

    pub(crate) fn geometry(&self) -> DeviceGeometry {
        self.geometry
    }

    /// The alignment of memory that is handed over as it is.
    pub(crate) fn memory_align(&self) -> usize {
        self.memory_align
    }

    pub(crate) fn len(&self) -> Result<LenBytes, DeviceError> {
        file_len(&self.file)
    }

    pub(crate) fn set_len(&self, len: LenBytes) -> Result<(), DeviceError> {
        if self.geometry.capacity().is_some() {
            return Err(DeviceError::UNSUPPORTED);
        }
        if len.get() > END_MAX {
            return Err(ErrorClass::TooLarge.into());
        }
        retried(|| rustix::fs::ftruncate(&*self.file, len.get())).map_err(device_error)
    }

    /// Reads by `call`, which is `preadv` in one way or another.
    pub(crate) fn read_by(
        &self,
        at: DiskByte,
        buffers: &mut [&mut [u8]],
        mut call: impl FnMut(&mut [IoSliceMut<'_>], u64) -> Result<usize, Errno>,
    ) -> Result<LenBytes, DeviceError> {
        let mut pieces = PiecesMut(buffers);
        let Some(room) = self.check(at, pieces.total())? else {
            return Ok(LenBytes::ZERO);
        };
        if room == 0 {
            return Ok(LenBytes::ZERO);
        }
        let mut call = |slices: &mut [IoSliceMut<'_>]| retried(|| call(slices, at.get()));
        let read = if pieces.are_aligned(self.memory_align, self.block()) {
            call(&mut pieces.slices(room))
        } else {
            let len = self.bounced(pieces.total().min(room));
            let mut bounce = self.bounce.get(len, self.memory_align)?;
            let part = bounce.bytes().get_mut(..len).unwrap_or_default();
            call(&mut [IoSliceMut::new(part)]).inspect(|read| {
                let from = bounce.bytes().get(..*read).unwrap_or_default();
                pieces.scatter(from);
            })
        };
        let read = read.map_err(device_error)?;
        let whole = self.whole_blocks_read(at, read)?;
        pieces.zero(read..whole);
        Ok(LenBytes::new(whole as u64))
    }

    /// Writes by `call`, which is `pwritev` in one way or another.
    pub(crate) fn write_by(
        &self,
        at: DiskByte,
        buffers: &[&[u8]],
        mut call: impl FnMut(&[IoSlice<'_>], u64) -> Result<usize, Errno>,
    ) -> Result<LenBytes, DeviceError> {
        let pieces = Pieces(buffers);
        let Some(room) = self.check(at, pieces.total())? else {
            return Ok(LenBytes::ZERO);
        };
        if room == 0 {
            return Err(ErrorClass::TooLarge.into());
        }
        let mut call = |slices: &[IoSlice<'_>]| retried(|| call(slices, at.get()));
        let written = if pieces.are_aligned(self.memory_align, self.block()) {
            call(&pieces.slices(room))
        } else {
            let len = self.bounced(pieces.total().min(room));
            let mut bounce = self.bounce.get(len, self.memory_align)?;
            let part = bounce.bytes().get_mut(..len).unwrap_or_default();
            pieces.gather(part);
            call(&[IoSlice::new(part)])
        };
        let written = written.map_err(device_error)?;
        // What a block was written in part is written again.
        Ok(LenBytes::new((written - written % self.block()) as u64))
    }

    pub(crate) fn flush(&self) -> Result<(), DeviceError> {
        // Not retried: what an error says about is forgotten by the second call.
        flushed(rustix::fs::fdatasync(&*self.file))
    }

    pub(crate) fn write_zeroes(&self, at: DiskByte, len: LenBytes) -> Result<(), DeviceError> {
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

    pub(crate) fn discard(&self, at: DiskByte, len: LenBytes) -> Result<(), DeviceError> {
        self.check_range(at, len)?;
        if len.is_zero() {
            return Ok(());
        }
        self.allocate(FallocateFlags::PUNCH_HOLE, at.get(), len.get())
    }

    /// The blocks that a read of `read` bytes at `at` makes known. A file may end
    /// within a block: the rest of it reads as zero, as all behind the end does.
    pub(crate) fn whole_blocks_read(
        &self,
        at: DiskByte,
        read: usize,
    ) -> Result<usize, DeviceError> {
        let part = read % self.block();
        if part == 0 {
            return Ok(read);
        }
        let end = at.get().saturating_add(read as u64);
        if self.len()?.get() <= end {
            // It lies in the buffers, whose length is one of whole blocks.
            return Ok(read.saturating_add(self.block() - part));
        }
        match read - part {
            0 => Err(ErrorClass::Io.into()),
            whole => Ok(whole),
        }
    }

    /// Refuses what is not aligned; answers how many bytes there may be behind
    /// `at`, in whole blocks, or nothing where nothing is asked.
    fn check(&self, at: DiskByte, len: usize) -> Result<Option<usize>, DeviceError> {
        if len == 0 {
            return Ok(None);
        }
        let block = self.block();
        if !at.get().is_multiple_of(block as u64) || !len.is_multiple_of(block) {
            return Err(ErrorClass::Denied.into());
        }
        let room = END_MAX.saturating_sub(at.get());
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        Ok(Some(room - room % block))
    }

    /// The front of a transfer of `len` bytes that one bounce takes.
    fn bounced(&self, len: usize) -> usize {
        // Both are powers of two: blocks stay whole.
        len.min(Bounce::LEN_MAX.max(self.block()))
    }

    /// Bytes of a logical block.
    pub(crate) fn block(&self) -> usize {
        self.geometry.logical_block() as usize
    }

    /// Calls `fallocate`, which keeps the size. What the file system cannot do
    /// with this range (block devices: one that is not aligned) is unsupported,
    /// so that the caller writes zeros itself.
    fn allocate(&self, flags: FallocateFlags, at: u64, len: u64) -> Result<(), DeviceError> {
        let flags = flags | FallocateFlags::KEEP_SIZE;
        match retried(|| rustix::fs::fallocate(&*self.file, flags, at, len)) {
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

/// Bytes of a file or a block device.
pub(crate) fn file_len(file: &File) -> Result<LenBytes, DeviceError> {
    end(file).map_err(device_error)
}

/// What the answer of `fdatasync` means.
pub(crate) fn flushed(answer: Result<(), Errno>) -> Result<(), DeviceError> {
    match answer {
        // Special files without storage.
        Err(Errno::INVAL) => Err(DeviceError::with_os_code(
            ErrorClass::Unsupported,
            Errno::INVAL.raw_os_error(),
        )),
        answer => answer.map_err(device_error),
    }
}

/// Calls again as long as a signal comes between.
pub(crate) fn retried<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            answer => return answer,
        }
    }
}

fn set_direct(file: &File) -> Result<(), OpenError> {
    set_flags(file, |flags| flags | OFlags::DIRECT).map_err(|error| match error.cause() {
        OpenCause::Os(os) if os.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
            OpenCause::NoDirect.into()
        }
        _ => error,
    })
}

fn set_flags(file: &File, change: impl FnOnce(OFlags) -> OFlags) -> Result<(), OpenError> {
    let flags = rustix::fs::fcntl_getfl(file).map_err(std::io::Error::from)?;
    rustix::fs::fcntl_setfl(file, change(flags)).map_err(std::io::Error::from)?;
    Ok(())
}

fn refuse_no_device(file: &File) -> Result<(), OpenError> {
    match kind_of_no_device(file.metadata()?.file_type()) {
        Some(kind) => Err(OpenCause::Kind(kind).into()),
        None => Ok(()),
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
