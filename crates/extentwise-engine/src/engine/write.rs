//! Buffered writes: tickets, and the walk of each.

use extentwise_core::errseq::ErrorClass;
use extentwise_core::geometry::{BlockIndex, BlockRange, FileOffset, FileRange, LenBytes};
use extentwise_core::write::{
    Ask, BufferedWrite, Mapping as MapAnswer, MappingKind, WriteContext, WriteError,
};

use super::{Engine, HandleId, Io, SIZE_MAX, WHOLE};
use crate::folio::Owner;
use crate::slab::Key;
use crate::ticket::{TicketState, WorkKind, WriteTicket};
use crate::{Effect, ExtentKind, Mapping, Memory, Refusal};

impl<M: Memory, P: Mapping> Engine<M, P> {
    /// Begins a buffered write of `range`, or of its front as far as that lies
    /// in one folio (`write_begin`). Ask [`write_state`](Self::write_state) when
    /// the bytes can be copied; then [`commit_write`](Self::commit_write).
    ///
    /// Refused as busy while too much is dirty (C5), while another write is in
    /// the folio, or while writeback waits for it. Costs a lookup and a step for
    /// each word of the bitmaps that the write crosses, whatever the size of the
    /// folio (V1).
    pub fn prepare_write(
        &mut self,
        handle: HandleId,
        range: FileRange,
    ) -> Result<WriteTicket, Refusal> {
        self.reap();
        let open = self.handle(handle)?;
        if let Some(class) = open.latched {
            return Err(Refusal::Latched(class));
        }
        let key = open.file;
        if range.is_empty() || range.end() > SIZE_MAX {
            return Err(Refusal::Range(range));
        }
        let room = self.throttle(key)?;
        let range = self.in_room(range, room);
        let file = self.files.get(key).ok_or(Refusal::NotOpen)?;
        if range.start() > file.i_size {
            self.grow_gap(key, range)?;
        }
        let file = self.files.get(key).ok_or(Refusal::NotOpen)?;
        let wish = file.writing.run_to(range).max(range.len().get());
        let folio = self.bring_in(key, range.start(), wish)?;
        let (range, write) = self.begin_write(folio, range)?;
        if let Some(file) = self.files.get_mut(key) {
            file.writing.note(range);
        }
        let kind = WorkKind::Write(write);
        let ticket = self.tickets.add((key, folio), range, kind);
        let ticket = ticket.ok_or(Refusal::Failed(ErrorClass::NoMemory))?;
        if let Some(folio) = self.folios.get_mut(folio) {
            folio.owner = Owner::Writer(ticket.slot);
        }
        self.advance_write(ticket.slot);
        Ok(WriteTicket(ticket))
    }

    /// How a prepared write stands.
    pub fn write_state(&mut self, ticket: &WriteTicket) -> TicketState {
        self.reap();
        let work = self.tickets.of(&ticket.0);
        let state = work.map_or(TicketState::Failed(ErrorClass::Io), |work| work.state);
        self.waiting |= state == TicketState::Pending;
        state
    }

    /// Where the bytes of a prepared write go: a part of a folio's memory.
    /// `None` unless it is ready.
    pub fn write_target(
        &mut self,
        ticket: &WriteTicket,
    ) -> Option<(&mut M::Bytes, core::ops::Range<usize>)> {
        let work = self.tickets.of(&ticket.0)?;
        if work.state != TicketState::Ready {
            return None;
        }
        let (key, range) = (work.folio, work.range);
        let folio = self.folios.get_mut(key)?;
        let place = folio.place_of(range);
        Some((&mut folio.bytes, place))
    }

