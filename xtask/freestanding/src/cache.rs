//! The engine's driver loop over a device in memory: a write, a sync that the device
//! refuses, the same again on a device that takes it, and a read of what it holds.

use core::cell::{Cell, RefCell};

use extentwise_device::{Device, DeviceError, DeviceGeometry};
use extentwise_engine::{
    BlockSize, Calls, Config, DiskByte, Driver, Engine, ErrorClass, FileId, FileOffset, HandleId,
    HeapMemory, Host, Identity, LenBytes, Refusal,
};

use crate::{Fault, heap};

const BLOCK: u64 = 4096;
const DISK: usize = 4 * 4096;
const FILE: FileId = FileId(5);
/// Two blocks and a part of a third.
const LEN: usize = 2 * 4096 + 100;

type Cache<'a> = Driver<HeapMemory, Identity, &'a Disk>;

/// A device that refuses so many writes first, and counts what was not flushed.
pub(crate) struct Disk {
    bytes: RefCell<[u8; DISK]>,
    refusals: Cell<u32>,
    refused: Cell<u32>,
    unflushed: Cell<u32>,
    /// The map was made durable before the data was (C8).
    early: Cell<bool>,
}

impl Disk {
    pub(crate) const fn that_refuses(writes: u32) -> Self {
        Self {
            bytes: RefCell::new([0xee; DISK]),
            refusals: Cell::new(writes),
            refused: Cell::new(0),
            unflushed: Cell::new(0),
            early: Cell::new(false),
        }
    }
}

impl Device for Disk {
    fn geometry(&self) -> DeviceGeometry {
        // One byte: it takes any address and length.
        DeviceGeometry::new(1, 1).unwrap_or_else(|_| unreachable!("1 is a power of two"))
    }

    fn read(&self, at: DiskByte, buffers: &mut [&mut [u8]]) -> Result<LenBytes, DeviceError> {
        let bytes = self.bytes.borrow();
        let mut rest = bytes.get(place(at)..).unwrap_or_default();
        let before = rest.len();
        for buffer in buffers {
            let (now, later) = rest.split_at(buffer.len().min(rest.len()));
            if let Some(front) = buffer.get_mut(..now.len()) {
                front.copy_from_slice(now);
            }
            rest = later;
        }
        Ok(LenBytes::new((before - rest.len()) as u64))
    }

    fn write(&self, at: DiskByte, buffers: &[&[u8]]) -> Result<LenBytes, DeviceError> {
        if let Some(left) = self.refusals.get().checked_sub(1) {
            self.refusals.set(left);
            self.refused.set(self.refused.get() + 1);
            return Err(ErrorClass::Io.into());
        }
        self.unflushed.set(self.unflushed.get() + 1);
        let mut bytes = self.bytes.borrow_mut();
        let mut taken = 0;
        for buffer in buffers {
            let start = place(at).saturating_add(taken);
            let into = bytes.get_mut(start..start.saturating_add(buffer.len()));
            into.ok_or(ErrorClass::NoSpace)?.copy_from_slice(buffer);
            taken += buffer.len();
        }
        Ok(LenBytes::new(taken as u64))
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.unflushed.set(0);
        Ok(())
    }
}

impl Host<Identity> for &Disk {
    type Device = Disk;

    fn device(&self, _: FileId) -> Result<&Disk, DeviceError> {
        Ok(self)
    }

    fn persist(&self, mapping: &mut Identity, file: FileId) -> Result<(), DeviceError> {
        let _ = mapping.take_pending(file);
        self.early.set(self.unflushed.get() > 0);
        Ok(())
    }
}

pub(crate) fn run(disk: &Disk) -> Result<(), Fault> {
    let before = heap::used();
    let (mut cache, handle) = cache(disk)?;
    let mut written = [0; LEN];
    for (nth, byte) in (0..251).cycle().zip(&mut written) {
        *byte = nth;
    }
    let wrote = cache.write(handle, FileOffset::ZERO, &written);
    Fault::CacheWrite.unless(wrote.is_ok())?;

    let refused = cache.sync(handle);
    Fault::FailedSync.unless(refused == Err(Refusal::Failed(ErrorClass::Io)))?;
    Fault::FailedSync.unless(disk.refused.get() == 1)?;
    cache.engine_mut().drop_clean();
    Fault::KeptDirty.unless(cache.engine().dirty_bytes().get() == 3 * BLOCK)?;

    Fault::Retry.unless(cache.sync(handle).is_ok())?;
    Fault::Retry.unless(cache.engine().dirty_bytes().is_zero())?;
    Fault::FlushOrder.unless(cache.transfers().flushes > 0 && !disk.early.get())?;
    Fault::OnDevice.unless(disk.bytes.borrow().starts_with(&written))?;

    cache.engine_mut().drop_clean();
    Fault::ReadBack.unless(cache.engine().cached_bytes().is_zero())?;
    let mut read = [0; LEN + 10];
    let len = cache.read(handle, FileOffset::ZERO, &mut read);
    Fault::ReadBack.unless(len == Ok(LEN) && read.starts_with(&written))?;
    Fault::ReadBack.unless(cache.engine().check().is_ok())?;

    Fault::Leak.unless(heap::used() > before)?;
    drop(cache);
    Fault::Leak.unless(heap::used() == before)
}

fn cache(disk: &Disk) -> Result<(Cache<'_>, HandleId), Fault> {
    let block_size = BlockSize::new(BLOCK).map_err(|_| Fault::Setup)?;
    let config = Config::new(block_size).with_cache_bytes(LenBytes::new(16 * BLOCK));
    let mut mapping = Identity::new();
    mapping.add(FILE, FileOffset::ZERO);
    let mut engine = Engine::new(config, HeapMemory, mapping).map_err(|_| Fault::Setup)?;
    let handle = engine.open(FILE, FileOffset::ZERO);
    let handle = handle.map_err(|_| Fault::Setup)?;
    Ok((Driver::new(engine, disk), handle))
}

fn place(at: DiskByte) -> usize {
    usize::try_from(at.get()).unwrap_or(usize::MAX)
}
