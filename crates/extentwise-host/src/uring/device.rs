//! A device that waits for each call.

use std::io::{IoSlice, IoSliceMut};
use std::sync::{Mutex, PoisonError};

use extentwise_device::{Device, DeviceError, DeviceGeometry, DiskByte, LenBytes};
use rustix::io::Errno;

use super::UringError;
use super::ring::{Call, Carrier, Piece, Ring};
use super::target::{RingFile, RingTarget};
use crate::disk::{Disk, flushed};
use crate::{DirectDevice, FileDevice};

/// A file or a block device whose transfers and flushes go through an `io_uring`,
/// one after the other: each call waits for its answer.
///
/// All else is as for the device that it is made from. For many calls under way,
/// there is [`UringDriver`](super::UringDriver).
pub struct UringDevice {
    disk: Disk,
    ring: Mutex<Ring>,
}

impl UringDevice {
    /// A device with a ring of its own, through the page cache.
    pub fn buffered(file: FileDevice) -> Result<Self, UringError> {
        Self::over(file.disk)
    }

    /// A device with a ring of its own, past the page cache.
    pub fn direct(file: DirectDevice) -> Result<Self, UringError> {
        Self::over(file.disk)
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

    fn over(disk: Disk) -> Result<Self, UringError> {
        Ok(Self {
            disk,
            ring: Mutex::new(Ring::new(1)?),
        })
    }

    fn read_once(&self, slices: &mut [IoSliceMut<'_>], at: u64) -> Result<usize, Errno> {
        let pieces: Vec<Piece> = slices
            .iter_mut()
            .map(|slice| Piece {
                start: slice.as_mut_ptr(),
                len: slice.len(),
            })
            .collect();
        let entry = Ring::entry(Call::Read, Carrier::Any, self.disk.file(), &pieces, at, 0);
        // SAFETY: the file is open as long as the device is borrowed; the pieces
        // are a local that nothing changes; they name what `slices` borrows,
        // alone and until after this call.
        let read = unsafe { self.ring().call(&entry) };
        match read {
            // A file that the kernel does not wait for.
            Err(Errno::AGAIN) => rustix::io::preadv(self.disk.file(), slices, at),
            answer => answer,
        }
    }

    fn write_once(&self, slices: &[IoSlice<'_>], at: u64) -> Result<usize, Errno> {
        let pieces: Vec<Piece> = slices
            .iter()
            .map(|slice| Piece {
                // The kernel only reads them.
                start: slice.as_ptr().cast_mut(),
                len: slice.len(),
            })
            .collect();
        let entry = Ring::entry(Call::Write, Carrier::Any, self.disk.file(), &pieces, at, 0);
        // SAFETY: the file is open as long as the device is borrowed; the pieces
        // are a local that nothing changes; they name what `slices` borrows until
        // after this call.
        let written = unsafe { self.ring().call(&entry) };
        match written {
            Err(Errno::AGAIN) => rustix::io::pwritev(self.disk.file(), slices, at),
            answer => answer,
        }
    }

    fn ring(&self) -> std::sync::MutexGuard<'_, Ring> {
        // No call is under way when the lock is free: a call waits for its end.
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Device for UringDevice {
    fn geometry(&self) -> DeviceGeometry {
        self.disk.geometry()
    }

    fn read(&self, at: DiskByte, buffers: &mut [&mut [u8]]) -> Result<LenBytes, DeviceError> {
        let call = |slices: &mut [IoSliceMut<'_>], at: u64| self.read_once(slices, at);
        self.disk.read_by(at, buffers, call)
    }

    fn write(&self, at: DiskByte, buffers: &[&[u8]]) -> Result<LenBytes, DeviceError> {
        let call = |slices: &[IoSlice<'_>], at: u64| self.write_once(slices, at);
        self.disk.write_by(at, buffers, call)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        let entry = Ring::entry(Call::Flush, Carrier::Any, self.disk.file(), &[], 0, 0);
        // SAFETY: the file is open as long as the device is borrowed; a flush
        // names no memory.
        let answer = unsafe { self.ring().call(&entry) };
        flushed(answer.map(|_| ()))
    }

    fn write_zeroes(&self, at: DiskByte, len: LenBytes) -> Result<(), DeviceError> {
        self.disk.write_zeroes(at, len)
    }

    fn discard(&self, at: DiskByte, len: LenBytes) -> Result<(), DeviceError> {
        self.disk.discard(at, len)
    }
}

impl RingFile for UringDevice {
    fn ring_target(&self) -> Result<RingTarget, DeviceError> {
        Ok(RingTarget::of(&self.disk))
    }
}
