//! Files on devices of their own, which tests make fail.

use std::collections::BTreeMap;
use std::sync::Mutex;

use extentwise::device::{Device, DeviceError, DiskByte};
use extentwise::{
    Config, ErrorClass, FileId, FileOffset, FileRange, Host, Identity, Loss, PageCache, Setup,
};
use extentwise_testkit::device::{FaultDevice, FaultPlan};

pub(crate) struct Files<D> {
    pub(crate) disks: BTreeMap<FileId, FaultDevice<D>>,
    /// What was told to be lost.
    pub(crate) lost: Mutex<Vec<FileRange>>,
}

impl<D: Device> Host<Identity> for Files<D> {
    type Device = FaultDevice<D>;

    fn device(&self, file: FileId) -> Result<&FaultDevice<D>, DeviceError> {
        self.disks.get(&file).ok_or(ErrorClass::Gone.into())
    }

    fn persist(&self, mapping: &mut Identity, file: FileId) -> Result<(), DeviceError> {
        let disk = self.device(file)?;
        let Some(pending) = mapping.take_pending(file) else {
            return Ok(());
        };
        let zeroed = pending
            .punch
            .iter()
            .try_for_each(|hole| disk.write_zeroes(DiskByte::new(hole.start().get()), hole.len()));
        zeroed.and_then(|()| disk.flush())
    }

    fn lost(&self, _: FileId, range: FileRange, _: Loss) {
        self.lost.lock().unwrap().push(range);
    }
}

/// A cache over so many empty files.
pub(crate) fn cache<D: Device + Send + Sync>(
    config: Config,
    files: u64,
    device: impl Fn() -> D,
) -> PageCache<Identity, Files<D>> {
    let ids = (0..files).map(FileId);
    let mut mapping = Identity::new();
    ids.clone().for_each(|id| mapping.add(id, FileOffset::ZERO));
    let disk = || FaultDevice::new(device(), FaultPlan::new());
    let files = Files {
        disks: ids.map(|id| (id, disk())).collect(),
        lost: Mutex::default(),
    };
    PageCache::new(Setup::new(config), mapping, files).unwrap()
}
