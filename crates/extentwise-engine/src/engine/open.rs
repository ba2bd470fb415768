//! Files and handles.

use extentwise_core::errseq::ErrorClass;
use extentwise_core::geometry::{FileOffset, FileRange, LenBytes};

use super::{Engine, WHOLE};
use crate::file::{File, Handle};
use crate::folio::Owner;
use crate::slab::Key;
use crate::{Effect, FileId, Loss, Mapping, Memory, Refusal};

/// An open handle on a file; closed by [`Engine::close`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HandleId {
    slot: Key,
    serial: u32,
}

/// A handle that was not closed, and why. It is as it was: nothing is lost (C6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloseError {
    /// The handle, still open.
    pub handle: HandleId,
    /// Why.
    pub reason: CloseReason,
}

/// Why a handle was not closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// It is not open.
    NotOpen,
    /// It is the last handle of a file with so many dirty bytes: sync it, or
    /// [`discard`](Engine::discard) them.
    Dirty(LenBytes),
    /// Reads, writes or writeback of the file are under way.
    Busy,
    /// Writeback failed since this handle's last report, which this is (E1); the
    /// next close may succeed.
    Failed(ErrorClass),
}

impl core::fmt::Display for CloseError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.reason {
            CloseReason::NotOpen => f.write_str("close: no such open handle"),
            CloseReason::Dirty(len) => {
                write!(
                    f,
                    "close: {len} dirty bytes: sync them or discard them first"
                )
            }
            CloseReason::Busy => f.write_str("close: reads, writes or writeback are under way"),
            CloseReason::Failed(class) => write!(f, "close: writeback failed: {class}"),
        }
    }
}

impl core::error::Error for CloseError {}

impl<M: Memory, P: Mapping> Engine<M, P> {
    /// Opens a file that has `size` bytes on record. A file that the engine
    /// knows already keeps the size that it has. A handle opened after an error
    /// that nobody has seen yet will see it (E1), and none that was latched
    /// (C2).
    pub fn open(&mut self, id: FileId, size: FileOffset) -> Result<HandleId, Refusal> {
        self.reap();
        let full = Refusal::Failed(ErrorClass::NoMemory);
        let key = if let Some(key) = self.by_id.get(&id) {
            *key
        } else {
            let file = File::new(id, size, &self.config);
            let key = self.files.insert(file).map_err(|_| full)?;
            self.by_id.insert(id, key);
            key
        };
        let file = self.files.get_mut(key).ok_or(Refusal::NotOpen)?;
        self.serials = self.serials.wrapping_add(1);
        let handle = Handle {
            file: key,
            serial: self.serials,
            cursor: file.errors.open(),
            latched: None,
        };
        let slot = self.handles.insert(handle).map_err(|_| full)?;
        file.handles = file.handles.saturating_add(1);
        Ok(HandleId {
            slot,
            serial: self.serials,
        })
    }

    /// The size of the file.
    pub fn size(&self, handle: HandleId) -> Result<FileOffset, Refusal> {
        let file = self.handle(handle)?.file;
        let file = self.files.get(file).ok_or(Refusal::NotOpen)?;
        Ok(file.i_size)
    }

    /// The size that the file has on record: what a crash after the last sync
    /// leaves (S4).
    pub fn recorded_size(&self, handle: HandleId) -> Result<FileOffset, Refusal> {
        let file = self.handle(handle)?.file;
        let file = self.files.get(file).ok_or(Refusal::NotOpen)?;
        Ok(file.recorded)
    }

    /// Whether anything failed since the handle's last report, which this is
    /// (E1).
    pub fn check_errors(&mut self, handle: HandleId) -> Result<(), Refusal> {
        let file = self.handle(handle)?.file;
        let file = self.files.get_mut(file).ok_or(Refusal::NotOpen)?;
        let handle = self.handles.get_mut(handle.slot).ok_or(Refusal::NotOpen)?;
        file.errors
            .check(&mut handle.cursor)
            .map_err(Refusal::Failed)
    }

    /// Closes a handle. The last one of a file is not closed while data is dirty
    /// or under way, and none while it has an error to report (C6). The file's
    /// clean folios stay cached.
    pub fn close(&mut self, id: HandleId) -> Result<(), CloseError> {
        self.reap();
        let fail = |reason| Err(CloseError { handle: id, reason });
        let Ok(handle) = self.handle(id).copied() else {
            return fail(CloseReason::NotOpen);
        };
        let Some(file) = self.files.get(handle.file) else {
            return fail(CloseReason::NotOpen);
        };
        if let Some(class) = file.errors.peek(&handle.cursor) {
            // The report counts as made only because it is made here.
            let _ = self.check_errors(id);
            return fail(CloseReason::Failed(class));
        }
        if file.handles <= 1 {
            if file.dirty_bytes > 0 {
                return fail(CloseReason::Dirty(LenBytes::new(file.dirty_bytes)));
            }
            if !file.in_flight.is_empty() || self.is_file_held(handle.file) {
                self.waiting = true;
                return fail(CloseReason::Busy);
            }
        }
        if self.syncs.values().any(|sync| sync.is_of(id)) {
            self.waiting = true;
            return fail(CloseReason::Busy);
        }
        if let Some(file) = self.files.get_mut(handle.file) {
            file.handles = file.handles.saturating_sub(1);
        }
        self.handles.remove(id.slot);
        Ok(())
    }

