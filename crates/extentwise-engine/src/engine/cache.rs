//! The folios of the cache: finding, making, forgetting, evicting them.

use alloc::vec::Vec;

use extentwise_core::errseq::ErrorClass;
use extentwise_core::geometry::{BlockRange, FileOffset, FileRange, FolioGeometry, LenBytes};

use super::{Engine, WHOLE, bytes_of};
use crate::folio::{Folio, Owner};
use crate::slab::Key;
use crate::{Mapping, Memory, Refusal};

impl<M: Memory, P: Mapping> Engine<M, P> {
    /// The folio of `file` that holds `at`.
    #[inline]
    pub(super) fn find_folio(&mut self, file: Key, at: FileOffset) -> Option<Key> {
        let folios = &self.folios;
        let range_of = |key| {
            folios
                .get(key)
                .map_or(FileRange::default(), |folio| folio.geometry().range())
        };
        let key = self.files.get_mut(file)?.index.find(at, range_of)?;
        if let Some(folio) = self.folios.get_mut(key) {
            folio.referenced = true;
        }
        Some(key)
    }

    /// The folios of `file` that hold a byte of `range`, ascending.
    pub(super) fn folios_in(&self, file: Key, range: FileRange) -> Vec<Key> {
        let mut keys = Vec::new();
        if let Some(file) = self.files.get(file) {
            file.index.visit(range, |key| keys.push(key));
        }
        keys
    }

    /// The folio that holds `at`, made if there is none: about `wish` bytes
    /// large, smaller where neighbours or memory leave less.
    pub(super) fn bring_in(
        &mut self,
        file: Key,
        at: FileOffset,
        wish: u64,
    ) -> Result<Key, Refusal> {
        if let Some(key) = self.find_folio(file, at) {
            return Ok(key);
        }
        let block = self.config.block_size.bytes();
        // One folio takes a quarter of the cache at the most.
        let quarter = (self.config.cache_bytes_max.get() / 4).max(1);
        let max = self.config.folio_bytes_max.get();
        let max = max.min(1 << quarter.ilog2()).max(block);
        let mut size = wish.clamp(1, max).next_power_of_two().clamp(block, max);
        loop {
            let pos = FileOffset::new(at.get() & !(size - 1));
            let geometry = FolioGeometry::new(pos, LenBytes::new(size), self.config.block_size);
            let smaller = size > block;
            match geometry {
                Ok(geometry) if self.is_free(file, geometry) => {
                    match self.make_folio(file, geometry) {
                        Err(Refusal::Busy) if smaller => {}
                        Err(Refusal::Busy) => {
                            let refusal = self.out_of_room(file);
                            // What lay past the end is clean without I/O.
                            return match self.make_folio(file, geometry) {
                                Err(Refusal::Busy) => Err(refusal),
                                made => made,
                            };
                        }
                        made => return made,
                    }
                }
                _ if smaller => {}
                // A block that does not fit the address space, or is taken:
                // `find_folio` did not see it.
                _ => return Err(Refusal::Failed(ErrorClass::TooLarge)),
            }
            size /= 2;
        }
    }

    fn is_free(&self, file: Key, geometry: FolioGeometry) -> bool {
        let file = self.files.get(file);
        file.is_some_and(|file| file.index.is_free(geometry.range()))
    }

    /// Makes a folio where none is; [`Busy`](Refusal::Busy) where the cache has
    /// no room for it now.
    fn make_folio(&mut self, file: Key, geometry: FolioGeometry) -> Result<Key, Refusal> {
        let size = geometry.size().get();
        if !self.make_room(size) {
            return Err(Refusal::Busy);
        }
        let no_memory = Refusal::Failed(ErrorClass::NoMemory);
        let len = usize::try_from(size).map_err(|_| no_memory)?;
        let bytes = self.memory.allocate(len).map_err(|_| no_memory)?;
        let folio = Folio::new(file, geometry, bytes)?;
        let key = self.folios.insert(folio).map_err(|_| no_memory)?;
        if let Some(file) = self.files.get_mut(file) {
            file.index.insert(geometry, key);
        }
        self.cached_bytes = self.cached_bytes.saturating_add(size);
        self.counts.folios = self.counts.folios.saturating_add(1);
        Ok(key)
    }

    /// What is in the way of more memory: writeback, which is begun, or an
    /// error that keeps it from going on.
    fn out_of_room(&mut self, file: Key) -> Refusal {
        let stalled = self.files.get(file).and_then(|file| file.stalled);
        let files: Vec<Key> = self.files.iter().map(|(key, _)| key).collect();
        for file in files {
            self.write_back(file, WHOLE);
        }
        match stalled {
            Some(class) => {
                self.waiting = true;
                Refusal::Failed(class)
            }
            None => self.busy(),
        }
    }

    /// Evicts clean folios, the ones not used for longest first, until `size`
    /// bytes more fit; false where they do not (C5).
    fn make_room(&mut self, size: u64) -> bool {
        let max = self.config.cache_bytes_max.get();
        // Each folio is met twice at the most: once to take its mark.
        let mut steps = u64::from(self.folios.bound()).saturating_mul(2);
        while self.cached_bytes.saturating_add(size) > max {
            if steps == 0 {
                return false;
            }
            steps -= 1;
            self.hand = if self.hand < self.folios.bound() {
                self.hand + 1
            } else {
                0
            };
            let Some(folio) = self.folios.get_mut(self.hand) else {
                continue;
            };
            if core::mem::take(&mut folio.referenced) || !folio.is_evictable() {
                continue;
            }
            self.drop_folio(self.hand);
            self.counts.evictions = self.counts.evictions.saturating_add(1);
        }
        true
    }

