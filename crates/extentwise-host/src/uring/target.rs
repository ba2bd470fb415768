//! Files that a ring reads and writes.

use std::fs::File;
use std::sync::Arc;

use extentwise_device::{Device, DeviceError, DiskByte};

use crate::disk::Disk;
use crate::{DirectDevice, FileDevice};

/// A device that is an open file, so that a ring can do its transfers.
pub trait RingFile: Device {
    /// Its file, and what that asks for.
    fn ring_target(&self) -> Result<RingTarget, DeviceError>;

    /// A transfer that began at `at`, or a flush, failed on the ring: for people,
    /// as an engine is told the class alone.
    fn ring_failed(&self, at: DiskByte, error: DeviceError) {
        let _ = (at, error);
    }
}

/// An open file, and what it asks of a transfer. It stays open as long as one is
/// under way.
#[derive(Clone, Debug)]
pub struct RingTarget {
    pub(super) file: Arc<File>,
    /// The unit of addresses and lengths.
    pub(super) block: usize,
    /// The alignment of memory.
    pub(super) memory_align: usize,
}

impl RingTarget {
    pub(super) fn of(disk: &Disk) -> Self {
        Self {
            file: Arc::clone(disk.file()),
            block: disk.block(),
            memory_align: disk.memory_align(),
        }
    }
}

impl RingFile for FileDevice {
    fn ring_target(&self) -> Result<RingTarget, DeviceError> {
        Ok(RingTarget::of(&self.disk))
    }
}

impl RingFile for DirectDevice {
    fn ring_target(&self) -> Result<RingTarget, DeviceError> {
        Ok(RingTarget::of(&self.disk))
    }
}
