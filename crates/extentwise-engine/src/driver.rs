//! Carrying effects out, one after the other, on devices that wait.

use alloc::vec::Vec;
use core::ops::Range;

use extentwise_device::{Device, DeviceError, read_exact, write_all};

use crate::{
    Calls, Effect, Engine, ErrorClass, FileId, FileRange, IoId, Loss, Mapping, Memory, SyncId,
};

/// What a host brings to a [`Driver`].
pub trait Host<P> {
    /// Its devices.
    type Device: Device + ?Sized;

    /// The device that holds the data of `file`.
    fn device(&self, file: FileId) -> Result<&Self::Device, DeviceError>;

    /// Makes the map of `file` durable: everything the engine recorded since the
    /// last time, with a flush behind it (C8).
    fn persist(&self, mapping: &mut P, file: FileId) -> Result<(), DeviceError>;

    /// Data was lost (C2, C6).
    fn lost(&self, file: FileId, range: FileRange, why: Loss) {
        let _ = (file, range, why);
    }
}

/// A single-threaded host of an engine: it carries effects out as they come and
/// waits for each, without threads, a clock or an operating system.
///
/// Reads and writes of any length go through it as plain [`Calls`].
pub struct Driver<M: Memory, P, H> {
    engine: Engine<M, P>,
    host: H,
    ended: Vec<(SyncId, Result<(), ErrorClass>)>,
    transfers: Transfers,
}

/// Calls that devices were asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfers {
    /// Reads.
    pub reads: u64,
    /// Bytes of them.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes of them.
    pub write_bytes: u64,
    /// Flushes.
    pub flushes: u64,
}

impl<M, P, H> Driver<M, P, H>
where
    M: Memory<Bytes: AsRef<[u8]> + AsMut<[u8]>>,
    P: Mapping,
    H: Host<P>,
{
    /// Drives `engine` over the devices of `host`.
    pub const fn new(engine: Engine<M, P>, host: H) -> Self {
        Self {
            engine,
            host,
            ended: Vec::new(),
            transfers: Transfers {
                reads: 0,
                read_bytes: 0,
                writes: 0,
                write_bytes: 0,
                flushes: 0,
            },
        }
    }

    /// The host.
    pub const fn host(&self) -> &H {
        &self.host
    }

    /// Calls of devices so far.
    pub const fn transfers(&self) -> &Transfers {
        &self.transfers
    }

    /// The parts again. What is dirty is lost with the engine: sync first.
    pub fn into_parts(self) -> (Engine<M, P>, H) {
        (self.engine, self.host)
    }

    /// Carries out every effect there is.
    pub fn run(&mut self) {
        while self.step() {}
    }

    /// Carries out one effect; false where there is none.
    fn step(&mut self) -> bool {
        let Some(effect) = self.engine.next_effect() else {
            return false;
        };
        match effect {
            Effect::Read { io, file, disk, .. } => {
                let result = self.device_read(io, file, disk);
                self.engine.complete(io, result.map_err(DeviceError::class));
            }
            Effect::Write { io, file, disk, .. } => {
                let result = self.device_write(io, file, disk);
                self.engine.complete(io, result.map_err(DeviceError::class));
            }
            Effect::Flush { io, file } => {
                self.transfers.flushes += 1;
                let result = self.host.device(file).and_then(Device::flush);
                self.engine.complete(io, result.map_err(DeviceError::class));
            }
            Effect::Persist { io, file } => {
                let result = self.host.persist(self.engine.mapping_mut(), file);
                self.engine.complete(io, result.map_err(DeviceError::class));
            }
            Effect::SyncEnded { sync, result } => self.ended.push((sync, result)),
            Effect::Wake => {}
            Effect::Lost { file, range, why } => self.host.lost(file, range, why),
        }
        true
    }

    fn device_read(
        &mut self,
        io: IoId,
        file: FileId,
        disk: crate::DiskByte,
    ) -> Result<(), DeviceError> {
        let device = self.host.device(file)?;
        let Some((bytes, place)) = self.engine.read_target(io) else {
            return Err(DeviceError::new(ErrorClass::Io));
        };
        let into = bytes.as_mut().get_mut(place).unwrap_or_default();
        let done = read_exact(device, disk, into)?;
        self.transfers.reads += done.calls;
        self.transfers.read_bytes += done.bytes.get();
        Ok(())
    }

    /// Writes a whole bio: the zeros behind the end of the file too, for the
    /// device may hold other bytes there (V15).
    fn device_write(
        &mut self,
        io: IoId,
        file: FileId,
        disk: crate::DiskByte,
    ) -> Result<(), DeviceError> {
        let device = self.host.device(file)?;
        let slices: Vec<&[u8]> = self
            .engine
            .write_source(io)
            .map(|(bytes, place)| bytes.as_ref().get(place).unwrap_or_default())
            .collect();
        let done = write_all(device, disk, &slices)?;
        self.transfers.writes += done.calls;
        self.transfers.write_bytes += done.bytes.get();
        Ok(())
    }
}

impl<M, P, H> Calls for Driver<M, P, H>
where
    M: Memory<Bytes: AsRef<[u8]> + AsMut<[u8]>>,
    P: Mapping,
    H: Host<P>,
{
    type Memory = M;
    type Map = P;

    fn engine(&self) -> &Engine<M, P> {
        &self.engine
    }

    fn engine_mut(&mut self) -> &mut Engine<M, P> {
        &mut self.engine
    }

    fn advance(&mut self) -> bool {
        self.step()
    }

    fn settle(&mut self) {
        self.run();
    }

    fn take_ended(&mut self, sync: SyncId) -> Option<Result<(), ErrorClass>> {
        let nth = self.ended.iter().position(|(ended, _)| *ended == sync)?;
        Some(self.ended.swap_remove(nth).1)
    }

    fn part(bytes: &M::Bytes, place: Range<usize>) -> Option<&[u8]> {
        bytes.as_ref().get(place)
    }

    fn part_mut(bytes: &mut M::Bytes, place: Range<usize>) -> Option<&mut [u8]> {
        bytes.as_mut().get_mut(place)
    }
}