    /// Drops every folio that can be dropped without a loss; answers the bytes
    /// freed.
    pub fn drop_clean(&mut self) -> LenBytes {
        self.reap();
        let before = self.cached_bytes;
        for key in 0..self.folios.bound() {
            if self.folios.get(key).is_some_and(Folio::is_evictable) {
                self.drop_folio(key);
            }
        }
        LenBytes::new(before.saturating_sub(self.cached_bytes))
    }

    /// Takes a folio, of which nothing is dirty or held, out of the cache.
    pub(super) fn drop_folio(&mut self, key: Key) {
        debug_assert!(self.folios.get(key).is_none_or(Folio::is_evictable));
        let Some(folio) = self.folios.remove(key) else {
            return;
        };
        let geometry = folio.geometry();
        if let Some(file) = self.files.get_mut(folio.file) {
            file.index.remove(geometry);
            file.dirty.remove(&geometry.pos());
        }
        self.cached_bytes = self.cached_bytes.saturating_sub(geometry.size().get());
        self.memory.release(folio.bytes);
    }

    /// Whether the blocks that lie wholly in `range` may be forgotten now: none
    /// is in writeback and nobody holds their folio.
    pub(super) fn may_forget(&self, file: Key, range: FileRange) -> bool {
        self.folios_in(file, range).into_iter().all(|key| {
            self.folios.get(key).is_none_or(|folio| {
                let blocks = folio.geometry().blocks_inside(range);
                blocks.is_empty()
                    || folio.owner == Owner::None
                        && folio.readers == 0
                        && !folio.state.writeback().any_in(blocks)
            })
        })
    }

    /// Forgets the blocks of a folio that lie wholly in `range`, which
    /// [`may_forget`](Self::may_forget) allowed: their dirtiness, their place,
    /// the space promised to them.
    pub(super) fn forget_blocks(&mut self, key: Key, range: FileRange) {
        let Some(folio) = self.folios.get_mut(key) else {
            return;
        };
        let (file, geometry) = (folio.file, folio.geometry());
        let blocks = geometry.blocks_inside(range);
        let before = folio.dirty_in(blocks);
        if folio.state.invalidate(range).is_err() {
            return;
        }
        let (_, mut maps) = folio.parts();
        maps.replace(blocks, extentwise_core::write::MappingFlags::empty());
        folio.failed_mut().clear(blocks);
        let after = folio.dirty_in(blocks);
        self.unreserve(key, blocks);
        self.account(file, key, before, after);
    }

    /// Gives back the space promised to those of `blocks` that have a promise.
    pub(super) fn unreserve(&mut self, key: Key, blocks: BlockRange) {
        let Some(folio) = self.folios.get_mut(key) else {
            return;
        };
        let Some(file) = self.files.get(folio.file) else {
            return;
        };
        while let Some(run) = folio.reserved().next_run(blocks) {
            folio.reserved_mut().clear(run);
            let range = folio.geometry().bytes_of(run);
            self.mapping.unreserve(file.id, range);
        }
    }

    /// Asks for space for those of `blocks` that have no promise.
    pub(super) fn reserve(&mut self, key: Key, blocks: BlockRange) -> Result<(), ErrorClass> {
        let folio = self.folios.get_mut(key).ok_or(ErrorClass::Io)?;
        let file = self.files.get(folio.file).ok_or(ErrorClass::Io)?;
        while let Some(run) = folio.reserved().next_gap(blocks) {
            let range = folio.geometry().bytes_of(run);
            self.mapping.reserve(file.id, range)?;
            folio.reserved_mut().set(run);
        }
        Ok(())
    }

    /// Notes that the dirty blocks of a folio went from `before` to `after`.
    #[inline]
    pub(super) fn account(&mut self, file: Key, key: Key, before: usize, after: usize) {
        if before == after {
            return;
        }
        let shift = self.config.block_size.shift();
        let (before, after) = (bytes_of(before, shift), bytes_of(after, shift));
        let (Some(file), Some(folio)) = (self.files.get_mut(file), self.folios.get(key)) else {
            return;
        };
        let pos = folio.geometry().pos();
        if after > before {
            let more = after - before;
            if file.dirty.is_empty() {
                file.dirty_since_nanos = self.now_nanos;
            }
            file.dirty.insert(pos, key);
            file.dirty_bytes = file.dirty_bytes.saturating_add(more);
            self.dirty_bytes = self.dirty_bytes.saturating_add(more);
            self.counts.dirtied_bytes = self.counts.dirtied_bytes.saturating_add(more);
        } else {
            let less = before - after;
            file.dirty_bytes = file.dirty_bytes.saturating_sub(less);
            self.dirty_bytes = self.dirty_bytes.saturating_sub(less);
            if !folio.state.is_dirty() {
                file.dirty.remove(&pos);
            }
        }
    }
}
