//! The stores that a simulation runs over, behind one trait.

use extentwise_device::{Device, DeviceGeometry, DiskByte, ErrorClass, LenBytes, zero_exact};
use extentwise_engine::{ExtentKind, FileId, FileOffset, FileRange, Identity, Mapping};
use extentwise_thin::ThinStore;

use super::model::LEN;
use super::setup::Setup;
use super::watch::Watch;
use crate::device::{FaultDevice, FaultPlan, Image, MemoryDevice};

/// The files of a simulation.
pub(super) const FILES: usize = 2;

pub(super) type Disk = FaultDevice<Watch>;

/// Devices, and how a map is made durable on them.
pub(super) trait Store: Sized {
    type Map: Mapping;

    /// Empty files.
    fn new(setup: &Setup) -> (Self, Self::Map);

    /// The devices; file `n` lies on the last one that there is up to `n`.
    fn disks(&self) -> &[Disk];

    /// Makes the map of a file durable.
    fn persist(&self, map: &mut Self::Map, file: FileId) -> Result<(), ErrorClass>;

    /// The files that are found on the image of a disk, with their sizes and all
    /// bytes up to [`LEN`].
    fn survivors(&self, disk: usize, image: Image, size: u64) -> Result<Vec<Survivor>, String>;

    /// Whether the map is sound by itself.
    fn check_map(map: &Self::Map) -> Result<(), String>;

    fn disk_of(&self, file: usize) -> &Disk {
        let disks = self.disks();
        &disks[file.min(disks.len() - 1)]
    }
}

/// A file after a crash.
pub(super) struct Survivor {
    pub(super) file: usize,
    pub(super) size: u64,
    pub(super) bytes: Vec<u8>,
}

/// Each file on a device of its own, which has a length.
pub(super) struct Flat {
    disks: Vec<Disk>,
}

impl Store for Flat {
    type Map = Identity;

    fn new(setup: &Setup) -> (Self, Identity) {
        let block = u32::try_from(setup.block_bytes).unwrap_or(u32::MAX);
        let geometry = DeviceGeometry::new(block, block).expect("a power of two");
        let mut map = Identity::new();
        let mut disks = Vec::new();
        for file in 0..FILES {
            map.add(FileId(file as u64), FileOffset::ZERO);
            let watch = Watch::new(geometry, Image::new());
            disks.push(FaultDevice::new(watch, FaultPlan::new()));
        }
        (Self { disks }, map)
    }

    fn disks(&self) -> &[Disk] {
        &self.disks
    }

    fn persist(&self, map: &mut Identity, file: FileId) -> Result<(), ErrorClass> {
        let Some(pending) = map.take_pending(file) else {
            return Ok(());
        };
        let disk = self.disk_of(index(file));
        // Where a truncate cut a block, a sector may be zeroed in part.
        let mut sector = vec![0; disk.geometry().logical_block() as usize];
        let mut carry_out = || {
            for hole in &pending.punch {
                let at = DiskByte::new(hole.start().get());
                zero_exact(disk, at, hole.len(), &mut sector)?;
            }
            disk.inner().set_size(pending.size.get());
            disk.flush()
        };
        carry_out().map_err(|error| {
            map.put_back(file, &pending);
            error.class()
        })
    }

    fn survivors(&self, disk: usize, image: Image, size: u64) -> Result<Vec<Survivor>, String> {
        Ok(vec![Survivor {
            file: disk,
            size,
            bytes: image.bytes(DiskByte::ZERO, LEN),
        }])
    }

    fn check_map(_: &Identity) -> Result<(), String> {
        Ok(())
    }
}

/// All files in one thin store.
pub(super) struct Thin {
    disk: [Disk; 1],
    geometry: DeviceGeometry,
}

impl Thin {
    /// The file that takes space away.
    const FILLER: FileId = FileId(u64::MAX);

