//! Truncate, grow, punch.

use extentwise_core::geometry::{FileOffset, FileRange};

use super::{Engine, HandleId, SIZE_MAX};
use crate::slab::Key;
use crate::{Mapping, Memory, Refusal};

impl<M: Memory, P: Mapping> Engine<M, P> {
    /// Gives the file another size. What lies behind a smaller one is gone at
    /// once, in the cache and in the map; what lies before a larger one reads as
    /// zero (V15). Busy while somebody holds, or writes back, what is cut off.
    pub fn resize(&mut self, handle: HandleId, size: FileOffset) -> Result<(), Refusal> {
        self.reap();
        let open = self.handle(handle)?;
        if let Some(class) = open.latched {
            return Err(Refusal::Latched(class));
        }
        let key = open.file;
        if size > SIZE_MAX {
            return Err(Refusal::Range(FileRange::clamped(FileOffset::ZERO, size)));
        }
        let file = self.files.get(key).ok_or(Refusal::NotOpen)?;
        if size < file.i_size {
            return self.truncate(key, size);
        }
        if size > file.i_size {
            self.grow_gap(key, FileRange::clamped(size, size))?;
            if let Some(file) = self.files.get_mut(key) {
                file.i_size = size;
            }
        }
        Ok(())
    }

    /// Makes `range` read as zero and gives its space back; what of it lies past
    /// the end of the file is left out. Blocks that it covers in part are
    /// zeroed by writing. Busy while somebody holds, or writes back, what goes;
    /// trying again after that is no harm. Where it is refused, the bytes of
    /// `range` in blocks that it covers in part may be zero already.
    pub fn punch(&mut self, handle: HandleId, range: FileRange) -> Result<(), Refusal> {
        self.reap();
        let open = self.handle(handle)?;
        if let Some(class) = open.latched {
            return Err(Refusal::Latched(class));
        }
        let key = open.file;
        let file = self.files.get(key).ok_or(Refusal::NotOpen)?;
        let block = self.config.block_size;
        let (start, size) = (range.start().get(), file.i_size.get());
        if start >= size || range.is_empty() {
            return Ok(());
        }
        // The last block goes as a whole if nothing of it is left.
        let end = if range.end().get() >= size {
            block.ceil(size)
        } else {
            range.end().get()
        };
        let first = block.ceil(start).min(end);
        let last = block.floor(end).max(first);
        let part = |start, end| FileRange::clamped(FileOffset::new(start), FileOffset::new(end));
        let whole = part(first, last);
        if !self.may_forget(key, whole) {
            return Err(self.busy());
        }
        self.zero_in_block(key, part(start, first))?;
        self.zero_in_block(key, part(last, end))?;
        if whole.is_empty() {
            return Ok(());
        }
        // Room for those zeros may have been made by writing back what goes.
        if !self.may_forget(key, whole) {
            return Err(self.busy());
        }
        let id = self.files.get(key).ok_or(Refusal::NotOpen)?.id;
        self.mapping.punch(id, whole).map_err(Refusal::Failed)?;
        self.forget_range(key, whole);
        Ok(())
    }

    pub(super) fn truncate(&mut self, key: Key, size: FileOffset) -> Result<(), Refusal> {
        let block = self.config.block_size;
        let kept = FileOffset::new(block.ceil(size.get()));
        // The straddling block too: its writeback took the larger size.
        let held = FileRange::clamped(
            FileOffset::new(block.floor(size.get())),
            FileOffset::new(block.floor(u64::MAX)),
        );
        if !self.may_forget(key, held) {
            return Err(self.busy());
        }
        let behind = FileRange::clamped(kept, held.end());
        let id = self.files.get(key).ok_or(Refusal::NotOpen)?.id;
        self.mapping
            .truncate(id, size, behind)
            .map_err(Refusal::Failed)?;
        self.forget_range(key, behind);
        let file = self.files.get_mut(key).ok_or(Refusal::NotOpen)?;
        file.cut(size);
        self.cut_syncs(key, size);
        self.tell_size(key).map_err(Refusal::Failed)?;
        // No bytes from behind the end are left in the cache.
        if let Some(folio) = self.find_folio(key, size).filter(|_| kept > size)
            && let Some(folio) = self.folios.get_mut(folio)
        {
            let tail = folio
                .geometry()
                .range()
                .overlap(FileRange::clamped(size, kept));
            let place = folio.place_of(tail.unwrap_or_default());
            if tail.is_some() {
                self.memory.zero(&mut folio.bytes, place);
            }
        }
        self.step_syncs();
        Ok(())
    }

    /// Takes whole blocks out of the cache.
    fn forget_range(&mut self, key: Key, range: FileRange) {
        for folio in self.folios_in(key, range) {
            self.forget_blocks(folio, range);
            let whole = self.folios.get(folio).is_some_and(|folio| {
                range.covers(folio.geometry().range()) && folio.is_evictable()
            });
            if whole {
                self.drop_folio(folio);
            }
        }
        if let Some(file) = self.files.get_mut(key) {
            file.holes = file.holes.saturating_add(1);
            file.lower_barriers(range);
        }
        self.wake();
    }

    /// Before the file grows over a gap to `range`: what lies between its end
    /// and the end of `range` reads as zero from then on (V15). Uptodate bits
    /// past the old end are not trusted; the old last block, which the device
    /// may hold with bytes from behind an earlier end, is written again, and no
    /// larger size is recorded before it is.
    pub(super) fn grow_gap(&mut self, key: Key, range: FileRange) -> Result<(), Refusal> {
        let block = self.config.block_size;
        let size = self.files.get(key).ok_or(Refusal::NotOpen)?.i_size;
        let floor = FileOffset::new(block.floor(size.get()));
        let ceil = FileOffset::new(block.ceil(size.get()));
        let behind = FileRange::clamped(ceil, FileOffset::new(block.ceil(range.end().get())));
        if !self.may_forget(key, behind) {
            return Err(self.busy());
        }
        if floor < size {
            let tail = FileRange::clamped(size, ceil);
            self.zero_in_block(key, tail)?;
            if self.is_dirty_in(key, tail)
                && let Some(file) = self.files.get_mut(key)
            {
                file.raise_barrier(floor);
            }
        }
        for folio in self.folios_in(key, behind) {
            self.forget_blocks(folio, behind);
        }
        Ok(())
    }
}
