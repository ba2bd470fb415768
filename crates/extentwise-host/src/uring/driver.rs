//! An engine's effects, many of them under way.

use std::ops::Range;

use extentwise_device::{DeviceError, DiskByte, ErrorClass, read_exact, write_all};
use extentwise_engine::{Calls, Effect, Engine, Host, IoId, Mapping, SyncId, Transfers};

use super::UringError;
use super::flight::{Flight, Flights, Landed, Origin};
use super::memory::{RingFolio, RingMemory};
use super::ring::Call;
use super::target::RingFile;

/// A host of an engine that carries effects out over `io_uring`: reads, writes and
/// flushes of one thread are under way together, up to a depth, and answered as
/// they end.
///
/// It offers what [`Driver`](extentwise_engine::Driver) does: plain [`Calls`] of
/// any length. A write waits only where the engine says so; a read, a resize and a
/// sync wait for what they need. The map is made persistent in between, by a
/// call of the host that waits.
///
/// Transfers that the file does not take as they are (blocks smaller than those
/// of a direct device) are made by the device itself, and waited for.
///
/// Dropping it waits for what is under way. What is dirty is lost: sync first.
pub struct UringDriver<P, H> {
    // Dropped first: it waits until the kernel is done with the memory.
    flights: Flights,
    engine: Engine<RingMemory, P>,
    host: H,
    ended: Vec<(SyncId, Result<(), ErrorClass>)>,
    transfers: Transfers,
    concurrency: Concurrency,
}

/// How much a driver had under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Concurrency {
    /// The most transfers at a time.
    pub under_way_max: usize,
    /// Transfers that ended before one that began earlier.
    pub overtook: u64,
}

