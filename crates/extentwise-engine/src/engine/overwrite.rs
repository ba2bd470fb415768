//! Overwrites: bytes that are cached already, lent to a writer for more than
//! one write.

use extentwise_core::geometry::{BlockRange, FileOffset, FileRange};

use super::{Engine, HandleId, SIZE_MAX, bytes_of};
use crate::folio::Owner;
use crate::slab::Key;
use crate::ticket::{OverwriteTicket, TicketState, WorkKind};
use crate::{Mapping, Memory, Refusal};

/// What part of the dirty bytes there may be is lent at once.
const LENT_PART: u64 = 32;

impl<M: Memory, P: Mapping> Engine<M, P> {
    /// Lends the bytes around `at` to one writer, who writes to them in any
    /// order and as often as it likes, and then says where
    /// ([`commit_overwrite`](Self::commit_overwrite)). Readers see the bytes at
    /// once.
    ///
    /// Lent are bytes of `within` that lie in one folio, in blocks that are
    /// uptodate, below the size of the file, and that may become dirty (C5): of
    /// clean bytes no more than a part of what may be dirty in all.
    /// `None`, and nothing changed, where `at` is not such a byte or somebody
    /// holds the folio: [`prepare_write`](Self::prepare_write) says more.
    ///
    /// What is lent is not dirty yet: a sync covers it once it is committed.
    /// Until then it is like any write under way: nobody else writes to the
    /// folio, and neither writeback nor a resize passes it. It counts as dirty
    /// where dirty memory is bounded.
    pub fn prepare_overwrite(
        &mut self,
        handle: HandleId,
        at: FileOffset,
        within: FileRange,
    ) -> Option<OverwriteTicket> {
        self.reap();
        let open = self.handle(handle).ok()?;
        if open.latched.is_some() {
            return None;
        }
        let file = open.file;
        let size = self.files.get(file)?.i_size.min(SIZE_MAX);
        let below_size = FileRange::clamped(FileOffset::ZERO, size);
        let within = within.overlap(below_size)?;
        if !within.contains(at) {
            return None;
        }
        let key = self.find_folio(file, at)?;
        let range = self.lendable(file, key, at, within)?;
        let folio = self.folios.get(key)?;
        let blocks = folio.geometry().blocks_meeting(range);
        if self.reserve(key, blocks).is_err() {
            self.unreserve_clean(key, blocks);
            return None;
        }
        let lent = self.clean_bytes(key, blocks);
        let kind = WorkKind::Overwrite { lent };
        let Some(ticket) = self.tickets.add((file, key), range, kind) else {
            self.unreserve_clean(key, blocks);
            return None;
        };
        if let Some(work) = self.tickets.get_mut(ticket.slot) {
            work.state = TicketState::Ready;
        }
        if let Some(folio) = self.folios.get_mut(key) {
            folio.owner = Owner::Writer(ticket.slot);
        }
        if let Some(file) = self.files.get_mut(file) {
            file.lent_bytes = file.lent_bytes.saturating_add(lent);
        }
        self.lent_bytes = self.lent_bytes.saturating_add(lent);
        Some(OverwriteTicket(ticket))
    }

    /// Where the lent bytes are: a part of a folio's memory.
    pub fn overwrite_target(
        &mut self,
        ticket: &OverwriteTicket,
    ) -> Option<(&mut M::Bytes, core::ops::Range<usize>)> {
        let work = self.tickets.of(&ticket.0)?;
        let (key, range) = (work.folio, work.range);
        let folio = self.folios.get_mut(key)?;
        let place = folio.place_of(range);
        Some((&mut folio.bytes, place))
    }

    /// Takes lent bytes back: the blocks that a range of `written` meets are
    /// dirty. Whatever lies outside of what was lent is left out. This does not
    /// fail for a ticket of this engine: what was written cannot be lost by it.
    pub fn commit_overwrite(
        &mut self,
        ticket: OverwriteTicket,
        written: impl IntoIterator<Item = FileRange>,
    ) -> Result<(), Refusal> {
        self.reap();
        if self.tickets.of(&ticket.0).is_none() {
            return Err(Refusal::NotOpen);
        }
        self.end_overwrite(ticket.0.slot, written);
        self.tickets.end(ticket.0);
        if self.dirty_bytes > self.config.dirty_bytes_background.get() {
            self.background_writeback();
        }
        Ok(())
    }

    /// The blocks that the ranges of `written` meet are dirty, and the folio is
    /// free again.
    pub(super) fn end_overwrite(
        &mut self,
        slot: Key,
        written: impl IntoIterator<Item = FileRange>,
    ) {
        let Some(work) = self.tickets.get_mut(slot) else {
            return;
        };
        let WorkKind::Overwrite { lent } = &mut work.kind else {
            return;
        };
        let lent = core::mem::take(lent);
        let (file, key, range) = (work.file, work.folio, work.range);
        self.lent_bytes = self.lent_bytes.saturating_sub(lent);
        if let Some(file) = self.files.get_mut(file) {
            file.lent_bytes = file.lent_bytes.saturating_sub(lent);
        }
        let Some(folio) = self.folios.get_mut(key) else {
            return;
        };
        let blocks = folio.geometry().blocks_meeting(range);
        let before = folio.dirty_in(blocks);
        for part in written {
            if let Some(part) = part.overlap(range) {
                folio.state.mark_dirty_bytes(part);
            }
        }
        let after = folio.dirty_in(blocks);
        self.account(file, key, before, after);
        self.release_writer(file, key, blocks);
    }

    /// What of `within`, around `at`, can be lent: it is all uptodate, and there
    /// is room for it to be dirty.
    fn lendable(
        &mut self,
        file: Key,
        key: Key,
        at: FileOffset,
        within: FileRange,
    ) -> Option<FileRange> {
        let (_, room) = self.dirty_room(file).ok()?;
        let most = self.config.dirty_bytes_max.get() / LENT_PART;
        let room = room.min(most.max(self.config.block_size.bytes()));
        let folio = self.folios.get(key)?;
        if folio.owner != Owner::None || folio.wanted {
            return None;
        }
        let geometry = folio.geometry();
        let mut range = geometry.range().overlap(within)?;
        let behind = |end| FileRange::clamped(at, end);
        let from = geometry.blocks_meeting(behind(range.end()));
        if let Some(stale) = folio.state.next_stale(from) {
            let end = geometry.offset_of(stale.start()).min(range.end());
            range = FileRange::clamped(range.start(), end);
        }
        let blocks = geometry.blocks_meeting(range);
        let first = BlockRange::clamped(from.start().get(), blocks.end().get());
        if first.is_empty() {
            return None;
        }
        let start = geometry.offset_of(first.start()).max(range.start());
        let whole = folio.state.is_run_uptodate(blocks);
        if whole && self.clean_bytes(key, blocks) <= room {
            return Some(range);
        }
        // From the block of `at` on, as far as there is room.
        let room = self.config.block_size.floor(room);
        let end = geometry.offset_of(first.start()).get().saturating_add(room);
        let range = FileRange::clamped(start, range.end().min(FileOffset::new(end)));
        range.contains(at).then_some(range)
    }

    /// How many bytes become dirty if all of `blocks` do.
    fn clean_bytes(&self, key: Key, blocks: BlockRange) -> u64 {
        let dirty = self
            .folios
            .get(key)
            .map_or(0, |folio| folio.dirty_in(blocks));
        let clean = blocks.len().saturating_sub(dirty);
        bytes_of(clean, self.config.block_size.shift())
    }
}
