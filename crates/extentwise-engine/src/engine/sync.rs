//! Syncs: what was dirty when one began becomes durable (C4, C8).
//!
//! Two rounds of writeback are enough. The first sends what is dirty and not in
//! writeback. A block that was dirty *and* in writeback cannot be sent yet: when
//! everything sent so far is done, a second round sends it. Whatever is dirtied
//! later is not chased. Then: flush, so that the data comes before what points
//! at it; persist the map.

use alloc::vec::Vec;

use extentwise_core::errseq::ErrorClass;
use extentwise_core::geometry::{FileOffset, FileRange};
use extentwise_core::ordered::OrderedId;
use extentwise_device::WriteCache;

use super::{Engine, HandleId, Io, WHOLE};
use crate::folio::Owner;
use crate::slab::Key;
use crate::{Effect, Mapping, Memory, Refusal, SyncId};

/// A sync under way.
#[derive(Debug)]
pub(super) struct Sync {
    handle: HandleId,
    file: Key,
    range: FileRange,
    phase: Phase,
    /// Folios that the first round could not send whole.
    again: Vec<FileOffset>,
    /// The youngest ordered extent to wait for.
    last: Option<OrderedId>,
    /// The size when it began, and the errors of the file by then.
    size: FileOffset,
    failures: u64,
    /// The bios that its flush makes durable.
    flushes: u64,
    /// The holes that were made when it began.
    holes: u64,
    /// The map was persisted once.
    persisted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Waiting for what was in writeback at the start, and for writers.
    First,
    /// Waiting for the second round.
    Second,
    /// The effect is under way.
    Flushing,
    Persisting,
}

impl Sync {
    pub(super) fn is_of(&self, handle: HandleId) -> bool {
        self.handle == handle
    }
}

impl<M: Memory, P: Mapping> Engine<M, P> {
    /// Begins to make durable what is dirty in the file now, and its size;
    /// [`Effect::SyncEnded`] tells the end. What is dirtied later is not chased
    /// (C4).
    pub fn sync(&mut self, handle: HandleId) -> Result<SyncId, Refusal> {
        self.sync_range(handle, WHOLE)
    }

    /// As [`sync`](Self::sync), for the folios that `range` meets.
    pub fn sync_range(&mut self, handle: HandleId, range: FileRange) -> Result<SyncId, Refusal> {
        self.reap();
        let key = self.handle(handle)?.file;
        let file = self.files.get(key).ok_or(Refusal::NotOpen)?;
        let (size, failures, holes) = (file.i_size, file.failures, file.holes);
        let dirty: Vec<(FileOffset, Key)> = file
            .dirty
            .range(..range.end())
            .map(|(pos, key)| (*pos, *key))
            .collect();
        let again = dirty.into_iter().filter(|(_, folio)| {
            self.folios.get(*folio).is_some_and(|folio| {
                folio.geometry().range().overlap(range).is_some()
                    && (matches!(folio.owner, Owner::Writer(_)) || folio.is_dirty_in_writeback())
            })
        });
        let again = again.map(|(pos, _)| pos).collect();
        self.write_back(key, range);
        let sync = Sync {
            handle,
            file: key,
            range,
            phase: Phase::First,
            again,
            last: self.files.get(key).and_then(|file| file.last_ordered),
            size,
            failures,
            flushes: 0,
            holes,
            persisted: false,
        };
        let id = SyncId(self.new_number());
        self.syncs.insert(id, sync);
        self.counts.syncs = self.counts.syncs.saturating_add(1);
        self.step_syncs();
        Ok(id)
    }

    /// Takes every sync as far as it goes.
    pub(super) fn step_syncs(&mut self) {
        if self.syncs.is_empty() {
            return;
        }
        let ids: Vec<SyncId> = self.syncs.keys().copied().collect();
        for id in ids {
            self.step_sync(id);
        }
    }

    fn step_sync(&mut self, id: SyncId) {
        while let Some(sync) = self.syncs.get(&id) {
            let (key, range) = (sync.file, sync.range);
            let Some(file) = self.files.get(key) else {
                self.syncs.remove(&id);
                return;
            };
            if file.is_in_flight(sync.last) {
                return;
            }
            match sync.phase {
                Phase::First => {
                    if sync.again.iter().any(|pos| self.is_written_to(key, *pos)) {
                        return;
                    }
                    if !sync.again.is_empty() {
                        self.write_back(key, range);
                    }
                    let last = self.files.get(key).and_then(|file| file.last_ordered);
                    if let Some(sync) = self.syncs.get_mut(&id) {
                        if !core::mem::take(&mut sync.again).is_empty() {
                            sync.last = last;
                        }
                        sync.phase = Phase::Second;
                    }
                }
                Phase::Second => self.flush(id),
                Phase::Flushing | Phase::Persisting => return,
            }
        }
    }