impl<P, H> UringDriver<P, H>
where
    P: Mapping,
    H: Host<P>,
    H::Device: RingFile,
{
    /// Drives `engine` over the files of `host`, with up to `depth` transfers
    /// under way.
    pub fn new(engine: Engine<RingMemory, P>, host: H, depth: u32) -> Result<Self, UringError> {
        Ok(Self {
            flights: Flights::new(depth)?,
            engine,
            host,
            ended: Vec::new(),
            transfers: Transfers::default(),
            concurrency: Concurrency::default(),
        })
    }

    /// The map, to add files.
    pub const fn mapping_mut(&mut self) -> &mut P {
        self.engine.mapping_mut()
    }

    /// The host.
    pub const fn host(&self) -> &H {
        &self.host
    }

    /// Calls that the kernel answered so far.
    pub const fn transfers(&self) -> &Transfers {
        &self.transfers
    }

    /// How much was under way so far.
    pub const fn concurrency(&self) -> &Concurrency {
        &self.concurrency
    }

    /// As [`Engine::tick`].
    pub fn tick(&mut self, now_nanos: u64) {
        self.engine.tick(now_nanos);
        self.poll();
    }

    /// Writes back what is dirty in every file, without waiting for it.
    pub fn write_back_all(&mut self) {
        self.engine.write_back_all();
        self.poll();
    }

    /// Begins what the engine wants done, as far as the depth allows, and takes
    /// in what ended, without waiting.
    pub fn poll(&mut self) {
        while self.begin_effects() || self.take_landed() {}
    }

    /// Carries out every effect there is, and waits until none is left.
    pub fn run(&mut self) {
        while self.advance() {}
    }

    /// Begins effects while there is a place for them, and tells the kernel of
    /// all at once; whether there were any.
    fn begin_effects(&mut self) -> bool {
        let mut begun = false;
        while !self.flights.is_full()
            && let Some(effect) = self.engine.next_effect()
        {
            self.begin(effect);
            begun = true;
        }
        let most = &mut self.concurrency.under_way_max;
        *most = (*most).max(self.flights.count());
        self.flights.submit();
        begun
    }

    fn begin(&mut self, effect: Effect) {
        match effect {
            Effect::Read { io, file, disk, .. } => {
                let result = self.begin_read(Origin { io, file, disk });
                self.answer_unless_begun(io, result);
            }
            Effect::Write { io, file, disk, .. } => {
                let result = self.begin_write(Origin { io, file, disk });
                self.answer_unless_begun(io, result);
            }
            Effect::Flush { io, file } => {
                let target = self.host.device(file).and_then(RingFile::ring_target);
                let begun = target.map(|target| {
                    let disk = DiskByte::ZERO;
                    let origin = Origin { io, file, disk };
                    self.flights.begin(Flight::flush(origin, target));
                    Begun::UnderWay
                });
                self.answer_unless_begun(io, begun);
            }
            Effect::Persist { io, file } => {
                let result = self.host.persist(self.engine.mapping_mut(), file);
                self.engine.complete(io, result.map_err(DeviceError::class));
            }
            Effect::SyncEnded { sync, result } => self.ended.push((sync, result)),
            Effect::Wake => {}
            Effect::Lost { file, range, why } => self.host.lost(file, range, why),
        }
    }

    fn answer_unless_begun(&mut self, io: IoId, begun: Result<Begun, DeviceError>) {
        if let Ok(Begun::UnderWay) = begun {
            return;
        }
        let result = begun.map(|_| ()).map_err(DeviceError::class);
        self.engine.complete(io, result);
    }

    fn begin_read(&mut self, origin: Origin) -> Result<Begun, DeviceError> {
        let Origin { io, file, disk } = origin;
        let device = self.host.device(file)?;
        let target = device.ring_target()?;
        let (folio, place) = self.engine.read_target(io).ok_or(ErrorClass::Io)?;
        if let Some(flight) = Flight::read(origin, target, (folio, place.clone())) {
            self.flights.begin(flight);
            return Ok(Begun::UnderWay);
        }
        let into = folio.part_mut(place).ok_or(ErrorClass::Io)?;
        let done = read_exact(device, disk, into)?;
        self.transfers.reads += done.calls;
        self.transfers.read_bytes += done.bytes.get();
        Ok(Begun::Over)
    }

    /// Writes a whole bio: the zeros behind the end of the file too, for the
    /// device may hold other bytes there (V15).
    fn begin_write(&mut self, origin: Origin) -> Result<Begun, DeviceError> {
        let Origin { io, file, disk } = origin;
        let device = self.host.device(file)?;
        let target = device.ring_target()?;
        let parts = self.engine.write_source(io);
        if let Some(flight) = Flight::write(origin, target, parts) {
            self.flights.begin(flight);
            return Ok(Begun::UnderWay);
        }
        let parts = self.engine.write_source(io);
        let parts: Option<Vec<&[u8]>> = parts.map(|(folio, place)| folio.part(place)).collect();
        let done = write_all(device, disk, &parts.ok_or(ErrorClass::Io)?)?;
        self.transfers.writes += done.calls;
        self.transfers.write_bytes += done.bytes.get();
        Ok(Begun::Over)
    }

    /// Answers the effects whose transfers ended; whether there were any.
    fn take_landed(&mut self) -> bool {
        let mut any = false;
        while let Some(landed) = self.flights.next_landed() {
            self.count(&landed);
            self.concurrency.overtook += u64::from(landed.overtook);
            let Origin { io, file, disk } = landed.origin;
            match (landed.call, landed.result) {
                (Call::Read, Ok(())) => self.zero_behind(io, landed.done),
                (_, Err(error)) => {
                    if let Ok(device) = self.host.device(file) {
                        device.ring_failed(disk, error);
                    }
                }
                _ => {}
            }
            let result = landed.result.map_err(DeviceError::class);
            self.engine.complete(io, result);
            any = true;
        }
        // Short ones are carried on.
        self.flights.submit();
        any
    }

    fn count(&mut self, landed: &Landed) {
        let transfers = &mut self.transfers;
        match landed.call {
            Call::Read => {
                transfers.reads += landed.calls;
                transfers.read_bytes += landed.done;
            }
            Call::Write => {
                transfers.writes += landed.calls;
                transfers.write_bytes += landed.done;
            }
            Call::Flush => transfers.flushes += landed.calls,
        }
    }

    /// What lies past the end of a file reads as zero.
    fn zero_behind(&mut self, io: IoId, done: u64) {
        let done = usize::try_from(done).unwrap_or(usize::MAX);
        if let Some((folio, place)) = self.engine.read_target(io)
            && let Some(bytes) = folio.part_mut(place)
            && let Some(rest) = bytes.get_mut(done..)
        {
            rest.fill(0);
        }
    }
}

impl<P, H> Calls for UringDriver<P, H>
where
    P: Mapping,
    H: Host<P>,
    H::Device: RingFile,
{
    type Memory = RingMemory;
    type Map = P;

    fn engine(&self) -> &Engine<RingMemory, P> {
        &self.engine
    }

    fn engine_mut(&mut self) -> &mut Engine<RingMemory, P> {
        &mut self.engine
    }

    fn advance(&mut self) -> bool {
        let begun = self.begin_effects();
        if self.take_landed() || begun {
            return true;
        }
        if self.flights.is_empty() {
            return false;
        }
        self.flights.wait();
        self.take_landed();
        true
    }

    fn settle(&mut self) {
        self.poll();
    }

    fn take_ended(&mut self, sync: SyncId) -> Option<Result<(), ErrorClass>> {
        let nth = self.ended.iter().position(|(ended, _)| *ended == sync)?;
        Some(self.ended.swap_remove(nth).1)
    }

    fn part(folio: &RingFolio, place: Range<usize>) -> Option<&[u8]> {
        folio.part(place)
    }

    fn part_mut(folio: &mut RingFolio, place: Range<usize>) -> Option<&mut [u8]> {
        folio.part_mut(place)
    }
}

/// How an effect stands.
enum Begun {
    UnderWay,
    Over,
}