    /// Throws the file's dirty data away and tells so, range by range
    /// ([`Effect::Lost`]): what a host does with a handle that was dropped
    /// (C6). Refused as busy while reads, writes or writeback are under way.
    pub fn discard(&mut self, id: HandleId) -> Result<(), Refusal> {
        self.reap();
        let key = self.handle(id)?.file;
        let file = self.files.get(key).ok_or(Refusal::NotOpen)?;
        if !file.in_flight.is_empty() || self.is_file_held(key) {
            return Err(self.busy());
        }
        let (id, recorded, whole) = (file.id, file.recorded, file.i_size);
        let dirty: alloc::vec::Vec<Key> = file.dirty.values().copied().collect();
        for folio in dirty {
            let Some(state) = self.folios.get(folio).map(|folio| &folio.state) else {
                continue;
            };
            let geometry = state.geometry();
            let runs: alloc::vec::Vec<_> = state.dirty().runs(geometry.all()).collect();
            for run in runs {
                let range = geometry.bytes_of(run);
                self.effects.push_back(Effect::Lost {
                    file: id,
                    range,
                    why: Loss::Discarded,
                });
            }
            // Also what is clean: it may lie past the size that stays.
            self.forget_blocks(folio, geometry.range());
            self.drop_folio(folio);
        }
        if recorded < whole {
            // What was written behind that size, and is not counted, goes too.
            self.truncate(key, recorded)?;
        }
        self.wake();
        Ok(())
    }

    /// Forgets a file that no handle has open, with its folios.
    pub fn forget(&mut self, id: FileId) -> Result<(), Refusal> {
        self.reap();
        let key = *self.by_id.get(&id).ok_or(Refusal::NotOpen)?;
        let file = self.files.get(key).ok_or(Refusal::NotOpen)?;
        if file.handles > 0 || file.dirty_bytes > 0 || !file.in_flight.is_empty() {
            return Err(self.busy());
        }
        for folio in self.folios_in(key, WHOLE) {
            self.drop_folio(folio);
        }
        self.files.remove(key);
        self.by_id.remove(&id);
        Ok(())
    }

    /// The dirty ranges of a file, ascending: what a failed close hands back
    /// (C6). Read them as any others.
    pub fn dirty_ranges(&self, id: HandleId) -> Result<alloc::vec::Vec<FileRange>, Refusal> {
        let key = self.handle(id)?.file;
        let file = self.files.get(key).ok_or(Refusal::NotOpen)?;
        let mut ranges: alloc::vec::Vec<FileRange> = alloc::vec::Vec::new();
        for folio in file.dirty.values().filter_map(|key| self.folios.get(*key)) {
            let geometry = folio.geometry();
            for run in folio.state.dirty().runs(geometry.all()) {
                let range = geometry.bytes_of(run);
                match ranges.last_mut() {
                    Some(last) if last.end() == range.start() => {
                        *last = FileRange::clamped(last.start(), range.end());
                    }
                    _ => ranges.push(range),
                }
            }
        }
        Ok(ranges)
    }

    pub(super) fn handle(&self, id: HandleId) -> Result<&Handle, Refusal> {
        let handle = self.handles.get(id.slot).ok_or(Refusal::NotOpen)?;
        (handle.serial == id.serial)
            .then_some(handle)
            .ok_or(Refusal::NotOpen)
    }

    pub(super) fn handle_mut(&mut self, id: HandleId) -> Option<&mut Handle> {
        let handle = self.handles.get_mut(id.slot)?;
        (handle.serial == id.serial).then_some(handle)
    }

    /// Latches every open handle of a file (C2).
    pub(super) fn latch(&mut self, file: Key, class: ErrorClass) {
        for slot in 0..self.handles.bound() {
            if let Some(handle) = self.handles.get_mut(slot)
                && handle.file == file
            {
                handle.latched.get_or_insert(class);
            }
        }
    }

    /// Whether somebody reads or writes the file.
    fn is_file_held(&self, file: Key) -> bool {
        let mut works = self.tickets.iter();
        works.any(|work| work.file == file)
            || self
                .folios
                .iter()
                .any(|(_, folio)| folio.file == file && folio.owner != Owner::None)
    }
}
