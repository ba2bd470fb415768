//! A cache over devices that forget what was not flushed.

use std::sync::{Arc, Mutex};

use extentwise::device::{Device, DeviceError, DeviceGeometry, DiskByte};
use extentwise::{
    BlockSize, Config, ErrorClass, FileId, FileOffset, FileRange, Host, Identity, LenBytes, Loss,
    Mistake, PageCache, Setup, make,
};
use extentwise_testkit::device::{
    CallKind, Fault, FaultDevice, FaultPlan, FaultRule, VolatileDevice, When,
};

pub(crate) type File = extentwise::File<Identity, Files>;

pub(crate) const BLOCK: u64 = 512;
pub(crate) const FOLIO: u64 = 4096;

/// The files of a scene, a device for each.
#[derive(Debug)]
pub(crate) struct Files {
    disks: [FaultDevice<VolatileDevice>; 2],
    lost: Arc<Mutex<Vec<FileRange>>>,
}

impl Host<Identity> for Files {
    type Device = FaultDevice<VolatileDevice>;

    fn device(&self, file: FileId) -> Result<&Self::Device, DeviceError> {
        // A device takes its time.
        shuttle::thread::yield_now();
        let disk = usize::try_from(file.0)
            .ok()
            .and_then(|nth| self.disks.get(nth));
        disk.ok_or(ErrorClass::Gone.into())
    }

    fn persist(&self, mapping: &mut Identity, file: FileId) -> Result<(), DeviceError> {
        let disk = self.device(file)?;
        let holes = mapping.take_pending(file).map(|pending| pending.punch);
        for hole in holes.unwrap_or_default() {
            disk.write_zeroes(DiskByte::new(hole.start().get()), hole.len())?;
        }
        disk.flush()
    }

    fn lost(&self, _: FileId, range: FileRange, _: Loss) {
        self.lost.lock().unwrap().push(range);
    }
}

/// Blocks of 512 bytes in folios of 4 KiB, all of which can be lent.
pub(crate) fn config() -> Config {
    sized(256, 128)
}

/// The same with a cache of so many KiB, of which so many may be dirty.
pub(crate) fn sized(cache: u64, dirty: u64) -> Config {
    let mut config = Config::new(BlockSize::new(BLOCK).unwrap())
        .with_cache_bytes(LenBytes::new(cache << 10))
        .with_dirty_bytes(LenBytes::new(dirty << 10));
    config.folio_bytes_max = LenBytes::new(FOLIO);
    config
}

/// Made when a file was filled: it is for the scene to notice, not for what comes
/// before.
static MISTAKE: Mutex<Mistake> = Mutex::new(Mistake::None);

pub(crate) fn mistake_once_filled(mistake: Mistake) {
    *MISTAKE.lock().unwrap() = mistake;
}

pub(crate) struct Stage {
    pub(crate) cache: PageCache<Identity, Files>,
    pub(crate) lost: Arc<Mutex<Vec<FileRange>>>,
}

impl Stage {
    pub(crate) fn new(config: Config) -> Self {
        make(Mistake::None);
        let mut mapping = Identity::new();
        (0..2).for_each(|id| mapping.add(FileId(id), FileOffset::ZERO));
        let disk = || {
            let volatile = VolatileDevice::new(DeviceGeometry::new(1, 512).unwrap());
            FaultDevice::new(volatile, FaultPlan::new())
        };
        let lost = Arc::new(Mutex::default());
        let files = Files {
            disks: [disk(), disk()],
            lost: lost.clone(),
        };
        let cache = PageCache::new(Setup::new(config), mapping, files).unwrap();
        Self { cache, lost }
    }

    pub(crate) fn open(&self) -> File {
        self.cache.open(FileId(0), FileOffset::ZERO).unwrap()
    }

    /// A file of so many bytes, each 1, clean and cached if there is room.
    pub(crate) fn filled(&self, len: u64) -> File {
        let file = self.open();
        file.write_at(0, &vec![1; usize::try_from(len).unwrap()])
            .unwrap();
        file.sync().unwrap();
        make(*MISTAKE.lock().unwrap());
        file
    }

    fn disk(&self) -> &FaultDevice<VolatileDevice> {
        &self.cache.host().disks[0]
    }

    /// What a crash leaves.
    pub(crate) fn durable(&self, start: u64, len: usize) -> Vec<u8> {
        let image = self.disk().inner().durable();
        image.bytes(DiskByte::new(start), len)
    }

    pub(crate) fn refuse_writes(&self) {
        let rule = FaultRule::new(When::From(0), Fault::Error(ErrorClass::Io));
        let plan = FaultPlan::new().with(rule.on(CallKind::Write));
        self.disk().set_plan(plan);
    }

    pub(crate) fn heal(&self) {
        self.disk().set_plan(FaultPlan::new());
    }
}

pub(crate) fn read(file: &File, start: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let read = file.read_at(start, &mut bytes).unwrap();
    bytes.truncate(read);
    bytes
}
