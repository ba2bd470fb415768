//! The end of a simulation: everything comes to rest, and is where it must be.

use extentwise_engine::{FileOffset, FileRange, Refusal};

use super::model::LEN;
use super::store::{FILES, Store};
use super::world::{Check, Faulting, World};
use crate::device::FaultPlan;

/// Steps in which a simulation comes to rest; hundreds are ordinary.
const STEPS_MAX: usize = 20_000;

impl<S: Store> World<'_, '_, S> {
    /// Carries out all effects and ends all tickets, in some order.
    pub(super) fn come_to_rest(&mut self) -> Check {
        for _ in 0..STEPS_MAX {
            self.drain()?;
            if !self.ios.is_empty() {
                self.complete_some()?;
            } else if !self.loans.is_empty() {
                self.end_loan(0)?;
            } else if !self.writes.is_empty() {
                let before = self.writes.len();
                self.end_some_write()?;
                if self.ios.is_empty() && self.writes.len() == before {
                    return Err("a prepared write waits, and nothing is under way".into());
                }
            } else if !self.reads.is_empty() {
                let before = self.reads.len();
                self.end_some_read()?;
                if self.ios.is_empty() && self.reads.len() == before {
                    return Err("a read waits, and nothing is under way".into());
                }
            } else {
                // What dropped tickets held is given up at the next call.
                self.drop_clean()?;
                if self.ios.is_empty() {
                    return self.check_rest();
                }
            }
        }
        Err("it does not come to rest".into())
    }

    fn check_rest(&mut self) -> Check {
        self.look()?;
        if self.engine.is_io_under_way() {
            return Err("an effect was never handed out".into());
        }
        if !self.syncs.is_empty() {
            return Err("a sync waits, and nothing is under way".into());
        }
        if self.owes_wake {
            return Err("somebody was told to wait, and is not woken".into());
        }
        Ok(())
    }

    /// With devices as bad as they are: whoever is told that a file is durable
    /// can rely on it; everybody gets an answer.
    pub(super) fn end_in_trouble(&mut self) -> Check {
        self.come_to_rest()?;
        for file in 0..FILES {
            let nth = self.open(file)?;
            self.sync_by(nth, None)?;
            self.come_to_rest()?;
        }
        Ok(())
    }

    /// With devices that work again: everything that was written, and not told
    /// to be lost, becomes durable and is read.
    pub(super) fn end_in_peace(&mut self) -> Check {
        self.faulting = Faulting::Never;
        self.late = None;
        self.refusals.refuse_nth(0);
        for disk in self.store.disks() {
            disk.set_plan(FaultPlan::new());
        }
        self.come_to_rest()?;
        for file in 0..FILES {
            let nth = self.open_new(file)?;
            self.make_durable(nth)?;
        }
        let dirty = self.engine.dirty_bytes();
        if !dirty.is_zero() {
            return Err(format!("{dirty} are dirty behind a sync of every file"));
        }
        self.drop_clean()?;
        let cached = self.engine.cached_bytes();
        if !cached.is_zero() {
            return Err(format!("{cached} stay cached, and nobody uses them"));
        }
        for file in 0..FILES {
            self.read_all(file)?;
            self.is_open_to_writers(file)?;
        }
        self.close_all()
    }

    /// Syncs until no error is left to report.
    fn make_durable(&mut self, nth: usize) -> Check {
        let file = self.handles[nth].file;
        for _ in 0..3 {
            let before = self.tally.syncs;
            self.sync_by(nth, None)?;
            self.come_to_rest()?;
            if self.tally.syncs > before {
                return Ok(());
            }
        }
        Err(format!("file {file}: no sync succeeds on a sound device"))
    }

    fn read_all(&mut self, file: usize) -> Check {
        let nth = self.handles.iter().position(|open| open.file == file);
        let nth = nth.ok_or("a handle is gone")?;
        let id = self.handles[nth].id;
        let size = self
            .engine
            .size(id)
            .map_err(|_| "a handle is not open")?
            .get();
        let model = self.files[file].model.size();
        if size != model {
            return Err(format!("file {file}: its size is {size}, not {model}"));
        }
        let mut at = 0;
        while at < size {
            let range = FileRange::clamped(FileOffset::new(at), FileOffset::new(LEN as u64));
            self.read_range(nth, range)?;
            let Some(read) = self.reads.last() else {
                return Err(format!("file {file}: nothing is read at {at}"));
            };
            at = read.ticket.range().end().get();
            self.come_to_rest()?;
        }
        Ok(())
    }

    fn is_open_to_writers(&mut self, file: usize) -> Check {
        let nth = self.handles.iter().rposition(|open| open.file == file);
        let nth = nth.ok_or("a handle is gone")?;
        let id = self.handles[nth].id;
        let range = FileRange::clamped(FileOffset::ZERO, FileOffset::new(1));
        match self.engine.prepare_write(id, range) {
            Ok(ticket) => drop(ticket),
            Err(Refusal::Failed(class)) => self.check_refusal("a write", class)?,
            Err(refusal) => return Err(format!("a write at rest is refused: {refusal}")),
        }
        self.come_to_rest()?;
        // A hole that was to be written is zeros by now, which are dirty (V16).
        self.make_durable(nth)
    }

    fn close_all(&mut self) -> Check {
        while let Some(nth) = self.handles.len().checked_sub(1) {
            // The first try may report an error.
            if !self.close(nth)? && !self.close(nth)? {
                let id = self.handles[nth].id;
                let reason = self.engine.close(id);
                return Err(format!("a handle at rest is not closed: {reason:?}"));
            }
        }
        Ok(())
    }
}
