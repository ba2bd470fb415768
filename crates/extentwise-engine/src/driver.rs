//! Carrying effects out, one after the other, on devices that wait.

use alloc::vec::Vec;

use extentwise_device::{Device, DeviceError, read_exact, write_all};

use crate::{
    Effect, Engine, ErrorClass, FileId, FileOffset, FileRange, HandleId, IoId, LenBytes, Loss,
    Mapping, Memory, Refusal, SyncId, TicketState,
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
/// Reads and writes of any length go through it as plain calls.
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

    /// The engine.
    pub const fn engine(&self) -> &Engine<M, P> {
        &self.engine
    }

    /// The engine, to open handles and to look at.
    pub const fn engine_mut(&mut self) -> &mut Engine<M, P> {
        &mut self.engine
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

    /// Writes all of `bytes` at `at`; an error says what stopped it, and the
    /// number is how many bytes from the start stand.
    pub fn write(
        &mut self,
        handle: HandleId,
        at: FileOffset,
        bytes: &[u8],
    ) -> Result<(), (usize, Refusal)> {
        self.write_with(handle, at, bytes.len() as u64, |into, from| {
            let from = usize::try_from(from).unwrap_or(usize::MAX);
            let part = bytes.get(from..).and_then(|rest| rest.get(..into.len()));
            into.copy_from_slice(part.unwrap_or_default());
        })
        .map_err(|(done, refusal)| (usize::try_from(done).unwrap_or(usize::MAX), refusal))
    }

    /// Writes `len` bytes at `at` that `fill` makes: it is called with memory,
    /// and how far into the write that lies.
    pub fn write_with(
        &mut self,
        handle: HandleId,
        at: FileOffset,
        len: u64,
        mut fill: impl FnMut(&mut [u8], u64),
    ) -> Result<(), (u64, Refusal)> {
        let mut done = 0;
        while done < len {
            let range = at
                .checked_add(LenBytes::new(done))
                .and_then(|start| FileRange::at(start, LenBytes::new(len - done)));
            let Some(range) = range else {
                let all = FileRange::clamped(at, FileOffset::MAX);
                return Err((done, Refusal::Range(all)));
            };
            let part = self.write_part(handle, range, |into| fill(into, done));
            match part {
                Ok(committed) => done += committed,
                Err(refusal) => return Err((done, refusal)),
            }
        }
        Ok(())
    }

    fn write_part(
        &mut self,
        handle: HandleId,
        range: FileRange,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<u64, Refusal> {
        let ticket = self.retry(|engine| engine.prepare_write(handle, range))?;
        loop {
            match self.engine.write_state(&ticket) {
                TicketState::Ready => break,
                TicketState::Failed(class) => return Err(Refusal::Failed(class)),
                TicketState::Pending if self.step() => {}
                TicketState::Pending => return Err(Refusal::Busy),
            }
        }
        let len = ticket.range().len();
        if let Some((bytes, place)) = self.engine.write_target(&ticket)
            && let Some(into) = bytes.as_mut().get_mut(place)
        {
            fill(into);
        }
        let committed = self.engine.commit_write(ticket, len)?;
        self.run();
        Ok(committed.get())
    }

    /// Fills the front of `into` from `at` on; answers how many bytes there
    /// were: fewer than asked at the end of the file (C1).
    pub fn read(
        &mut self,
        handle: HandleId,
        at: FileOffset,
        into: &mut [u8],
    ) -> Result<usize, Refusal> {
        let len = into.len() as u64;
        let read = self.read_with(handle, at, len, |bytes, from| {
            let from = usize::try_from(from).unwrap_or(usize::MAX);
            if let Some(part) = into.get_mut(from..)
                && let Some(part) = part.get_mut(..bytes.len())
            {
                part.copy_from_slice(bytes);
            }
        })?;
        Ok(usize::try_from(read).unwrap_or(usize::MAX))
    }

    /// Shows up to `len` bytes from `at` on to `see`, piece by piece, with how
    /// far into the read each lies; answers how many there were.
    pub fn read_with(
        &mut self,
        handle: HandleId,
        at: FileOffset,
        len: u64,
        mut see: impl FnMut(&[u8], u64),
    ) -> Result<u64, Refusal> {
        let mut done = 0;
        while done < len {
            let start = FileOffset::new(at.get().saturating_add(done));
            let end = FileOffset::new(start.get().saturating_add(len - done));
            let range = FileRange::clamped(start, end);
            let Some(ticket) = self.retry(|engine| engine.prepare_read(handle, range))? else {
                break;
            };
            loop {
                match self.engine.read_state(&ticket) {
                    TicketState::Ready => break,
                    TicketState::Failed(class) => return Err(Refusal::Failed(class)),
                    TicketState::Pending if self.step() => {}
                    TicketState::Pending => return Err(Refusal::Busy),
                }
            }
            if let Some((bytes, place)) = self.engine.read_source(&ticket)
                && let Some(bytes) = bytes.as_ref().get(place)
            {
                see(bytes, done);
            }
            done += ticket.range().len().get();
            self.engine.end_read(ticket);
        }
        Ok(done)
    }

    /// Gives the file another size.
    pub fn resize(&mut self, handle: HandleId, size: FileOffset) -> Result<(), Refusal> {
        self.retry(|engine| engine.resize(handle, size))
    }

    /// Makes a range read as zero and gives its space back.
    pub fn punch(&mut self, handle: HandleId, range: FileRange) -> Result<(), Refusal> {
        self.retry(|engine| engine.punch(handle, range))
    }

    /// Makes the file durable; an error is what failed since the handle's last
    /// report (E2).
    pub fn sync(&mut self, handle: HandleId) -> Result<(), Refusal> {
        let sync = self.engine.sync(handle)?;
        self.wait_for(sync)
    }

    /// Makes durable what is dirty in the folios that `range` meets.
    pub fn sync_range(&mut self, handle: HandleId, range: FileRange) -> Result<(), Refusal> {
        let sync = self.engine.sync_range(handle, range)?;
        self.wait_for(sync)
    }

    /// Carries out every effect there is.
    pub fn run(&mut self) {
        while self.step() {}
    }

    fn wait_for(&mut self, sync: SyncId) -> Result<(), Refusal> {
        loop {
            if let Some(nth) = self.ended.iter().position(|(ended, _)| *ended == sync) {
                let (_, result) = self.ended.swap_remove(nth);
                return result.map_err(Refusal::Failed);
            }
            if !self.step() {
                // A ticket that its owner holds is in the way.
                return Err(Refusal::Busy);
            }
        }
    }

    /// Tries until the engine is not busy, or nothing more can be done about it.
    fn retry<T>(
        &mut self,
        mut attempt: impl FnMut(&mut Engine<M, P>) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        loop {
            match attempt(&mut self.engine) {
                Err(Refusal::Busy) => {
                    if !self.step() {
                        return Err(Refusal::Busy);
                    }
                    self.run();
                }
                result => return result,
            }
        }
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
