//! Counting the cache, and checking that its parts agree.

use alloc::format;
use alloc::string::String;

use extentwise_core::geometry::{BlockIndex, LenBytes};

use super::{Engine, bytes_of};
use crate::folio::Owner;
use crate::stats::{Blocks, Counts};
use crate::{Mapping, Memory};

impl<M: Memory, P: Mapping> Engine<M, P> {
    pub(crate) const fn raw_counts(&self) -> &Counts {
        &self.counts
    }

    /// Bytes of memory that folios have.
    pub const fn cached_bytes(&self) -> LenBytes {
        LenBytes::new(self.cached_bytes)
    }

    /// Bytes of dirty blocks.
    pub const fn dirty_bytes(&self) -> LenBytes {
        LenBytes::new(self.dirty_bytes)
    }

    pub(crate) fn count_blocks(&self) -> Blocks {
        let shift = self.config.block_size.shift();
        let mut counts = [0_u64; 4];
        for (_, folio) in self.folios.iter() {
            let geometry = folio.geometry();
            let state = &folio.state;
            for index in 0..geometry.blocks() {
                let block = BlockIndex::new(index);
                let kind = if state.writeback().test(block) {
                    2
                } else if folio.failed().test(block) {
                    3
                } else {
                    usize::from(state.dirty().test(block))
                };
                if let Some(count) = counts.get_mut(kind) {
                    *count += bytes_of(1, shift);
                }
            }
        }
        let [clean, dirty, writeback, failed] = counts.map(LenBytes::new);
        Blocks {
            clean,
            dirty,
            writeback,
            failed,
        }
    }

    /// Checks that all parts of the engine agree; says what does not. For tests
    /// and simulators: costs a step for each block of the cache.
    pub fn check(&self) -> Result<(), String> {
        let (mut cached, mut dirty_sum) = (0, 0);
        for (key, folio) in self.folios.iter() {
            let geometry = folio.geometry();
            let name = || format!("folio {} of file {}", geometry.range(), folio.file);
            let Some(file) = self.files.get(folio.file) else {
                return Err(format!("{}: its file is unknown", name()));
            };
            cached += geometry.size().get();
            if file.index.lookup(geometry.pos()) != Some(key) {
                return Err(format!("{}: the index does not lead to it", name()));
            }
            if folio.state.is_dirty() != (file.dirty.get(&geometry.pos()) == Some(&key)) {
                return Err(format!("{}: dirty and the dirty index disagree", name()));
            }
            dirty_sum += folio.dirty_in(geometry.all());
            for index in 0..geometry.blocks() {
                let block = BlockIndex::new(index);
                let dirty = folio.state.dirty().test(block);
                let held = matches!(folio.owner, Owner::Writer(_));
                let fault = if dirty && !folio.state.is_block_uptodate(block) {
                    "dirty and not uptodate"
                } else if folio.reserved().test(block) && !dirty && !held {
                    "reserved and not dirty"
                } else if folio.failed().test(block) && !dirty {
                    "failed and not dirty"
                } else if folio.state.writeback().test(block)
                    && file.table.lookup(geometry.offset_of(block)).is_none()
                {
                    "in writeback without an ordered extent"
                } else {
                    continue;
                };
                return Err(format!("{}: block {index} is {fault}", name()));
            }
        }
        let dirty_sum = bytes_of(dirty_sum, self.config.block_size.shift());
        let of_files: u64 = self.files.iter().map(|(_, file)| file.dirty_bytes).sum();
        if (dirty_sum, dirty_sum) != (self.dirty_bytes, of_files) {
            return Err(format!(
                "dirty bytes: {dirty_sum} by the bits, {} in all, {of_files} by files",
                self.dirty_bytes
            ));
        }
        if cached != self.cached_bytes || cached != self.count_blocks().total().get() {
            return Err(format!(
                "cached bytes: {cached}, noted {}",
                self.cached_bytes
            ));
        }
        for (_, file) in self.files.iter() {
            if file.recorded > file.i_size {
                return Err(format!("{}: recorded size past its size", file.id));
            }
            if file.in_flight.len() != file.table.len() {
                return Err(format!("{}: ordered extents are lost", file.id));
            }
        }
        Ok(())
    }
}
