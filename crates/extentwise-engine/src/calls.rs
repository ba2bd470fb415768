//! Plain calls on an engine, whoever carries its effects out.

use core::ops::Range;

use crate::{
    Engine, ErrorClass, FileOffset, FileRange, HandleId, LenBytes, Mapping, Memory, Refusal,
    SyncId, TicketState,
};

/// Reads, writes and syncs of any length as plain calls, for one thread.
///
/// Whoever drives an engine says how its effects are brought on, and has the
/// calls: [`Driver`](crate::Driver) carries out one effect after the other, a
/// driver over a ring of the kernel has many under way.
pub trait Calls {
    /// The memory of the folios.
    type Memory: Memory;
    /// The map.
    type Map: Mapping;

    /// The engine, to look at.
    fn engine(&self) -> &Engine<Self::Memory, Self::Map>;

    /// The engine, to open handles.
    fn engine_mut(&mut self) -> &mut Engine<Self::Memory, Self::Map>;

    /// Brings something on that the engine wants, and waits for it if nothing
    /// else is to be done; false where nothing is left to do.
    fn advance(&mut self) -> bool;

    /// Goes on with what the engine wants, behind a call that did not need it.
    fn settle(&mut self);

    /// Takes the result of a sync, if it has ended.
    fn take_ended(&mut self, sync: SyncId) -> Option<Result<(), ErrorClass>>;

    /// A part of a folio to look at; `None` if it does not lie inside.
    fn part(bytes: &<Self::Memory as Memory>::Bytes, place: Range<usize>) -> Option<&[u8]>;

    /// A part of a folio to write to; `None` if it does not lie inside.
    fn part_mut(
        bytes: &mut <Self::Memory as Memory>::Bytes,
        place: Range<usize>,
    ) -> Option<&mut [u8]>;

    /// Writes all of `bytes` at `at`; an error says what stopped it, and the
    /// number is how many bytes from the start stand.
    fn write(
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
    fn write_with(
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
            let part = write_part(self, handle, range, |into| fill(into, done));
            match part {
                Ok(committed) => done += committed,
                Err(refusal) => return Err((done, refusal)),
            }
        }
        Ok(())
    }

    /// Fills the front of `into` from `at` on; answers how many bytes there
    /// were: fewer than asked at the end of the file (C1).
    fn read(
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
    fn read_with(
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
            let Some(ticket) = retry(self, |engine| engine.prepare_read(handle, range))? else {
                break;
            };
            loop {
                match self.engine_mut().read_state(&ticket) {
                    TicketState::Ready => break,
                    TicketState::Failed(class) => return Err(Refusal::Failed(class)),
                    TicketState::Pending if self.advance() => {}
                    TicketState::Pending => return Err(Refusal::Busy),
                }
            }
            if let Some((bytes, place)) = self.engine().read_source(&ticket)
                && let Some(bytes) = Self::part(bytes, place)
            {
                see(bytes, done);
            }
            done += ticket.range().len().get();
            self.engine_mut().end_read(ticket);
        }
        Ok(done)
    }

    /// Gives the file another size.
    fn resize(&mut self, handle: HandleId, size: FileOffset) -> Result<(), Refusal> {
        retry(self, |engine| engine.resize(handle, size))
    }

    /// Makes a range read as zero and gives its space back.
    fn punch(&mut self, handle: HandleId, range: FileRange) -> Result<(), Refusal> {
        retry(self, |engine| engine.punch(handle, range))
    }

    /// Makes the file durable; an error is what failed since the handle's last
    /// report (E2).
    fn sync(&mut self, handle: HandleId) -> Result<(), Refusal> {
        let sync = self.engine_mut().sync(handle)?;
        wait_for(self, sync)
    }

    /// Makes durable what is dirty in the folios that `range` meets.
    fn sync_range(&mut self, handle: HandleId, range: FileRange) -> Result<(), Refusal> {
        let sync = self.engine_mut().sync_range(handle, range)?;
        wait_for(self, sync)
    }
}

fn write_part<C: Calls + ?Sized>(
    calls: &mut C,
    handle: HandleId,
    range: FileRange,
    fill: impl FnOnce(&mut [u8]),
) -> Result<u64, Refusal> {
    let ticket = retry(calls, |engine| engine.prepare_write(handle, range))?;
    loop {
        match calls.engine_mut().write_state(&ticket) {
            TicketState::Ready => break,
            TicketState::Failed(class) => return Err(Refusal::Failed(class)),
            TicketState::Pending if calls.advance() => {}
            TicketState::Pending => return Err(Refusal::Busy),
        }
    }
    let len = ticket.range().len();
    if let Some((bytes, place)) = calls.engine_mut().write_target(&ticket)
        && let Some(into) = C::part_mut(bytes, place)
    {
        fill(into);
    }
    let committed = calls.engine_mut().commit_write(ticket, len)?;
    calls.settle();
    Ok(committed.get())
}

fn wait_for(calls: &mut (impl Calls + ?Sized), sync: SyncId) -> Result<(), Refusal> {
    loop {
        if let Some(result) = calls.take_ended(sync) {
            return result.map_err(Refusal::Failed);
        }
        if !calls.advance() {
            // A ticket that its owner holds is in the way.
            return Err(Refusal::Busy);
        }
    }
}

/// Tries until the engine is not busy, or nothing more can be done about it.
fn retry<C: Calls + ?Sized, T>(
    calls: &mut C,
    mut attempt: impl FnMut(&mut Engine<C::Memory, C::Map>) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    loop {
        match attempt(calls.engine_mut()) {
            Err(Refusal::Busy) if calls.advance() => calls.settle(),
            result => return result,
        }
    }
}
