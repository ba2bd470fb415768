//! Reads: tickets, and filling folios from the device.

use extentwise_core::errseq::ErrorClass;
use extentwise_core::geometry::{BlockRange, FileOffset, FileRange};

use super::{Engine, HandleId, Io};
use crate::folio::Owner;
use crate::slab::Key;
use crate::ticket::{ReadTicket, TicketState, WorkKind};
use crate::{Effect, ExtentKind, Mapping, Memory, Refusal};

impl<M: Memory, P: Mapping> Engine<M, P> {
    /// Begins to read `range`, or its front as far as that lies in one folio and
    /// in the file; `None` at or past the end of the file (C1).
    pub fn prepare_read(
        &mut self,
        handle: HandleId,
        range: FileRange,
    ) -> Result<Option<ReadTicket>, Refusal> {
        self.reap();
        let key = self.handle(handle)?.file;
        let file = self.files.get_mut(key).ok_or(Refusal::NotOpen)?;
        let inside = FileRange::clamped(FileOffset::ZERO, file.i_size);
        let Some(range) = range.overlap(inside) else {
            return Ok(None);
        };
        let (len, run) = (range.len().get(), file.reading.run_to(range));
        // Who reads in sequence gets twice that ahead, but not past the end.
        let ahead = run > len;
        let left = file.i_size.distance_from(range.start()).get();
        let wish = if ahead {
            run.saturating_mul(2).min(left.next_power_of_two()).max(len)
        } else {
            len
        };
        let folio = self.bring_in(key, range.start(), wish)?;
        let Some(state) = self.folios.get_mut(folio) else {
            return Err(Refusal::Failed(ErrorClass::Io));
        };
        let range = state.geometry().range().overlap(range).unwrap_or(range);
        if let Some(file) = self.files.get_mut(key) {
            file.reading.note(range);
        }
        let kind = WorkKind::Read {
            ahead,
            filled: false,
        };
        let ticket = self
            .tickets
            .add((key, folio), range, kind)
            .ok_or(Refusal::Failed(ErrorClass::NoMemory))?;
        state.readers = state.readers.saturating_add(1);
        self.advance_read(ticket.slot);
        Ok(Some(ReadTicket(ticket)))
    }

    /// How a read stands.
    pub fn read_state(&mut self, ticket: &ReadTicket) -> TicketState {
        self.reap();
        if self.tickets.of(&ticket.0).is_none() {
            return TicketState::Failed(ErrorClass::Io);
        }
        self.advance_read(ticket.0.slot);
        let work = self.tickets.of(&ticket.0);
        let state = work.map_or(TicketState::Failed(ErrorClass::Io), |work| work.state);
        self.waiting |= state == TicketState::Pending;
        state
    }

    /// Where the bytes of a read are: a part of a folio's memory. `None` unless
    /// it is ready.
    pub fn read_source(&self, ticket: &ReadTicket) -> Option<(&M::Bytes, core::ops::Range<usize>)> {
        let work = self.tickets.checked(&ticket.0)?;
        if work.state != TicketState::Ready {
            return None;
        }
        let folio = self.folios.get(work.folio)?;
        Some((&folio.bytes, folio.place_of(work.range)))
    }

    /// Ends a read now; dropping its ticket does so at the next call.
    pub fn end_read(&mut self, ticket: ReadTicket) {
        self.reap();
        if let Some(folio) = self.tickets.of(&ticket.0).map(|work| work.folio) {
            self.unpin(folio);
            self.tickets.end(ticket.0);
            self.wake();
        }
    }

    pub(super) fn unpin(&mut self, key: Key) {
        if let Some(folio) = self.folios.get_mut(key) {
            folio.readers = folio.readers.saturating_sub(1);
        }
    }