    /// Ends a write of which `copied` bytes were copied (`write_end`); answers
    /// how many of them stand. Fewer than copied, also none, stand after a short
    /// copy into blocks that held nothing: try the rest again (V8). A write that
    /// is not ready is aborted.
    pub fn commit_write(
        &mut self,
        ticket: WriteTicket,
        copied: LenBytes,
    ) -> Result<LenBytes, Refusal> {
        // What was given up before must not stand where the file grows now.
        self.reap();
        let slot = ticket.0.slot;
        let state = match self.tickets.of(&ticket.0) {
            Some(work) => work.state,
            None => return Err(Refusal::NotOpen),
        };
        let result = match state {
            TicketState::Failed(class) => Err(Refusal::Failed(class)),
            TicketState::Pending => {
                // Dropped with its ticket.
                return Err(self.busy());
            }
            TicketState::Ready => Ok(self.end_write(slot, copied)),
        };
        self.tickets.end(ticket.0);
        self.wake();
        if self.dirty_bytes > self.config.dirty_bytes_background.get() {
            self.background_writeback();
        }
        result
    }

    /// Ends the work of tickets that were dropped.
    pub(super) fn reap(&mut self) {
        while let Some(slot) = self.tickets.dropped() {
            let Some(work) = self.tickets.get(slot) else {
                return;
            };
            match (&work.kind, work.state) {
                (WorkKind::Read { .. }, _) => self.unpin(work.folio),
                (WorkKind::Write(_), TicketState::Ready) => {
                    self.end_write(slot, LenBytes::ZERO);
                }
                // Nobody knows what was written; readers may have seen it.
                (WorkKind::Overwrite { .. }, _) => {
                    let lent = work.range;
                    self.end_overwrite(slot, [lent]);
                }
                (WorkKind::Write(_), TicketState::Pending) => {
                    // Its reads come in first; then it is aborted.
                    self.tickets.disown(slot);
                    continue;
                }
                _ => {}
            }
            self.tickets.remove(slot);
            self.wake();
        }
    }

    /// Writes zeros to `range`, which lies in one block below the end of the
    /// cache's file, whether or not it lies below its size. Busy until that is
    /// done. Where there is only a hole, nothing is to be done.
    pub(super) fn zero_in_block(&mut self, file: Key, range: FileRange) -> Result<(), Refusal> {
        if range.is_empty() {
            return Ok(());
        }
        self.zeros_failed(file)?;
        let block = self.config.block_size;
        if self.find_folio(file, range.start()).is_none() {
            let start = FileOffset::new(block.floor(range.start().get()));
            let asked = FileRange::clamped(start, FileOffset::new(block.ceil(range.end().get())));
            let id = self.files.get(file).ok_or(Refusal::NotOpen)?.id;
            let extent = self.mapping.map(id, asked).map_err(Refusal::Failed)?;
            if !matches!(extent.kind, ExtentKind::Data(_)) {
                return Ok(());
            }
        }
        // They make a block dirty, as any write does (C5).
        if !self.is_dirty_in(file, range) {
            self.throttle(file)?;
        }
        let folio = self.bring_in(file, range.start(), block.bytes())?;
        let (range, write) = self.begin_write(folio, range)?;
        let kind = WorkKind::Zeros(write);
        let slot = self.tickets.add_own((file, folio), range, kind);
        let slot = slot.ok_or(Refusal::Failed(ErrorClass::NoMemory))?;
        if let Some(folio) = self.folios.get_mut(folio) {
            folio.owner = Owner::Writer(slot);
        }
        self.advance_write(slot);
        self.zeros_failed(file)?;
        match self.tickets.get(slot) {
            None => Ok(()),
            Some(_) => Err(self.busy()),
        }
    }

    /// Whether a block that `range` meets is dirty; it lies in one block.
    pub(super) fn is_dirty_in(&mut self, file: Key, range: FileRange) -> bool {
        let folio = self.find_folio(file, range.start());
        let folio = folio.and_then(|folio| self.folios.get(folio));
        folio.is_some_and(|folio| {
            let met = folio.geometry().blocks_meeting(range);
            folio.state.dirty().any_in(met)
        })
    }

    /// The error of the last write of zeros, told once.
    fn zeros_failed(&mut self, file: Key) -> Result<(), Refusal> {
        let file = self.files.get_mut(file).ok_or(Refusal::NotOpen)?;
        file.zeros_error
            .take()
            .map_or(Ok(()), |class| Err(Refusal::Failed(class)))
    }

