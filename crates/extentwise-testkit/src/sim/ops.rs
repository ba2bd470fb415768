//! What callers do.

use extentwise_engine::{
    CloseReason, ErrorPolicy, FileOffset, FileRange, LenBytes, Refusal, TicketState,
};

use super::errors::Owed;
use super::store::{FILES, Store};
use super::world::{Check, Faulting, HeldRead, HeldSync, HeldWrite, Open, World};

/// Handles that a file has open at the most.
const HANDLES_MAX: usize = 3;
const TICKETS_MAX: usize = 6;

impl<S: Store> World<'_, '_, S> {
    pub(super) fn begin_write(&mut self) -> Check {
        if self.writes.len() >= TICKETS_MAX {
            return self.end_some_write();
        }
        let nth = self.some_handle()?;
        let (id, file) = (self.handles[nth].id, self.handles[nth].file);
        let range = self.draw_range();
        self.draw_refusal();
        let begun = self.engine.prepare_write(id, range);
        self.note(|_| {
            format!(
                "file {file}: begin a write of {range}: {:?}",
                begun.as_ref().err()
            )
        });
        match begun {
            Ok(ticket) => {
                let got = ticket.range();
                if got.start() != range.start() || !range.covers(got) || got.is_empty() {
                    return Err(format!("a write of {range} has a ticket for {got}"));
                }
                self.writes.push(HeldWrite { file, ticket });
                self.drain()
            }
            Err(refusal) => self.refused("a write", nth, refusal),
        }
    }

    pub(super) fn end_some_write(&mut self) -> Check {
        if self.writes.is_empty() {
            return self.complete_some();
        }
        let nth = self.choices.index(self.writes.len());
        self.end_write(nth)
    }

    /// Copies and commits all, a part or nothing; or drops the ticket.
    pub(super) fn end_write(&mut self, nth: usize) -> Check {
        let held = &self.writes[nth];
        match self.engine.write_state(&held.ticket) {
            TicketState::Pending => {
                self.owes_wake = true;
                if self.choices.one_in(8) {
                    drop(self.writes.swap_remove(nth));
                }
                return self.drain();
            }
            TicketState::Failed(class) => {
                drop(self.writes.swap_remove(nth));
                return self.check_refusal("a prepared write", class);
            }
            TicketState::Ready => {}
        }
        let HeldWrite { file, ticket } = self.writes.swap_remove(nth);
        let (start, end) = Self::span(ticket.range());
        let len = end - start;
        let copied = match self.choices.below(8) {
            0..=5 => len,
            6 => self.choices.index(len + 1),
            _ => {
                drop(ticket);
                return self.drain();
            }
        };
        let stamp = self.next_stamp();
        let fill = bytes_of(stamp);
        let Some((bytes, place)) = self.engine.write_target(&ticket) else {
            return Err("a write that is ready has no memory".into());
        };
        copy(&mut bytes[place][..copied], start, fill);
        let committed = self
            .engine
            .commit_write(ticket, LenBytes::new(copied as u64));
        let stands = committed.map_err(|refusal| format!("a commit is refused: {refusal}"))?;
        self.note(|_| format!("file {file}: commit {copied} of {len} at {start}: {stands} stand"));
        let stands = Self::len_of(stands);
        if stands > copied || copied == len && stands < len {
            return Err(format!("{stands} of {copied} bytes stand, of {len} (V8)"));
        }
        let model = &mut self.files[file].model;
        model.write(stamp, start, stands, fill);
        model.may_be(stamp, start + stands, start + copied, fill);
        self.drain()
    }

    pub(super) fn begin_read(&mut self) -> Check {
        if self.reads.len() >= TICKETS_MAX {
            return self.end_some_read();
        }
        let nth = self.some_handle()?;
        let range = self.draw_range();
        self.read_range(nth, range)
    }