    /// Finds out whether a read is ready, and begins the fill that it needs.
    fn advance_read(&mut self, slot: Key) {
        let Some(work) = self.tickets.get_mut(slot) else {
            return;
        };
        let (WorkKind::Read { ahead, filled }, TicketState::Pending) = (&mut work.kind, work.state)
        else {
            return;
        };
        let Some(folio) = self.folios.get_mut(work.folio) else {
            return;
        };
        let blocks = folio.geometry().blocks_meeting(work.range);
        if folio.state.is_run_uptodate(blocks) {
            work.state = TicketState::Ready;
            return;
        }
        if folio.owner != Owner::None {
            return;
        }
        if *filled {
            let class = folio.fill_error.unwrap_or(ErrorClass::Io);
            work.state = TicketState::Failed(class);
            return;
        }
        *filled = true;
        let (key, ahead) = (work.folio, *ahead);
        self.fill(key, blocks, ahead);
        // Holes are there at once.
        if let (Some(work), Some(folio)) = (self.tickets.get_mut(slot), self.folios.get(key))
            && folio.state.is_run_uptodate(blocks)
        {
            work.state = TicketState::Ready;
        }
    }

    /// Brings in the stale ones of `blocks`, and, if `ahead`, those behind them to
    /// the end of the folio or the file: zeros for holes at once, data from the
    /// device.
    fn fill(&mut self, key: Key, blocks: BlockRange, ahead: bool) {
        let Some(folio) = self.folios.get_mut(key) else {
            return;
        };
        let Some(file) = self.files.get(folio.file) else {
            return;
        };
        folio.fill_error = None;
        let (id, geometry) = (file.id, folio.geometry());
        let below_size = FileRange::clamped(FileOffset::ZERO, file.i_size);
        let end = if ahead {
            geometry.blocks_meeting(below_size).end().max(blocks.end())
        } else {
            blocks.end()
        };
        let mut rest = BlockRange::clamped(blocks.start().get(), end.get());
        let mut reads = 0_u32;
        while let Some(folio) = self.folios.get_mut(key)
            && let Some(stale) = folio.state.next_stale(rest)
        {
            let range = geometry.bytes_of(stale);
            let extent = self.mapping.map(id, range);
            let covered = extent.as_ref().map(|extent| extent.range.overlap(range));
            let (Ok(extent), Ok(Some(part))) = (&extent, covered) else {
                folio.fill_error = Some(extent.err().unwrap_or(ErrorClass::Io));
                break;
            };
            let run = geometry.blocks_inside(part);
            if part.start() != range.start() || run.is_empty() {
                folio.fill_error = Some(ErrorClass::Io);
                break;
            }
            let part = geometry.bytes_of(run);
            rest = BlockRange::clamped(run.end().get(), rest.end().get());
            let ExtentKind::Data(disk) = extent.kind else {
                let place = folio.place_of(part);
                self.memory.zero(&mut folio.bytes, place);
                folio.state.mark_uptodate(run);
                continue;
            };
            let into = part.start().distance_from(extent.range.start());
            let Some(disk) = disk.checked_add(into) else {
                folio.fill_error = Some(ErrorClass::Io);
                break;
            };
            let io = self.new_io(Io::Fill(key, run));
            self.effects.push_back(Effect::Read {
                io,
                file: id,
                disk,
                len: part.len(),
            });
            reads = reads.saturating_add(1);
        }
        if let Some(folio) = self.folios.get_mut(key) {
            if reads > 0 {
                folio.owner = Owner::Fill(reads);
            }
            folio.state.promote_uptodate();
        }
    }

    pub(super) fn complete_fill(
        &mut self,
        key: Key,
        blocks: BlockRange,
        result: Result<(), ErrorClass>,
    ) {
        let Some(folio) = self.folios.get_mut(key) else {
            return;
        };
        match result {
            Ok(()) => folio.state.mark_uptodate(blocks),
            Err(class) => folio.fill_error = Some(class),
        }
        folio.owner = match folio.owner {
            Owner::Fill(reads) if reads > 1 => Owner::Fill(reads - 1),
            _ => Owner::None,
        };
        folio.state.promote_uptodate();
        self.waiting = true;
    }
}