    /// Holds writers back while too much is dirty; answers how many bytes more
    /// may become dirty (C5).
    fn throttle(&mut self, file: Key) -> Result<u64, Refusal> {
        let (over, room) = self.dirty_room(file)?;
        if room > 0 {
            return Ok(room);
        }
        let stalled = self.files.get(file).and_then(|file| file.stalled);
        if over {
            self.write_back_all();
        } else {
            self.write_back(file, WHOLE);
        }
        // What lay past the end is clean without I/O: there is nothing to wait for.
        let (_, room) = self.dirty_room(file)?;
        if room > 0 {
            return Ok(room);
        }
        // What cannot be written is told to the writer, who would wait for ever.
        match stalled {
            Some(class) => Err(Refusal::Failed(class)),
            None => Err(self.busy()),
        }
    }

    /// Whether too much is dirty in all files together, and how many bytes more
    /// may become dirty in this one.
    pub(super) fn dirty_room(&self, file: Key) -> Result<(bool, u64), Refusal> {
        let config = &self.config;
        let of_file = self.files.get(file).ok_or(Refusal::NotOpen)?;
        // What the device has not answered is not on it yet: that memory is not free.
        let held = self.dirty_bytes.saturating_add(self.sent_bytes);
        let held = held.saturating_add(self.lent_bytes);
        let all = config.dirty_bytes_max.get().saturating_sub(held);
        let held = of_file.dirty_bytes.saturating_add(of_file.sent_bytes);
        let held = held.saturating_add(of_file.lent_bytes);
        let own = config.file_dirty_bytes_max.get().saturating_sub(held);
        Ok((all == 0, all.min(own)))
    }

    /// The front of `range` that may become dirty within `room` bytes, and at
    /// least the part in its first block.
    fn in_room(&self, range: FileRange, room: u64) -> FileRange {
        let block = self.config.block_size;
        let start = block.floor(range.start().get());
        let end = start.saturating_add(block.floor(room).max(block.bytes()));
        FileRange::clamped(range.start(), range.end().min(FileOffset::new(end)))
    }

    /// Cuts `range` to the folio, reserves its space and begins its walk.
    fn begin_write(
        &mut self,
        key: Key,
        range: FileRange,
    ) -> Result<(FileRange, BufferedWrite<ErrorClass>), Refusal> {
        let Some(folio) = self.folios.get_mut(key) else {
            return Err(Refusal::Failed(ErrorClass::Io));
        };
        if folio.owner != Owner::None || folio.wanted {
            return Err(self.busy());
        }
        let geometry = folio.geometry();
        let range = geometry.range().overlap(range);
        let range = range.ok_or(Refusal::Failed(ErrorClass::Io))?;
        let write = BufferedWrite::begin(&folio.state, range)
            .map_err(|_| Refusal::Failed(ErrorClass::Io))?;
        let blocks = geometry.blocks_meeting(range);
        if let Err(class) = self.reserve(key, blocks) {
            self.unreserve_clean(key, blocks);
            return Err(Refusal::Failed(class));
        }
        Ok((range, write))
    }

    /// Gives back what was reserved for blocks that did not become dirty.
    pub(super) fn unreserve_clean(&mut self, key: Key, blocks: BlockRange) {
        let mut rest = blocks;
        while let Some(folio) = self.folios.get(key)
            && let Some(clean) = folio.state.dirty().next_gap(rest)
        {
            self.unreserve(key, clean);
            rest = BlockRange::clamped(clean.end().get(), rest.end().get());
        }
    }

