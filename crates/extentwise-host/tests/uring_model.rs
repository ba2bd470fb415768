//! Random operations against byte vectors, over real files, with many transfers
//! under way: answers come in any order. The cache is so tiny that eviction and
//! back-pressure are ordinary.

// Offsets and lengths stay far below 2^32.
#![allow(clippy::cast_possible_truncation)]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use extentwise_device::{DeviceError, DiskByte, ErrorClass};
use extentwise_engine::{
    BlockSize, Calls, Config, Engine, FileId, FileOffset, FileRange, HandleId, Host, Identity,
    LenBytes,
};
use extentwise_host::{
    DirectDevice, FileDevice, OpenCause, RingFile, RingMemory, UringDriver, UringError,
};

use support::{CREATE, has_rings, skipped};

/// Bytes of the whole cache.
const CACHE: u64 = 16 << 10;
const IDS: [FileId; 2] = [FileId(7), FileId(9)];

struct Files {
    folder: PathBuf,
    devices: BTreeMap<FileId, Box<dyn RingFile>>,
}

impl Files {
    fn path(folder: &Path, file: FileId) -> PathBuf {
        folder.join(file.0.to_string())
    }
}

impl Host<Identity> for Files {
    type Device = dyn RingFile;

    fn device(&self, file: FileId) -> Result<&Self::Device, DeviceError> {
        self.devices
            .get(&file)
            .map(|device| &**device)
            .ok_or(ErrorClass::Gone.into())
    }

    fn persist(&self, mapping: &mut Identity, file: FileId) -> Result<(), DeviceError> {
        if let Some(pending) = mapping.take_pending(file) {
            let device = self.device(file)?;
            for hole in &pending.punch {
                device.discard(DiskByte::new(hole.start().get()), hole.len())?;
            }
            let path = Self::path(&self.folder, file);
            let file = fs::File::options().write(true).open(path).unwrap();
            file.set_len(pending.size.get()).unwrap();
            device.flush()?;
        }
        Ok(())
    }
}

/// How the files are opened.
#[derive(Clone, Copy, Debug)]
enum Way {
    Buffered,
    Direct,
}

impl Way {
    fn open(self, path: &Path) -> Option<Box<dyn RingFile>> {
        match self {
            Self::Buffered => Some(Box::new(FileDevice::open(path, CREATE).unwrap())),
            Self::Direct => match DirectDevice::open(path, CREATE) {
                Ok(device) => Some(Box::new(device)),
                Err(error) if matches!(error.cause(), OpenCause::NoDirect) => {
                    skipped("direct I/O", &error.to_string());
                    None
                }
                Err(error) => panic!("{error}"),
            },
        }
    }
}

type Tiny = UringDriver<Identity, Files>;

/// A driver of two empty files, and the block that they ask for.
fn tiny(folder: &Path, way: Way, depth: u32) -> Option<(Tiny, [HandleId; 2], u64)> {
    let mut devices = BTreeMap::new();
    let mut mapping = Identity::new();
    let mut block = 512;
    for id in IDS {
        let device = way.open(&Files::path(folder, id))?;
        block = block.max(u64::from(device.geometry().logical_block()));
        devices.insert(id, device);
        mapping.add(id, FileOffset::ZERO);
    }
    let mut config = Config::new(BlockSize::new(block).unwrap())
        .with_cache_bytes(LenBytes::new(CACHE))
        .with_dirty_bytes(LenBytes::new(CACHE / 2));
    config.folio_bytes_max = LenBytes::new(4 * block);
    config.extent_bytes_max = LenBytes::new(2 * block);
    let engine = Engine::new(config, RingMemory::new(&config), mapping).unwrap();
    let files = Files {
        folder: folder.to_owned(),
        devices,
    };
    let mut driver = UringDriver::new(engine, files, depth).unwrap();
    let handles = IDS.map(|id| driver.engine_mut().open(id, FileOffset::ZERO).unwrap());
    Some((driver, handles, block))
}

fn numbers(mut seed: u64) -> impl FnMut(u64) -> u64 {
    seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move |limit| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % limit
    }
}

/// Names the first difference instead of printing all bytes.
fn same(found: &[u8], expected: &[u8], context: &str) {
    let mut both = found.iter().zip(expected);
    let differs = both.position(|(a, b)| a != b);
    assert_eq!(differs, None, "{context}: bytes differ");
    assert_eq!(found.len(), expected.len(), "{context}: lengths differ");
}

