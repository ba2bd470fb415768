//! Random operations against byte vectors, in a geometry so tiny that eviction
//! and back-pressure are ordinary.

// Offsets and lengths stay far below 2^32.
#![allow(clippy::cast_possible_truncation)]

use std::cell::RefCell;
use std::collections::BTreeMap;

use extentwise_device::{Device, DeviceError, DeviceGeometry};
use extentwise_engine::{
    BlockSize, Calls, Config, DiskByte, Driver, Engine, ErrorClass, ErrorPolicy, FileId,
    FileOffset, FileRange, HandleId, HeapMemory, Host, Identity, LenBytes, Refusal,
};

#[derive(Default)]
struct Flat(RefCell<Vec<u8>>);

impl Device for Flat {
    fn geometry(&self) -> DeviceGeometry {
        DeviceGeometry::new(1, 1).unwrap()
    }
    fn read(&self, at: DiskByte, buffers: &mut [&mut [u8]]) -> Result<LenBytes, DeviceError> {
        let bytes = self.0.borrow();
        let start = usize::try_from(at.get()).unwrap().min(bytes.len());
        let len = buffers[0].len().min(bytes.len() - start);
        buffers[0][..len].copy_from_slice(&bytes[start..start + len]);
        Ok(LenBytes::new(len as u64))
    }
    fn write(&self, at: DiskByte, buffers: &[&[u8]]) -> Result<LenBytes, DeviceError> {
        let mut bytes = self.0.borrow_mut();
        let all = buffers.concat();
        let start = usize::try_from(at.get()).unwrap();
        if bytes.len() < start + all.len() {
            bytes.resize(start + all.len(), 0);
        }
        bytes[start..start + all.len()].copy_from_slice(&all);
        Ok(LenBytes::new(all.len() as u64))
    }
    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }
}

struct Files(BTreeMap<FileId, Flat>);

impl Host<Identity> for Files {
    type Device = Flat;
    fn device(&self, file: FileId) -> Result<&Flat, DeviceError> {
        self.0.get(&file).ok_or(ErrorClass::Gone.into())
    }
    fn persist(&self, mapping: &mut Identity, file: FileId) -> Result<(), DeviceError> {
        if let Some(pending) = mapping.take_pending(file) {
            let mut bytes = self.device(file)?.0.borrow_mut();
            for hole in &pending.punch {
                let end = usize::try_from(hole.end().get()).unwrap().min(bytes.len());
                let start = usize::try_from(hole.start().get()).unwrap().min(end);
                bytes[start..end].fill(0);
            }
            bytes.resize(usize::try_from(pending.size.get()).unwrap(), 0);
        }
        Ok(())
    }
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

type Tiny = Driver<HeapMemory, Identity, Files>;

fn tiny(policy: ErrorPolicy) -> (Tiny, [HandleId; 2]) {
    let mut config = Config::new(BlockSize::new(512).unwrap())
        .with_cache_bytes(LenBytes::new(8192))
        .with_dirty_bytes(LenBytes::new(4096));
    config.folio_bytes_max = LenBytes::new(2048);
    config.policy = policy;
    let mut mapping = Identity::new();
    let ids = [FileId(7), FileId(9)];
    for id in ids {
        mapping.add(id, FileOffset::ZERO);
    }
    let engine = Engine::new(config, HeapMemory, mapping).unwrap();
    let files = Files(ids.into_iter().map(|id| (id, Flat::default())).collect());
    let mut driver = Driver::new(engine, files);
    let handles = ids.map(|id| driver.engine_mut().open(id, FileOffset::ZERO).unwrap());
    (driver, handles)
}

fn range(start: u64, end: u64) -> FileRange {
    FileRange::new(FileOffset::new(start), FileOffset::new(end)).unwrap()
}

/// Names the first difference instead of printing all bytes.
fn same(found: &[u8], expected: &[u8], context: &str) {
    let mut both = found.iter().zip(expected);
    assert_eq!(
        both.position(|(a, b)| a != b),
        None,
        "{context}: bytes differ"
    );
    assert_eq!(found.len(), expected.len(), "{context}: lengths differ");
}

#[test]
fn a_tiny_cache_agrees_with_byte_vectors() {
    for seed in 1..400 {
        let (mut driver, handles) = tiny(ErrorPolicy::KeepDirty);
        let mut models: [Vec<u8>; 2] = [vec![], vec![]];
        let mut number = numbers(seed);
        for step in 0..200 {
            let at = number(2) as usize;
            let (handle, model) = (handles[at], &mut models[at]);
            let start = number(12_000);
            let len = [1, 100, 511, 512, 513, 2048, 3000, 5000][number(8) as usize];
            let context = format!("seed {seed} step {step}");
            match number(10) {
                0..=3 => {
                    let fill = number(255) as u8 + 1;
                    driver
                        .write(handle, FileOffset::new(start), &vec![fill; len])
                        .expect(&context);
                    let (start, end) = (start as usize, start as usize + len);
                    if model.len() < end {
                        model.resize(end, 0);
                    }
                    model[start..end].fill(fill);
                }
                4 | 5 => {
                    let mut bytes = vec![0xee; len];
                    let read = driver
                        .read(handle, FileOffset::new(start), &mut bytes)
                        .expect(&context);
                    let start = (start as usize).min(model.len());
                    let end = (start + len).min(model.len());
                    same(&bytes[..read], &model[start..end], &context);
                }
                6 => driver.sync(handle).expect(&context),
                7 => {
                    driver
                        .resize(handle, FileOffset::new(start))
                        .expect(&context);
                    model.resize(start as usize, 0);
                }
                8 => {
                    let end = start + len as u64;
                    driver.punch(handle, range(start, end)).expect(&context);
                    let end = (end as usize).min(model.len());
                    let start = (start as usize).min(end);
                    model[start..end].fill(0);
                }
                _ => {
                    driver.engine_mut().drop_clean();
                }
            }
            driver.engine().check().expect(&context);
            assert!(driver.engine().cached_bytes().get() <= 8192);
            assert_eq!(
                driver.engine().size(handle).unwrap().get(),
                models[at].len() as u64
            );
        }
        for (handle, model) in handles.into_iter().zip(&models) {
            driver.sync(handle).expect("syncs");
            let mut bytes = vec![0; model.len() + 10];
            driver.engine_mut().drop_clean();
            let read = driver.read(handle, FileOffset::ZERO, &mut bytes).unwrap();
            same(&bytes[..read], model, &format!("seed {seed}"));
        }
        for (file, model) in driver.host().0.values().zip(&models) {
            same(&file.0.borrow(), model, &format!("device, seed {seed}"));
        }
        let last = handles[0];
        driver.engine_mut().close(last).unwrap();
        assert_eq!(driver.engine().size(last), Err(Refusal::NotOpen));
    }
}