    /// Steps the walk of a write as far as it goes.
    fn advance_write(&mut self, slot: Key) {
        // What the steps make dirty is accounted for when the write is over.
        let mut dirty_before = None;
        loop {
            let Some(work) = self.tickets.get_mut(slot) else {
                return;
            };
            let (file, key, range) = (work.file, work.folio, work.range);
            let (write, zeros) = match &mut work.kind {
                WorkKind::Write(write) => (write, false),
                WorkKind::Zeros(write) => (write, true),
                _ => return,
            };
            let Some(folio) = self.folios.get_mut(key) else {
                return;
            };
            let blocks = folio.geometry().blocks_meeting(range);
            let before = *dirty_before.get_or_insert_with(|| folio.dirty_in(blocks));
            let (state, mut maps) = folio.parts();
            let mut cx = WriteContext {
                folio: state,
                maps: &mut maps,
            };
            let ask = write.step(&mut cx);
            match ask {
                Ask::Map(block) => {
                    let asked = folio
                        .geometry()
                        .bytes_of(BlockRange::clamped(block.get(), blocks.end().get()));
                    let answer = match self.files.get(file) {
                        Some(file) => self.mapping.map(file.id, asked).map(answer_of),
                        None => Err(ErrorClass::Io),
                    };
                    let (state, mut maps) = folio.parts();
                    let mut cx = WriteContext {
                        folio: state,
                        maps: &mut maps,
                    };
                    write.mapped(answer, &mut cx);
                }
                Ask::Zero(part) => {
                    let place = folio.place_of(part);
                    self.memory.zero(&mut folio.bytes, place);
                }
                Ask::Read(block) => self.read_for_write(slot, block),
                Ask::WaitForReads => return,
                Ask::Copy if zeros => {
                    let place = folio.place_of(range);
                    self.memory.zero(&mut folio.bytes, place);
                    let (state, mut maps) = folio.parts();
                    let mut cx = WriteContext {
                        folio: state,
                        maps: &mut maps,
                    };
                    write.commit(range.len(), &mut cx);
                }
                Ask::Copy => {
                    work.state = TicketState::Ready;
                    if self.tickets.is_disowned(slot) {
                        self.end_write(slot, LenBytes::ZERO);
                        self.tickets.remove(slot);
                    }
                    return;
                }
                Ask::PublishSize(end) => {
                    // Zeros of the engine's own do not make the file longer.
                    if !zeros && let Some(file) = self.files.get_mut(file) {
                        file.i_size = file.i_size.max(end);
                    }
                }
                Ask::Committed(len) => {
                    work.kind = WorkKind::Over(len);
                    let after = folio.dirty_in(blocks);
                    self.account(file, key, before, after);
                    self.release_writer(file, key, blocks);
                    if zeros {
                        self.tickets.remove(slot);
                    }
                    return;
                }
                Ask::Failed(error) => {
                    work.state = TicketState::Failed(class_of(error));
                    work.kind = WorkKind::Over(LenBytes::ZERO);
                    let after = folio.dirty_in(blocks);
                    self.account(file, key, before, after);
                    self.release_writer(file, key, blocks);
                    if zeros && let Some(file) = self.files.get_mut(file) {
                        file.zeros_error = Some(class_of(error));
                    }
                    if self.tickets.is_disowned(slot) {
                        self.tickets.remove(slot);
                    }
                    return;
                }
            }
        }
    }

    /// Commits `copied` bytes of a write that is ready; answers how many stand.
    fn end_write(&mut self, slot: Key, copied: LenBytes) -> LenBytes {
        let Some(work) = self.tickets.get_mut(slot) else {
            return LenBytes::ZERO;
        };
        let WorkKind::Write(write) = &mut work.kind else {
            return LenBytes::ZERO;
        };
        if let Some(folio) = self.folios.get_mut(work.folio) {
            let (state, mut maps) = folio.parts();
            let mut cx = WriteContext {
                folio: state,
                maps: &mut maps,
            };
            write.commit(copied, &mut cx);
        }
        self.advance_write(slot);
        let Some(work) = self.tickets.get(slot) else {
            return LenBytes::ZERO;
        };
        let WorkKind::Over(len) = work.kind else {
            return LenBytes::ZERO;
        };
        // What was copied past the end and does not stand must not be seen when
        // the file grows over it (V15).
        let size = self
            .files
            .get(work.file)
            .map_or(SIZE_MAX, |file| file.i_size);
        let behind = FileRange::clamped(size.max(work.range.start()), work.range.end());
        if !behind.is_empty()
            && let Some(folio) = self.folios.get_mut(work.folio)
        {
            let place = folio.place_of(behind);
            self.memory.zero(&mut folio.bytes, place);
        }
        len
    }