    pub(super) fn read_range(&mut self, nth: usize, range: FileRange) -> Check {
        let (id, file) = (self.handles[nth].id, self.handles[nth].file);
        self.draw_refusal();
        match self.engine.prepare_read(id, range) {
            Ok(Some(ticket)) => {
                self.reads.push(HeldRead { file, ticket });
                self.drain()
            }
            Ok(None) if range.start().get() >= self.files[file].model.size() => Ok(()),
            Ok(None) => Err(format!("nothing is read of {range}, which is in the file")),
            Err(refusal) => self.refused("a read", nth, refusal),
        }
    }

    pub(super) fn end_some_read(&mut self) -> Check {
        if self.reads.is_empty() {
            return self.complete_some();
        }
        let nth = self.choices.index(self.reads.len());
        self.end_read(nth)
    }

    pub(super) fn end_read(&mut self, nth: usize) -> Check {
        let held = &self.reads[nth];
        match self.engine.read_state(&held.ticket) {
            TicketState::Pending => {
                self.owes_wake = true;
                return self.drain();
            }
            TicketState::Failed(class) => {
                drop(self.reads.swap_remove(nth));
                return self.check_refusal("a read", class);
            }
            TicketState::Ready => {}
        }
        let Some((bytes, place)) = self.engine.read_source(&held.ticket) else {
            return Err("a read that is ready has no bytes".into());
        };
        let (start, _) = Self::span(held.ticket.range());
        let model = &self.files[held.file].model;
        let checked = model.check_read(start, &bytes[place]);
        checked.map_err(|fault| format!("file {}: {fault}", held.file))?;
        let held = self.reads.swap_remove(nth);
        self.engine.end_read(held.ticket);
        self.drain()
    }

    pub(super) fn resize(&mut self) -> Check {
        let nth = self.some_handle()?;
        let size = self.draw_place();
        self.draw_refusal();
        let (id, file) = (self.handles[nth].id, self.handles[nth].file);
        let resized = self.engine.resize(id, FileOffset::new(size));
        self.note(|_| format!("file {file}: resize to {size}: {resized:?}"));
        match resized {
            Ok(()) => {
                let stamp = self.next_stamp();
                self.files[file].model.resize(stamp, size);
                self.drain()
            }
            Err(refusal) => self.refused("a resize", nth, refusal),
        }
    }

    pub(super) fn punch(&mut self) -> Check {
        let nth = self.some_handle()?;
        let range = self.draw_range();
        self.draw_refusal();
        let (id, file) = (self.handles[nth].id, self.handles[nth].file);
        let (start, end) = Self::span(range);
        let result = self.engine.punch(id, range);
        self.note(|_| format!("file {file}: punch {range}: {result:?}"));
        let stamp = self.next_stamp();
        let model = &mut self.files[file].model;
        if result.is_ok() {
            model.punch(stamp, start, end);
            return self.drain();
        }
        // The blocks that it meets in part may be zero already.
        let block = Self::len_of(LenBytes::new(self.setup.block_bytes));
        let first = start.next_multiple_of(block).min(end);
        model.may_be_zero(stamp, start, first);
        model.may_be_zero(stamp, (end - end % block).max(first), end);
        result.or_else(|refusal| self.refused("a punch", nth, refusal))
    }

    pub(super) fn sync(&mut self) -> Check {
        let nth = self.some_handle()?;
        self.sync_by(nth, None)
    }

    pub(super) fn sync_range(&mut self) -> Check {
        let nth = self.some_handle()?;
        let range = self.draw_range();
        self.sync_by(nth, Some(range))
    }

