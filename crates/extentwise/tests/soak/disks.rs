//! Files on devices of memory that fail as planned.

use std::sync::Mutex;

use extentwise::device::{Device, DeviceError, DeviceGeometry, DiskByte};
use extentwise::{ErrorClass, FileId, FileRange, Host, Identity, LenBytes, Loss};
use extentwise_testkit::device::{FaultDevice, FaultPlan, MemoryDevice};

pub(crate) type Disk = FaultDevice<MemoryDevice>;

/// Where every file ends at the latest.
pub(crate) const FILE_LEN_MAX: usize = 160 << 10;

/// A disk for each file.
pub(crate) struct Disks {
    pub(crate) disks: Vec<Disk>,
    lost: Mutex<Vec<(FileId, FileRange)>>,
}

impl Disks {
    pub(crate) fn new(count: usize) -> Self {
        let disk = || {
            let memory = MemoryDevice::new(DeviceGeometry::new(1, 512).expect("powers of two"));
            FaultDevice::new(memory, FaultPlan::new())
        };
        Self {
            disks: (0..count).map(|_| disk()).collect(),
            lost: Mutex::default(),
        }
    }

    /// Whether the data of a byte was told as lost.
    pub(crate) fn is_lost(&self, file: usize, at: usize) -> bool {
        let lost = self.lost.lock().expect("no test panicked");
        lost.iter().any(|(id, range)| {
            id.0 == file as u64 && (range.start().get()..range.end().get()).contains(&(at as u64))
        })
    }

    pub(crate) fn has_lost(&self) -> bool {
        !self.lost.lock().expect("no test panicked").is_empty()
    }
}

impl Host<Identity> for Disks {
    type Device = Disk;

    fn device(&self, file: FileId) -> Result<&Disk, DeviceError> {
        let disk = self.disks.get(file.0 as usize);
        disk.ok_or(ErrorClass::Gone.into())
    }

    fn persist(&self, mapping: &mut Identity, file: FileId) -> Result<(), DeviceError> {
        let disk = self.device(file)?;
        let Some(pending) = mapping.take_pending(file) else {
            return Ok(());
        };
        let zero =
            |start: u64, len: u64| disk.write_zeroes(DiskByte::new(start), LenBytes::new(len));
        let mut holes = pending.punch.iter();
        let size = pending.size.get();
        let done = holes
            .try_for_each(|hole| zero(hole.start().get(), hole.len().get()))
            .and_then(|()| zero(size, (2 * FILE_LEN_MAX as u64).saturating_sub(size)))
            .and_then(|()| disk.flush());
        if done.is_err() {
            mapping.put_back(file, &pending);
        }
        done
    }

    fn lost(&self, file: FileId, range: FileRange, _: Loss) {
        self.lost
            .lock()
            .expect("no test panicked")
            .push((file, range));
    }
}