    /// A write of a folio is over.
    pub(super) fn release_writer(&mut self, file: Key, key: Key, blocks: BlockRange) {
        self.unreserve_clean(key, blocks);
        if let Some(folio) = self.folios.get_mut(key) {
            folio.owner = Owner::None;
            let range = folio.geometry().range();
            if core::mem::take(&mut folio.wanted) {
                self.write_back(file, range);
            }
        }
        self.step_syncs();
        self.wake();
    }

    /// Begins to read a block that a write covers in part.
    fn read_for_write(&mut self, slot: Key, block: BlockIndex) {
        let Some(work) = self.tickets.get(slot) else {
            return;
        };
        let (file, key) = (work.file, work.folio);
        let (Some(file), Some(folio)) = (self.files.get(file), self.folios.get(key)) else {
            return;
        };
        let blocks = BlockRange::one(block);
        let range = folio.geometry().bytes_of(blocks);
        let id = file.id;
        match self.mapping.map(id, range) {
            Ok(extent) if extent.range.covers(range) => {
                if let ExtentKind::Data(disk) = extent.kind {
                    let into = range.start().distance_from(extent.range.start());
                    let Some(disk) = disk.checked_add(into) else {
                        return self.finish_write_read(key, slot, block, Err(ErrorClass::Io));
                    };
                    let io = self.new_io(Io::WriteRead {
                        folio: key,
                        slot,
                        blocks,
                    });
                    self.effects.push_back(Effect::Read {
                        io,
                        file: id,
                        disk,
                        len: range.len(),
                    });
                    return;
                }
                // Mapped when it was asked, a hole by now: it reads as zero.
                if let Some(folio) = self.folios.get_mut(key) {
                    let place = folio.place_of(range);
                    self.memory.zero(&mut folio.bytes, place);
                }
                self.finish_write_read(key, slot, block, Ok(()));
            }
            Ok(_) => self.finish_write_read(key, slot, block, Err(ErrorClass::Io)),
            Err(class) => self.finish_write_read(key, slot, block, Err(class)),
        }
    }

    pub(super) fn complete_write_read(
        &mut self,
        key: Key,
        slot: Key,
        blocks: BlockRange,
        result: Result<(), ErrorClass>,
    ) {
        self.finish_write_read(key, slot, blocks.start(), result);
        self.advance_write(slot);
        self.waiting = true;
    }

    fn finish_write_read(
        &mut self,
        key: Key,
        slot: Key,
        block: BlockIndex,
        result: Result<(), ErrorClass>,
    ) {
        let (Some(work), Some(folio)) = (self.tickets.get_mut(slot), self.folios.get_mut(key))
        else {
            return;
        };
        let (state, mut maps) = folio.parts();
        let mut cx = WriteContext {
            folio: state,
            maps: &mut maps,
        };
        if let WorkKind::Write(write) | WorkKind::Zeros(write) = &mut work.kind {
            write.read_done(block, result, &mut cx);
        }
    }
}

/// What the map says, in the words of the walk: space was promised, so a hole
/// is a delayed place.
fn answer_of(extent: crate::FileExtent) -> MapAnswer {
    MapAnswer {
        range: extent.range,
        kind: match extent.kind {
            ExtentKind::Hole => MappingKind::Delay,
            ExtentKind::Data(_) => MappingKind::Mapped,
            ExtentKind::Unwritten(_) => MappingKind::Unwritten,
        },
    }
}

fn class_of(error: WriteError<ErrorClass>) -> ErrorClass {
    match error {
        WriteError::Map { error, .. } | WriteError::Read { error, .. } => error,
        WriteError::BadMapping { .. } => ErrorClass::Io,
    }
}
