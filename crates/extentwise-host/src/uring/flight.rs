//! Transfers under way, with what they need.

use std::collections::VecDeque;
use std::ops::Range;

use extentwise_device::{DeviceError, DiskByte, ErrorClass};
use extentwise_engine::{FileId, IoId};
use rustix::io::Errno;

use super::memory::Share;
use super::ring::{Call, Carrier, Piece, Ring};
use super::target::RingTarget;
use super::{RingFolio, UringError};
use crate::disk::{file_len, flushed};
use crate::errno::device_error;

/// Calls that a signal or a file which does not wait sent back are made so often.
const TRIES_MAX: u32 = 16;

/// The effect that a transfer is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub(super) io: IoId,
    pub(super) file: FileId,
    /// Where it lies on the device.
    pub(super) disk: DiskByte,
}

/// A transfer of an effect.
///
/// **Invariant**: it owns its file and shares of all the memory of its pieces,
/// and never gives them up before it ended.
pub(super) struct Flight {
    origin: Origin,
    call: Call,
    target: RingTarget,
    /// Where what is left lies on the device.
    at: u64,
    /// What is left, from `first` on.
    pieces: Vec<Piece>,
    first: usize,
    shares: Vec<Share>,
    /// The place in the folio that a read fills.
    fills: Option<Range<usize>>,
    done: u64,
    calls: u64,
    tries: u32,
}

/// A transfer that ended.
pub(super) struct Landed {
    pub(super) origin: Origin,
    pub(super) call: Call,
    pub(super) result: Result<(), DeviceError>,
    /// Bytes moved; the rest of a read lies past the end and is zeros.
    pub(super) done: u64,
    pub(super) calls: u64,
    /// One that began earlier is still under way.
    pub(super) overtook: bool,
}

/// What follows from an answer.
enum Next {
    Again(Carrier),
    Ended(Result<(), DeviceError>),
}

impl Flight {
    fn new(origin: Origin, call: Call, target: RingTarget) -> Self {
        Self {
            origin,
            call,
            target,
            at: origin.disk.get(),
            pieces: Vec::new(),
            first: 0,
            shares: Vec::new(),
            fills: None,
            done: 0,
            calls: 0,
            tries: 0,
        }
    }

    /// A read into a part of a folio; `None` where the part is none, or does not
    /// go as it is.
    pub(super) fn read(
        origin: Origin,
        target: RingTarget,
        (folio, place): (&mut RingFolio, Range<usize>),
    ) -> Option<Self> {
        let piece = folio.piece(place.clone())?;
        if !target.takes(origin.disk, piece) {
            return None;
        }
        let mut flight = Self::new(origin, Call::Read, target);
        flight.shares.push(folio.share());
        flight.pieces.push(folio.begin_fill(place.clone())?);
        flight.fills = Some(place);
        Some(flight)
    }

    /// A write of parts of folios, one behind the other.
    pub(super) fn write<'f>(
        origin: Origin,
        target: RingTarget,
        parts: impl Iterator<Item = (&'f RingFolio, Range<usize>)>,
    ) -> Option<Self> {
        let mut flight = Self::new(origin, Call::Write, target);
        for (folio, place) in parts {
            let piece = folio.piece(place)?;
            if !flight.target.takes(origin.disk, piece) {
                return None;
            }
            flight.pieces.push(piece);
            flight.shares.push(folio.share());
        }
        Some(flight)
    }

    /// A flush of a file.
    pub(super) fn flush(origin: Origin, target: RingTarget) -> Self {
        Self::new(origin, Call::Flush, target)
    }

    fn left(&self) -> &[Piece] {
        self.pieces.get(self.first..).unwrap_or_default()
    }

    /// Takes an answer in.
    fn advance(&mut self, result: Result<usize, Errno>) -> Next {
        self.calls += 1;
        if let Err(Errno::INTR | Errno::AGAIN) = result
            && self.tries < TRIES_MAX
        {
            self.tries += 1;
            return Next::Again(Carrier::Thread);
        }
        match (self.call, result) {
            (Call::Flush, answer) => Next::Ended(flushed(answer.map(|_| ()))),
            (_, Err(errno)) => Next::Ended(Err(device_error(errno))),
            (_, Ok(moved)) => self.moved(moved),
        }
    }

    /// Carries a transfer on behind what was moved.
    fn moved(&mut self, moved: usize) -> Next {
        // What a block was moved in part is moved again.
        let whole = moved - moved % self.target.block;
        if whole == 0 {
            return Next::Ended(match self.call {
                Call::Write => Err(ErrorClass::NoSpace.into()),
                _ => self.at_end(moved),
            });
        }
        self.done += whole as u64;
        self.at = self.at.saturating_add(whole as u64);
        let mut rest = whole;
        while let Some(piece) = self.pieces.get_mut(self.first)
            && rest > 0
        {
            let now = piece.len.min(rest);
            piece.start = piece.start.wrapping_add(now);
            piece.len -= now;
            rest -= now;
            if piece.len == 0 {
                self.first += 1;
            }
        }
        if self.left().is_empty() {
            Next::Ended(Ok(()))
        } else {
            Next::Again(Carrier::Any)
        }
    }

    /// A read of less than a block is one of the end of the file.
    fn at_end(&mut self, moved: usize) -> Result<(), DeviceError> {
        let end = self.at.saturating_add(moved as u64);
        if moved > 0 && file_len(&self.target.file)?.get() > end {
            return Err(ErrorClass::Io.into());
        }
        self.done += moved as u64;
        Ok(())
    }
}

