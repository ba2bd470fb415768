//! File handles.

use std::fmt;
use std::io::{IoSlice, IoSliceMut};

use extentwise_engine::{
    CloseReason, ErrorClass, FileId, FileOffset, FileRange, HandleId, Host, LenBytes, Mapping,
    Refusal, SyncId, TicketState,
};

use crate::cache::State;
use crate::lease::Leases;
use crate::sync::{Arc, MutexGuard};
use crate::{Cursor, PageCache};

/// Whether a call waits for what is in its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Patience {
    /// It waits.
    #[default]
    Wait,
    /// It is refused as [`Busy`](Refusal::Busy) instead.
    Try,
}

/// What is durable when a write through the cache ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durable {
    /// The bytes, and the size as far as it takes to read them (`RWF_DSYNC`).
    Data,
    /// All that is dirty in the file, and its size (`RWF_SYNC`).
    File,
}

/// An open file of a [`PageCache`]; any number of threads may share it.
///
/// Dropping it syncs and closes it; what the last handle of a file cannot write
/// then is told to the host as lost ([`Host::lost`]). [`close`](Self::close) answers errors instead
/// and loses nothing.
#[derive(Debug)]
pub struct File<P, H>
where
    P: Mapping + Send + 'static,
    H: Host<P> + Send + Sync + 'static,
{
    cache: PageCache<P, H>,
    handle: HandleId,
    id: FileId,
    leases: Arc<Leases>,
    open: bool,
}

/// A file that was not closed: here it is again, with its dirty data (C6).
pub struct CloseError<P, H>
where
    P: Mapping + Send + 'static,
    H: Host<P> + Send + Sync + 'static,
{
    /// The file, still open.
    pub file: File<P, H>,
    /// Why.
    pub reason: CloseReason,
}