    pub(super) fn sync_by(&mut self, nth: usize, range: Option<FileRange>) -> Check {
        let (handle, file) = (self.handles[nth].id, self.handles[nth].file);
        let begun = match range {
            Some(range) => self.engine.sync_range(handle, range),
            None => self.engine.sync(handle),
        };
        let id = match begun {
            Ok(id) => id,
            Err(refusal) => return self.refused("a sync", nth, refusal),
        };
        self.syncs.push(HeldSync {
            id,
            handle,
            file,
            stamp: self.committed_before(file),
            range: range.map(Self::span),
            void: false,
        });
        self.note(|_| format!("file {file}: begin a sync of {range:?}: {id:?}"));
        self.drain()
    }

    pub(super) fn sync_ended(
        &mut self,
        id: extentwise_engine::SyncId,
        result: Result<(), extentwise_engine::ErrorClass>,
    ) -> Check {
        self.note(|_| format!("{id:?} ended: {result:?}"));
        let nth = self.syncs.iter().position(|sync| sync.id == id);
        let nth = nth.ok_or("a sync ended twice")?;
        let sync = self.syncs.swap_remove(nth);
        let handle = self.handles.iter().position(|open| open.id == sync.handle);
        self.reported(handle.ok_or("a handle was closed over a sync")?, result)?;
        if result.is_err() || sync.void {
            return Ok(());
        }
        self.tally.syncs += 1;
        self.files[sync.file].model.promise(sync.stamp, sync.range);
        S::check_map(self.engine.mapping())?;
        self.check_durable(sync.file)
    }

    pub(super) fn open_some(&mut self) -> Check {
        let file = self.choices.index(FILES);
        self.open(file).map(|_| ())
    }

    /// Opens a handle of the file, or answers one where it has many.
    pub(super) fn open(&mut self, file: usize) -> Result<usize, String> {
        let open = |world: &Self| {
            let mut of_file = world.handles.iter().enumerate();
            let count = of_file
                .clone()
                .filter(|(_, open)| open.file == file)
                .count();
            let nth = of_file.find(|(_, open)| open.file == file);
            nth.filter(|_| count >= HANDLES_MAX).map(|(nth, _)| nth)
        };
        if let Some(nth) = open(self) {
            return Ok(nth);
        }
        self.open_new(file)
    }

    pub(super) fn open_new(&mut self, file: usize) -> Result<usize, String> {
        let opened = self.engine.open(Self::file_id(file), FileOffset::ZERO);
        let id = opened.map_err(|refusal| format!("an open is refused: {refusal}"))?;
        self.note(|_| format!("file {file}: open {id:?}"));
        self.handles.push(Open {
            id,
            file,
            owes: self.owed_at_open(file),
            early: self.files[file].unsettled,
        });
        Ok(self.handles.len() - 1)
    }

    pub(super) fn close_some(&mut self) -> Check {
        let nth = self.some_handle()?;
        self.close(nth).map(|_| ())
    }

    /// Closes a handle; whether it is closed.
    pub(super) fn close(&mut self, nth: usize) -> Result<bool, String> {
        let (id, file, owes) = {
            let open = &self.handles[nth];
            (open.id, open.file, open.owes)
        };
        let last = self.handles.iter().filter(|open| open.file == file).count() == 1;
        let closed = self.engine.close(id);
        self.note(|_| format!("file {file}: close {id:?}: {closed:?}"));
        let Err(error) = closed else {
            self.handles.swap_remove(nth);
            return match owes {
                Owed::Yes => Err("a handle was closed over an error (C6)".into()),
                _ => Ok(true),
            };
        };
        match error.reason {
            CloseReason::NotOpen => Err("an open handle is not open".into()),
            CloseReason::Dirty(_) if !last => Err("a handle is not closed for dirty data".into()),
            CloseReason::Dirty(_) => Ok(false),
            CloseReason::Busy => {
                let syncing = self.syncs.iter().any(|sync| sync.handle == id);
                if self.is_at_rest() && !syncing {
                    return Err("a close is busy, and nothing is under way".into());
                }
                Ok(false)
            }
            CloseReason::Failed(class) => self.reported(nth, Err(class)).map(|()| false),
        }
    }