    /// The file was cut: what lay behind is no longer for a sync to record, also
    /// if the file grows over it again.
    pub(super) fn cut_syncs(&mut self, file: Key, size: FileOffset) {
        for sync in self.syncs.values_mut().filter(|sync| sync.file == file) {
            sync.size = sync.size.min(size);
        }
    }

    /// Whether a writer holds the folio at `pos`.
    fn is_written_to(&self, file: Key, pos: FileOffset) -> bool {
        let key = self.files.get(file).and_then(|file| file.index.lookup(pos));
        let folio = key.and_then(|key| self.folios.get(key));
        folio.is_some_and(|folio| matches!(folio.owner, Owner::Writer(_)))
    }

    /// C8: the data before what points at it. A flush covers what was answered
    /// before it began; that of another sync may still be under way, or fail.
    fn flush(&mut self, id: SyncId) {
        let Some(sync) = self.syncs.get_mut(&id) else {
            return;
        };
        sync.phase = Phase::Flushing;
        let Some(file) = self.files.get_mut(sync.file) else {
            return;
        };
        let unflushed = file.written > file.flushed;
        if !unflushed || self.config.write_cache != WriteCache::Volatile {
            return self.persist(id);
        }
        sync.flushes = file.written;
        let file = file.id;
        let io = self.new_io(Io::Flush(id));
        self.effects.push_back(Effect::Flush { io, file });
    }

    pub(super) fn complete_flush(&mut self, id: SyncId, result: Result<(), ErrorClass>) {
        if let Err(class) = result {
            return self.fail(id, class);
        }
        if let Some(sync) = self.syncs.get(&id)
            && let Some(file) = self.files.get_mut(sync.file)
        {
            file.flushed = file.flushed.max(sync.flushes);
        }
        self.persist(id);
    }

    /// The map is made durable. All data that lies below the size of the start
    /// is written: the rest of it is holes, so that size goes on record.
    fn persist(&mut self, id: SyncId) {
        let Some(sync) = self.syncs.get_mut(&id) else {
            return;
        };
        sync.phase = Phase::Persisting;
        let key = sync.file;
        let Some(file) = self.files.get_mut(key) else {
            return;
        };
        if sync.range == WHOLE && file.failures == sync.failures {
            file.record_synced(sync.size);
        }
        let file = file.id;
        if let Err(class) = self.tell_size(key) {
            return self.fail(id, class);
        }
        let io = self.new_io(Io::Persist(id));
        self.effects.push_back(Effect::Persist { io, file });
    }

    pub(super) fn complete_persist(&mut self, id: SyncId, result: Result<(), ErrorClass>) {
        if let Err(class) = result {
            return self.fail(id, class);
        }
        if let Some(sync) = self.syncs.get_mut(&id)
            && let Some(file) = self.files.get_mut(sync.file)
        {
            let open = file.holes_durable < sync.holes && self.mapping.is_in_place();
            let written_over = !file.in_flight.is_empty() || file.written > file.flushed;
            if open && written_over && !sync.persisted {
                // The old bytes may still lie below what is on its way. Once more
                // is enough: all of that is over then.
                sync.persisted = true;
                sync.last = file.last_ordered;
                sync.phase = Phase::Second;
                return self.step_sync(id);
            }
            file.holes_durable = file.holes_durable.max(sync.holes);
        }
        self.end_sync(id);
    }

    /// A flush or the map failed: every handle learns that (E1).
    fn fail(&mut self, id: SyncId, class: ErrorClass) {
        if let Some(sync) = self.syncs.get(&id) {
            let key = sync.file;
            self.note_failure(key, class);
            if let Some(file) = self.files.get_mut(key) {
                // Nobody knows what the device still holds.
                file.written = file.written.saturating_add(1);
            }
        }
        self.end_sync(id);
    }

    /// E2: the answer is whether anything failed since the handle's last report.
    fn end_sync(&mut self, id: SyncId) {
        let Some(sync) = self.syncs.remove(&id) else {
            return;
        };
        let mut result = Ok(());
        let mut cursor = self.handle_mut(sync.handle).map(|handle| handle.cursor);
        if let (Some(cursor), Some(file)) = (&mut cursor, self.files.get(sync.file)) {
            result = file.errors.check(cursor);
        }
        if let (Some(cursor), Some(handle)) = (cursor, self.handle_mut(sync.handle)) {
            handle.cursor = cursor;
        }
        self.effects
            .push_back(Effect::SyncEnded { sync: id, result });
    }
}