impl<P, H> File<P, H>
where
    P: Mapping + Send + 'static,
    H: Host<P> + Send + Sync + 'static,
{
    pub(crate) fn new(
        cache: PageCache<P, H>,
        (handle, id): (HandleId, FileId),
        leases: Leases,
    ) -> Self {
        Self {
            cache,
            handle,
            id,
            leases: Arc::new(leases),
            open: true,
        }
    }

    /// The size in bytes.
    pub fn size(&self) -> Result<u64, Refusal> {
        let state = self.cache.shared().lock();
        state.engine.size(self.handle).map(FileOffset::get)
    }

    /// Writes all of `bytes` at `at`. An error comes with how many bytes from
    /// the start stand.
    pub fn write_at(&self, at: u64, bytes: &[u8]) -> Result<(), (usize, Refusal)> {
        let mut done = 0;
        while done < bytes.len() {
            let rest = bytes.get(done..).unwrap_or_default();
            let start = at.checked_add(done as u64);
            let written = start
                .ok_or(Refusal::Failed(ErrorClass::TooLarge))
                .and_then(|start| self.write_part(start, rest, Patience::Wait));
            match written {
                Ok(len) => done += len,
                Err(refusal) => return Err((done, refusal)),
            }
        }
        Ok(())
    }

    /// Writes the front of `bytes` at `at`, as far as it lies in one folio and
    /// dirty memory has room; answers how many bytes that were.
    #[inline]
    pub fn write_part(&self, at: u64, bytes: &[u8], patience: Patience) -> Result<usize, Refusal> {
        match self.leases.write(at, bytes) {
            Some(len) => Ok(len),
            None => self.write_unlent(at, bytes, patience),
        }
    }

    /// As [`write_part`](Self::write_part), to bytes that are not lent yet, or
    /// that somebody else has locked.
    fn write_unlent(&self, at: u64, bytes: &[u8], patience: Patience) -> Result<usize, Refusal> {
        let shared = self.cache.shared();
        let mut state = shared.lock();
        if !bytes.is_empty() && state.lend(&self.leases, (self.handle, self.id), at) {
            shared.settle(&mut state);
            drop(state);
            if let Some(len) = self.leases.write(at, bytes) {
                return Ok(len);
            }
            state = shared.lock();
        }
        self.write_held(state, (at, bytes.len()), patience, |into| {
            let from = bytes.get(..into.len()).unwrap_or_default();
            into[..from.len()].copy_from_slice(from);
            from.len()
        })
    }

    /// As [`write_part`](Self::write_part), for `len` bytes that `fill` makes: it
    /// is called once with the memory, which may hold anything, and answers how
    /// many bytes from its start it filled. No lock but the folio's is held
    /// while it runs.
    pub fn write_with(
        &self,
        at: u64,
        len: usize,
        patience: Patience,
        fill: impl FnOnce(&mut [u8]) -> usize,
    ) -> Result<usize, Refusal> {
        let state = self.cache.shared().lock();
        self.write_held(state, (at, len), patience, fill)
    }

    fn write_held(
        &self,
        state: MutexGuard<'_, State<P>>,
        (at, len): (u64, usize),
        patience: Patience,
        fill: impl FnOnce(&mut [u8]) -> usize,
    ) -> Result<usize, Refusal> {
        let range = range_of(at, len)?;
        let (ticket, mut state) = self.attempt(state, patience, |state| {
            state.engine.prepare_write(self.handle, range)
        })?;
        loop {
            match state.engine.write_state(&ticket) {
                TicketState::Ready => break,
                TicketState::Failed(class) => return Err(Refusal::Failed(class)),
                TicketState::Pending => state = self.cache.shared().wait(state, Some(self.id)),
            }
        }
        let target = state.engine.write_target(&ticket);
        let (folio, place) = target
            .map(|(folio, place)| (folio.clone(), place))
            .ok_or(Refusal::Failed(ErrorClass::Io))?;
        drop(state);
        // Nobody but this thread has the ticket; the engine is free meanwhile.
        let copied = {
            let mut folio = folio.write();
            fill(folio.get_mut(place).unwrap_or_default())
        };
        let mut state = self.cache.shared().lock();
        let stands = state
            .engine
            .commit_write(ticket, LenBytes::new(copied as u64));
        self.cache.shared().settle(&mut state);
        Ok(usize::try_from(stands?.get()).unwrap_or(copied))
    }

    /// As [`write_at`](Self::write_at), for the bytes of `parts`, one part behind
    /// the other, as `pwritev` does.
    pub fn write_vectored_at(
        &self,
        at: u64,
        parts: &[IoSlice<'_>],
    ) -> Result<(), (usize, Refusal)> {
        let mut done = 0_usize;
        for part in parts {
            let start = at.checked_add(done as u64);
            let start = start.ok_or((done, Refusal::Failed(ErrorClass::TooLarge)))?;
            self.write_at(start, part)
                .map_err(|(len, refusal)| (done.saturating_add(len), refusal))?;
            done = done.saturating_add(part.len());
        }
        Ok(())
    }

    /// Writes through: as [`write_at`](Self::write_at), and ends when the bytes
    /// are durable. An error with the length of `bytes` means that all of them
    /// stand in the cache, and are not durable.
    pub fn write_through_at(
        &self,
        at: u64,
        bytes: &[u8],
        durable: Durable,
    ) -> Result<(), (usize, Refusal)> {
        self.write_at(at, bytes)?;
        let end = at.saturating_add(bytes.len() as u64);
        let synced = match durable {
            Durable::Data => self.sync_range(at, end),
            Durable::File => self.sync(),
        };
        synced.map_err(|refusal| (bytes.len(), refusal))
    }

    /// Fills the front of `into` from `at` on; answers how many bytes there
    /// were, fewer than asked at the end of the file (C1).
    pub fn read_at(&self, at: u64, into: &mut [u8]) -> Result<usize, Refusal> {
        let mut done = 0;
        while let Some(rest) = into.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let start = at.saturating_add(done as u64);
            match self.read_part(start, rest, Patience::Wait)? {
                0 => break,
                len => done += len,
            }
        }
        Ok(done)
    }

    /// As [`read_at`](Self::read_at), into `parts`, one behind the other, as
    /// `preadv` does.
    pub fn read_vectored_at(
        &self,
        at: u64,
        parts: &mut [IoSliceMut<'_>],
    ) -> Result<usize, Refusal> {
        let mut done = 0_usize;
        for part in parts {
            let len = self.read_at(at.saturating_add(done as u64), part)?;
            done = done.saturating_add(len);
            if len < part.len() {
                break;
            }
        }
        Ok(done)
    }

    /// Fills the front of `into` from `at` on, as far as it lies in one folio;
    /// answers how many bytes that were: none at the end of the file.
    pub fn read_part(
        &self,
        at: u64,
        into: &mut [u8],
        patience: Patience,
    ) -> Result<usize, Refusal> {
        let end = at.saturating_add(into.len() as u64);
        let range = FileRange::clamped(FileOffset::new(at), FileOffset::new(end));
        let state = self.cache.shared().lock();
        let (ticket, mut state) = self.attempt(state, patience, |state| {
            state.engine.prepare_read(self.handle, range)
        })?;
        let Some(ticket) = ticket else {
            return Ok(0);
        };
        loop {
            match state.engine.read_state(&ticket) {
                TicketState::Ready => break,
                TicketState::Failed(class) => return Err(Refusal::Failed(class)),
                TicketState::Pending => state = self.cache.shared().wait(state, Some(self.id)),
            }
        }
        let source = state.engine.read_source(&ticket);
        let (folio, place) = source
            .map(|(folio, place)| (folio.clone(), place))
            .ok_or(Refusal::Failed(ErrorClass::Io))?;
        drop(state);
        let copied = {
            let folio = folio.read();
            let from = folio.get(place).unwrap_or_default();
            let into = into.get_mut(..from.len()).unwrap_or_default();
            into.copy_from_slice(&from[..into.len()]);
            into.len()
        };
        let mut state = self.cache.shared().lock();
        state.engine.end_read(ticket);
        self.cache.shared().settle(&mut state);
        Ok(copied)
    }

    /// Gives the file another size; what is cut off is gone, what is added
    /// reads as zero.
    pub fn resize(&self, size: u64) -> Result<(), Refusal> {
        let size = FileOffset::new(size);
        self.change(|state| state.engine.resize(self.handle, size))
    }

    /// Makes a range read as zero and gives its space back.
    pub fn punch(&self, start: u64, end: u64) -> Result<(), Refusal> {
        let range = FileRange::clamped(FileOffset::new(start), FileOffset::new(end));
        self.change(|state| state.engine.punch(self.handle, range))
    }

    /// Makes durable what is dirty now, and the size. An error is what failed
    /// since this handle's last report (E2).
    pub fn sync(&self) -> Result<(), Refusal> {
        self.sync_with(|state| state.engine.sync(self.handle))
    }

    /// As [`sync`](Self::sync), for the folios that a range meets.
    pub fn sync_range(&self, start: u64, end: u64) -> Result<(), Refusal> {
        let range = FileRange::clamped(FileOffset::new(start), FileOffset::new(end));
        self.sync_with(|state| state.engine.sync_range(self.handle, range))
    }

    /// Syncs and closes the file. Where that fails, the file comes back with
    /// its data: nothing is lost (C6).
    pub fn close(mut self) -> Result<(), CloseError<P, H>> {
        match self.try_close() {
            Ok(()) => Ok(()),
            Err(reason) => Err(CloseError { file: self, reason }),
        }
    }

    /// A reader and writer with a position, for code that wants one.
    #[must_use]
    pub fn cursor(&self) -> Cursor<'_, P, H> {
        Cursor::new(self)
    }

    fn try_close(&mut self) -> Result<(), CloseReason> {
        if let Err(Refusal::Failed(class)) = self.sync() {
            return Err(CloseReason::Failed(class));
        }
        let shared = self.cache.shared();
        let mut state = shared.lock();
        loop {
            state.recall_all();
            match state.engine.close(self.handle) {
                Ok(()) => {
                    self.open = false;
                    shared.settle(&mut state);
                    return Ok(());
                }
                Err(error)
                    if error.reason == CloseReason::Busy && state.engine.is_io_under_way() =>
                {
                    state = shared.wait(state, None);
                }
                Err(error) => return Err(error.reason),
            }
        }
    }

    /// Tries until the engine is not busy; answers with the lock still held.
    /// What is in the way may be lent, to anybody: room for dirty data, space,
    /// memory, a folio.
    fn attempt<'a, T>(
        &'a self,
        mut state: MutexGuard<'a, State<P>>,
        patience: Patience,
        mut call: impl FnMut(&mut State<P>) -> Result<T, Refusal>,
    ) -> Result<(T, MutexGuard<'a, State<P>>), Refusal> {
        let shared = self.cache.shared();
        loop {
            let refusal = match call(&mut state) {
                Ok(value) => return Ok((value, state)),
                Err(refusal) => refusal,
            };
            let may_be_lent = matches!(refusal, Refusal::Busy | Refusal::Failed(_));
            if may_be_lent && state.recall_all() {
                continue;
            }
            if refusal != Refusal::Busy || patience == Patience::Try {
                shared.settle(&mut state);
                return Err(refusal);
            }
            state = shared.wait(state, None);
        }
    }

    /// Changes the file, when nothing of it is lent.
    fn change(
        &self,
        call: impl FnMut(&mut State<P>) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let mut state = self.cache.shared().lock();
        state.recall_all();
        let ((), mut state) = self.attempt(state, Patience::Wait, call)?;
        self.cache.shared().settle(&mut state);
        Ok(())
    }

    /// Begins a sync when everything that was written is known (C4), and waits
    /// for its end.
    fn sync_with(
        &self,
        begin: impl FnOnce(&mut State<P>) -> Result<SyncId, Refusal>,
    ) -> Result<(), Refusal> {
        let mut state = self.cache.shared().lock();
        state.recall_all();
        let sync = begin(&mut state);
        self.cache.shared().settle(&mut state);
        let sync = sync?;
        loop {
            if let Some(nth) = state.ended.iter().position(|(ended, _)| *ended == sync) {
                let (_, result) = state.ended.swap_remove(nth);
                return result.map_err(Refusal::Failed);
            }
            state = self.cache.shared().wait(state, Some(self.id));
        }
    }
}