    /// A store whose files are empty, as a map and as an image.
    fn template(setup: &Setup) -> (ThinStore, Image, DeviceGeometry) {
        let block = u32::try_from(setup.block_bytes).unwrap_or(u32::MAX);
        // The second superblock lies at 64 KiB.
        let capacity = LenBytes::new((1 << 16) + 4 * setup.block_bytes);
        let geometry = DeviceGeometry::new(block, block).expect("a power of two");
        let geometry = geometry.with_capacity(capacity);
        let device = MemoryDevice::new(geometry);
        let mut store = ThinStore::format(&device, setup.block_size()).expect("it is large enough");
        for file in 0..FILES {
            store.create(FileId(file as u64)).expect("there is room");
        }
        store.create(Self::FILLER).expect("there is room");
        let filled = store.usage().free.saturating_sub(setup.free_blocks);
        let filled = FileRange::clamped(
            FileOffset::ZERO,
            FileOffset::new(filled * setup.block_bytes),
        );
        store
            .preallocate(Self::FILLER, filled)
            .expect("some is left");
        store.persist(&device).expect("memory does not fail");
        (store, device.snapshot(), geometry)
    }
}

thread_local! {
    /// Templates are made once: formatting costs more than a simulation.
    static TEMPLATES: std::cell::RefCell<Vec<Template>> = const { std::cell::RefCell::new(Vec::new()) };
}

struct Template {
    block_bytes: u64,
    free_blocks: u64,
    made: (ThinStore, Image, DeviceGeometry),
}

impl Store for Thin {
    type Map = ThinStore;

    fn new(setup: &Setup) -> (Self, ThinStore) {
        let (map, image, geometry) = TEMPLATES.with_borrow_mut(|templates| {
            let known = templates.iter().find(|template| {
                template.block_bytes == setup.block_bytes
                    && template.free_blocks == setup.free_blocks
            });
            if let Some(template) = known {
                return template.made.clone();
            }
            let made = Self::template(setup);
            templates.push(Template {
                block_bytes: setup.block_bytes,
                free_blocks: setup.free_blocks,
                made: made.clone(),
            });
            made
        });
        let watch = Watch::new(geometry, image);
        let disk = [FaultDevice::new(watch, FaultPlan::new())];
        (Self { disk, geometry }, map)
    }

    fn disks(&self) -> &[Disk] {
        &self.disk
    }

    fn persist(&self, map: &mut ThinStore, _: FileId) -> Result<(), ErrorClass> {
        map.persist(&self.disk[0]).map_err(|error| error.class())
    }

    fn survivors(&self, _: usize, image: Image, _: u64) -> Result<Vec<Survivor>, String> {
        let device = MemoryDevice::from_image(self.geometry, image);
        let opened = ThinStore::open(&device);
        let mut store = opened.map_err(|error| format!("the store does not open: {error}"))?;
        store.check().map_err(|error| format!("the map: {error}"))?;
        let image = device.snapshot();
        let mut found = Vec::new();
        for file in 0..FILES {
            let id = FileId(file as u64);
            let size = store.size(id).ok_or(format!("{id} is gone"))?.get();
            let mut bytes = vec![0; LEN];
            let mut at = 0;
            while at < LEN {
                let start = FileOffset::new(at as u64);
                let asked = FileRange::clamped(start, FileOffset::new(LEN as u64));
                let extent = store
                    .map(id, asked)
                    .map_err(|class| format!("{id}: {class}"))?;
                let end = usize::try_from(extent.range.end().get())
                    .unwrap_or(LEN)
                    .min(LEN);
                if let ExtentKind::Data(disk) = extent.kind {
                    let into = start.distance_from(extent.range.start()).get();
                    image.read(DiskByte::new(disk.get() + into), &mut bytes[at..end]);
                }
                at = end;
            }
            found.push(Survivor { file, size, bytes });
        }
        Ok(found)
    }

    fn check_map(map: &ThinStore) -> Result<(), String> {
        map.check().map_err(|error| format!("the map: {error}"))
    }
}

pub(super) fn index(file: FileId) -> usize {
    usize::try_from(file.0).unwrap_or(usize::MAX)
}