/// Plays one seed; answers how many transfers overtook another.
fn play(way: Way, seed: u64, depth: u32) -> Option<u64> {
    let folder = tempfile::tempdir().unwrap();
    let (mut driver, handles, block) = tiny(folder.path(), way, depth)?;
    let mut models: [Vec<u8>; 2] = [vec![], vec![]];
    let mut number = numbers(seed);
    for step in 0..200 {
        let at = number(2) as usize;
        let (handle, model) = (handles[at], &mut models[at]);
        let start = number(40 * block);
        let len = [1, 100, block - 1, block, block + 1, 4 * block, 10_000][number(7) as usize];
        let end = start + len;
        let context = format!("{way:?} depth {depth} seed {seed} step {step}");
        let range = FileRange::new(FileOffset::new(start), FileOffset::new(end)).unwrap();
        match number(12) {
            0..=4 => {
                let fill = number(255) as u8 + 1;
                let bytes = vec![fill; len as usize];
                driver
                    .write(handle, FileOffset::new(start), &bytes)
                    .expect(&context);
                let (start, end) = (start as usize, end as usize);
                model.resize(model.len().max(end), 0);
                model[start..end].fill(fill);
            }
            5 | 6 => {
                let mut bytes = vec![0xee; len as usize];
                let read = driver
                    .read(handle, FileOffset::new(start), &mut bytes)
                    .expect(&context);
                let end = (end as usize).min(model.len());
                let start = (start as usize).min(end);
                same(&bytes[..read], &model[start..end], &context);
            }
            7 => driver.sync(handle).expect(&context),
            8 => driver.sync_range(handle, range).expect(&context),
            9 => {
                driver
                    .resize(handle, FileOffset::new(start))
                    .expect(&context);
                model.resize(start as usize, 0);
            }
            10 => {
                driver.punch(handle, range).expect(&context);
                let end = (end as usize).min(model.len());
                let start = (start as usize).min(end);
                model[start..end].fill(0);
            }
            _ => {
                // Goes on behind what follows.
                driver.write_back_all();
                driver.engine_mut().drop_clean();
            }
        }
        driver.engine().check().expect(&context);
        assert!(driver.engine().cached_bytes().get() <= CACHE);
        let size = driver.engine().size(handle).unwrap();
        assert_eq!(size.get(), models[at].len() as u64, "{context}");
    }
    let context = format!("{way:?} depth {depth} seed {seed}");
    for (handle, model) in handles.into_iter().zip(&models) {
        driver.sync(handle).expect("syncs");
        let mut bytes = vec![0; model.len() + 10];
        driver.engine_mut().drop_clean();
        let read = driver.read(handle, FileOffset::ZERO, &mut bytes).unwrap();
        same(&bytes[..read], model, &context);
    }
    for (id, model) in IDS.into_iter().zip(&models) {
        let bytes = fs::read(Files::path(folder.path(), id)).unwrap();
        same(&bytes, model, &format!("{context}: the file"));
    }
    let concurrency = driver.concurrency();
    assert!(concurrency.under_way_max <= depth as usize);
    assert!(depth == 1 || concurrency.under_way_max > 1, "{context}");
    Some(concurrency.overtook)
}

#[test]
fn a_tiny_cache_over_a_ring_agrees_with_byte_vectors() {
    if !has_rings() {
        return;
    }
    for way in [Way::Buffered, Way::Direct] {
        let mut overtook = 0;
        for seed in 1..24 {
            let depth = [1, 2, 7, 64][seed as usize % 4];
            let Some(count) = play(way, seed, depth) else {
                break;
            };
            overtook += count;
        }
        println!("{way:?}: {overtook} transfers overtook another");
    }
}

#[test]
fn a_write_does_not_wait_for_the_device_and_dropping_the_driver_does() {
    if !has_rings() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let Some((mut driver, [handle, _], block)) = tiny(folder.path(), Way::Buffered, 64) else {
        return;
    };
    let bytes = vec![7; 4 * block as usize];
    driver.write(handle, FileOffset::ZERO, &bytes).unwrap();
    driver.write_back_all();
    drop(driver);
    let written = fs::read(Files::path(folder.path(), IDS[0])).unwrap();
    same(&written, &bytes, "what was under way");
}

#[test]
fn a_file_that_denies_writes_fails_the_sync_and_keeps_its_data() {
    if !has_rings() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let Some((driver, _, block)) = tiny(folder.path(), Way::Buffered, 4) else {
        return;
    };
    drop(driver);
    let path = Files::path(folder.path(), IDS[0]);
    let device: Box<dyn RingFile> = Box::new(FileDevice::open(path, support::READ).unwrap());
    let files = Files {
        folder: folder.path().to_owned(),
        devices: [(IDS[0], device)].into(),
    };
    let mut mapping = Identity::new();
    mapping.add(IDS[0], FileOffset::ZERO);
    let config = Config::new(BlockSize::new(block).unwrap());
    let engine = Engine::new(config, RingMemory::new(&config), mapping).unwrap();
    let mut driver = UringDriver::new(engine, files, 4).unwrap();
    let handle = driver.engine_mut().open(IDS[0], FileOffset::ZERO).unwrap();
    driver.write(handle, FileOffset::ZERO, b"abc").unwrap();
    let error = driver.sync(handle).unwrap_err();
    let denied = extentwise_engine::Refusal::Failed(ErrorClass::Denied);
    assert_eq!(error, denied);
    let mut read = [0; 4];
    assert_eq!(driver.read(handle, FileOffset::ZERO, &mut read), Ok(3));
    assert_eq!(&read, b"abc\0");
}

#[test]
fn a_depth_that_cannot_be_is_named() {
    let folder = tempfile::tempdir().unwrap();
    for depth in [0, UringError::DEPTH_MAX + 1, u32::MAX] {
        let config = Config::new(BlockSize::new(512).unwrap());
        let engine = Engine::new(config, RingMemory::new(&config), Identity::new()).unwrap();
        let files = Files {
            folder: folder.path().to_owned(),
            devices: BTreeMap::new(),
        };
        let error = UringDriver::new(engine, files, depth).err().unwrap();
        let text = error.to_string();
        assert_eq!(
            text,
            format!("io_uring depth {depth}: must be from 1 to 4096")
        );
    }
}