impl<P, H> fmt::Debug for CloseError<P, H>
where
    P: Mapping + Send + 'static,
    H: Host<P> + Send + Sync + 'static,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("CloseError");
        text.field("reason", &self.reason).finish_non_exhaustive()
    }
}

impl<P, H> fmt::Display for CloseError<P, H>
where
    P: Mapping + Send + 'static,
    H: Host<P> + Send + Sync + 'static,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (handle, reason) = (self.file.handle, self.reason);
        extentwise_engine::CloseError { handle, reason }.fmt(f)
    }
}

impl<P, H> std::error::Error for CloseError<P, H>
where
    P: Mapping + Send + 'static,
    H: Host<P> + Send + Sync + 'static,
{
}

impl<P, H> Drop for File<P, H>
where
    P: Mapping + Send + 'static,
    H: Host<P> + Send + Sync + 'static,
{
    fn drop(&mut self) {
        // Twice: the first close may only report an old error (E1).
        if !self.open || self.try_close().is_ok() || self.try_close().is_ok() {
            return;
        }
        let shared = self.cache.shared();
        let mut state = shared.lock();
        state.recall_all();
        // Not the last handle: the data is for the others to write.
        if state.engine.close(self.handle).is_ok() {
            return shared.settle(&mut state);
        }
        let discard = |state: &mut State<P>| state.engine.discard(self.handle);
        if let Ok(((), mut state)) = self.attempt(state, Patience::Wait, discard) {
            let _ = state.engine.close(self.handle);
            shared.settle(&mut state);
        }
    }
}

fn range_of(at: u64, len: usize) -> Result<FileRange, Refusal> {
    FileRange::at(FileOffset::new(at), LenBytes::new(len as u64)).ok_or(Refusal::Range(
        FileRange::clamped(FileOffset::new(at), FileOffset::MAX),
    ))
}