impl RingTarget {
    /// Whether a transfer of this piece goes as it is. In the middle of a
    /// transfer, the address is as good as at its start.
    fn takes(&self, at: DiskByte, piece: Piece) -> bool {
        piece.start.addr().is_multiple_of(self.memory_align)
            && piece.len.is_multiple_of(self.block)
            && at.get().is_multiple_of(self.block as u64)
            // Offsets of the operating system have 63 bits.
            && i64::try_from(at.get().saturating_add(piece.len as u64)).is_ok()
    }
}

/// A ring, and the transfers under way on it.
///
/// **Invariant**: whatever the kernel was told and has not answered yet lies in
/// `slots`, at its tag; or it was leaked, when the ring broke.
pub(super) struct Flights {
    ring: Ring,
    slots: Vec<Option<Flight>>,
    free: Vec<usize>,
    /// Calls that the kernel was not told yet.
    queued: usize,
    landed: VecDeque<Landed>,
}

impl Flights {
    pub(super) fn new(depth: u32) -> Result<Self, UringError> {
        let ring = Ring::new(depth)?;
        let count = usize::try_from(depth).map_err(|_| UringError::Depth(depth))?;
        Ok(Self {
            ring,
            slots: (0..count).map(|_| None).collect(),
            free: (0..count).rev().collect(),
            queued: 0,
            landed: VecDeque::new(),
        })
    }

    /// Whether no more can be under way.
    pub(super) fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Whether none is under way, and none landed that nobody took.
    pub(super) fn is_empty(&self) -> bool {
        self.free.len() == self.slots.len() && self.landed.is_empty()
    }

    /// How many are under way.
    pub(super) fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Queues a transfer; one that finds no place fails.
    pub(super) fn begin(&mut self, flight: Flight) {
        match self.free.pop() {
            Some(slot) => self.queue(slot, flight, Carrier::Any),
            None => self.fail(flight, Errno::BUSY),
        }
    }

    /// Tells the kernel what is queued.
    pub(super) fn submit(&mut self) {
        if self.queued > 0 {
            self.enter(0);
        }
    }

    /// Waits until a transfer under way was answered.
    pub(super) fn wait(&mut self) {
        self.enter(1);
    }

    /// A transfer that ended.
    pub(super) fn next_landed(&mut self) -> Option<Landed> {
        while let Some(answer) = self.ring.answer() {
            let slot = usize::try_from(answer.tag).unwrap_or(usize::MAX);
            let Some(mut flight) = self.slots.get_mut(slot).and_then(Option::take) else {
                continue;
            };
            match flight.advance(answer.result) {
                Next::Again(carrier) => self.queue(slot, flight, carrier),
                Next::Ended(result) => {
                    self.free.push(slot);
                    if let (Some(place), Some(share)) = (&flight.fills, flight.shares.first()) {
                        // SAFETY: the answer to the only call for this part that
                        // is under way came, and no other was queued.
                        unsafe { share.end_fill(place) };
                    }
                    self.land(&flight, result);
                }
            }
        }
        self.landed.pop_front()
    }

    fn land(&mut self, flight: &Flight, result: Result<(), DeviceError>) {
        let mut under_way = self.slots.iter().flatten();
        let overtook = under_way.any(|other| other.origin.io < flight.origin.io);
        self.landed.push_back(Landed {
            origin: flight.origin,
            call: flight.call,
            result,
            done: flight.done,
            calls: flight.calls,
            overtook,
        });
    }

    /// Queues a call of a flight, which takes its slot.
    fn queue(&mut self, slot: usize, flight: Flight, carrier: Carrier) {
        let file = &flight.target.file;
        let (pieces, at) = (flight.left(), flight.at);
        let entry = Ring::entry(flight.call, carrier, file, pieces, at, slot as u64);
        if let Some(place) = self.slots.get_mut(slot) {
            // Moving a flight moves neither its array of pieces nor what they name.
            *place = Some(flight);
        }
        // SAFETY: the flight, which owns its file, the array of its pieces and
        // shares of their memory, lies in its slot, and leaves it only when the
        // answer came, or is leaked; until then nobody changes it. What a read
        // fills is marked so (`begin_fill`): no reference to it is made.
        let queued = unsafe { self.ring.push(&entry) };
        if queued {
            self.queued += 1;
        } else if let Some(flight) = self.slots.get_mut(slot).and_then(Option::take) {
            // The ring has an entry for each slot; it broke.
            self.free.push(slot);
            self.fail(flight, Errno::BADF);
        }
    }

    fn enter(&mut self, answers: usize) {
        match self.ring.enter(answers) {
            Ok(()) => self.queued = 0,
            Err(errno) => self.give_up(errno),
        }
    }

    /// The ring broke: what is under way may end at any time, and nobody is told.
    fn give_up(&mut self, errno: Errno) {
        self.ring.close();
        self.queued = 0;
        for slot in 0..self.slots.len() {
            if let Some(flight) = self.slots.get_mut(slot).and_then(Option::take) {
                self.free.push(slot);
                self.fail(flight, errno);
            }
        }
    }

    /// Fails a transfer of which the kernel may still know.
    fn fail(&mut self, flight: Flight, errno: Errno) {
        self.land(&flight, Err(device_error(errno)));
        // Its memory stays allocated, and marked as being filled, for good.
        std::mem::forget(flight);
    }
}

impl Drop for Flights {
    fn drop(&mut self) {
        while self.count() > 0 {
            self.wait();
            while self.next_landed().is_some() {}
        }
    }
}