    pub(super) fn check_errors(&mut self) -> Check {
        let nth = self.some_handle()?;
        let checked = self.engine.check_errors(self.handles[nth].id);
        self.note(|world| {
            let open = &world.handles[nth];
            format!("file {}: check {:?}: {checked:?}", open.file, open.id)
        });
        match checked {
            Ok(()) => self.reported(nth, Ok(())),
            Err(Refusal::Failed(class)) => self.reported(nth, Err(class)),
            Err(refusal) => Err(format!("a check for errors is refused: {refusal}")),
        }
    }

    pub(super) fn tick(&mut self) -> Check {
        self.now_nanos += self.choices.below(40) * 1_000_000_000;
        self.engine.tick(self.now_nanos);
        self.drain()
    }

    pub(super) fn drop_clean(&mut self) -> Check {
        self.engine.drop_clean();
        self.note(|_| "drop what is clean".into());
        self.drain()
    }

    pub(super) fn discard(&mut self) -> Check {
        if !self.choices.one_in(3) {
            return self.end_some_write();
        }
        let nth = self.some_handle()?;
        let (id, file) = (self.handles[nth].id, self.handles[nth].file);
        let discarded = self.engine.discard(id);
        self.note(|_| format!("file {file}: discard: {discarded:?}"));
        match discarded {
            Ok(()) => {
                self.discarding = true;
                let drained = self.drain();
                self.discarding = false;
                drained?;
                let size = self.engine.size(id);
                let size = size.map_err(|_| "an open handle is not open")?.get();
                let stamp = self.next_stamp();
                self.files[file].model.resize(stamp, size);
                Ok(())
            }
            Err(refusal) => self.refused("a discard", nth, refusal),
        }
    }

    /// An open handle; opened if there is none.
    pub(super) fn some_handle(&mut self) -> Result<usize, String> {
        if self.handles.is_empty() {
            let file = self.choices.index(FILES);
            return self.open(file);
        }
        Ok(self.choices.index(self.handles.len()))
    }

    fn refused(&mut self, what: &str, nth: usize, refusal: Refusal) -> Check {
        match refusal {
            Refusal::Busy => self.told_to_wait(what),
            Refusal::Failed(class) => {
                self.check_refusal(what, class)?;
                self.drain()
            }
            Refusal::Latched(class) => {
                if self.setup.policy != ErrorPolicy::Latch {
                    return Err(format!("{what} is refused by a latch of another policy"));
                }
                self.check_refusal(what, class)?;
                self.replace(nth)
            }
            Refusal::NotOpen | Refusal::Range(_) => Err(format!("{what} is refused: {refusal}")),
        }
    }

    /// Opens a latched file again (C2).
    fn replace(&mut self, nth: usize) -> Check {
        let file = self.handles[nth].file;
        self.open_new(file)?;
        if !self.close(nth)? {
            self.close(nth)?;
        }
        self.drain()
    }

    /// Lets memory be refused soon, now and then.
    fn draw_refusal(&mut self) {
        let due = self.faulting == Faulting::Drawn && self.choices.one_in(16);
        self.refusals.refuse_nth(u64::from(due));
        self.failed_once |= due;
    }
}

/// What a write at a time fills each sector of a file with.
pub(super) fn bytes_of(stamp: u64) -> impl Fn(usize) -> u8 + Copy {
    move |sector| {
        let number = stamp.wrapping_mul(7).wrapping_add(sector as u64 * 31);
        u8::try_from(1 + number % 250).unwrap_or(1)
    }
}

/// Copies a write's bytes into memory that lies at `start` of the file.
pub(super) fn copy(into: &mut [u8], start: usize, fill: impl Fn(usize) -> u8) {
    let end = start + into.len();
    let mut at = start;
    while at < end {
        let next = (at / 512 * 512 + 512).min(end);
        into[at - start..next - start].fill(fill(at / 512));
        at = next;
    }
}
