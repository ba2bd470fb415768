//! What callers do to the file: writes, sizes, syncs; eviction, and the crash.

use extentwise_core::bitmap::BitmapError;
use extentwise_core::folio::FolioState;
use extentwise_core::geometry::{BlockRange, FileRange, FolioGeometry, LenBytes};
use extentwise_core::write::{
    Ask, BufferedWrite, Mapping, MappingFlags, MappingKind, MappingState, WriteContext,
};

use super::shape::{HALVES_MAX, Mistake};
use super::world::{
    BLOCK, Barrier, Cached, Fate, GARBAGE, Syncing, Table, World, halves_of, offset_of, range_of,
};

/// The walk's mapping and reads do not fail here.
type NoError = core::convert::Infallible;

/// Whether a write makes the file longer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Publish {
    Size,
    Nothing,
}

impl World<'_> {
    /// The nth buffered write of the shape.
    pub(super) fn write(&mut self, nth: usize) -> Result<bool, String> {
        if self.cutting {
            return Ok(false);
        }
        let (start, end) = self.shape.writes[nth];
        let old = self.size;
        if end > old {
            self.grow_from(old, start)?;
        }
        let value = if self.truth[start] == 1 { 2 } else { 1 };
        for half in start..end {
            self.truth[half] = value;
            self.may[half] |= 1 << value;
            if let Some(sync) = &mut self.sync {
                sync.want[half] |= 1 << value;
            }
        }
        self.buffered(start..end, value, Publish::Size)?;
        Ok(true)
    }

    /// Gives the file another size.
    pub(super) fn resize(&mut self, size: usize) -> Result<bool, String> {
        if self.cutting || size == self.size {
            return Ok(false);
        }
        if size > self.size {
            self.grow_from(self.size, size)?;
            self.size = size;
            return Ok(true);
        }
        self.cut(size);
        Ok(true)
    }

    /// The size falls at once; folios let go of what lies behind one by one.
    fn cut(&mut self, size: usize) {
        self.size = size;
        self.recorded = self.recorded.min(size);
        self.pending = self.pending.min(size);
        self.promised = self.promised.min(size);
        if self.barrier.is_some_and(|barrier| barrier.at >= size) {
            self.barrier = None;
        }
        for half in size..HALVES_MAX {
            self.truth[half] = 0;
            self.may[half] = 1;
            if let Some(sync) = &mut self.sync {
                sync.want[half] = 1;
            }
        }
        if let Some(sync) = &mut self.sync {
            sync.size = sync.size.min(size);
        }
        let behind = range_of(size.next_multiple_of(2), HALVES_MAX);
        self.table.truncate(behind);
        self.mapped &= (1 << size.div_ceil(2)) - 1;
        self.cutting = true;
        self.settle_cut();
    }

    /// A folio lets go of the blocks that lie past the end, unless one of them is
    /// in writeback (C12).
    pub(super) fn let_go(&mut self, folio: usize) -> bool {
        if !self.cutting || !self.holds_cut_blocks(folio) {
            return false;
        }
        let behind = self.behind_size(folio);
        let Some(cached) = &mut self.folios[folio] else {
            return false;
        };
        let Ok(blocks) = cached.state.invalidate(behind) else {
            return false;
        };
        cached.maps.replace(blocks, MappingFlags::empty());
        self.bytes[halves_of(behind)].fill(GARBAGE);
        self.settle_cut();
        true
    }

    /// A folio leaves memory.
    pub(super) fn evict(&mut self, folio: usize) -> bool {
        let is_free = |cached: &Cached| !cached.state.is_dirty() && !cached.state.is_in_writeback();
        if !self.folios[folio].as_ref().is_some_and(is_free) {
            return false;
        }
        self.folios[folio] = None;
        let range = self.folio_halves(folio);
        self.bytes[range].fill(GARBAGE);
        self.settle_cut();
        true
    }

    /// A sync covers what is dirty now (C4).
    pub(super) fn begin_sync(&mut self) -> bool {
        if self.sync.is_some() || self.cutting {
            return false;
        }
        for cached in self.folios.iter_mut().flatten() {
            cached.state.tag_for_sync();
        }
        self.sync = Some(Syncing {
            want: self.truth.map(|value| 1 << value),
            size: self.size,
            failed: false,
        });
        true
    }

    /// Ends the sync once no tagged folio is left and nothing is under way.
    pub(super) fn end_sync(&mut self) -> Result<(), String> {
        let mut tagged = self.folios.iter().flatten();
        let is_tagged = tagged.any(|cached| cached.state.is_tagged_for_sync());
        let Some(sync) = self.sync.filter(|_| !is_tagged && self.table.is_empty()) else {
            return Ok(());
        };
        self.sync = None;
        if sync.failed {
            return Ok(());
        }
        self.pending = self.pending.max(sync.size);
        self.record_size();
        if self.recorded < sync.size {
            return Err(format!(
                "a sync of {} half blocks leaves a size of {} (C4)",
                sync.size, self.recorded
            ));
        }
        for half in 0..sync.size {
            let value = self.durable(half);
            if sync.want[half] & 1 << value == 0 {
                return Err(format!("a sync leaves {value} in half block {half} (C4)"));
            }
        }
        self.may = sync.want;
        self.promised = sync.size;
        Ok(())
    }

    /// The power is cut, and the file is opened again.
    pub(super) fn crash(&mut self, fate: Fate) -> bool {
        if fate == Fate::Kept {
            if self.flights.is_empty() {
                return false;
            }
            for flight in core::mem::take(&mut self.flights) {
                let halves = halves_of(flight.bio.file_range());
                self.disk[halves.clone()].copy_from_slice(&flight.bytes[halves]);
            }
        }
        self.folios = [const { None }; super::shape::FOLIOS_MAX];
        self.bytes.fill(GARBAGE);
        self.table = Table::new(self.block_size);
        self.flights.clear();
        self.size = self.recorded;
        self.pending = self.recorded;
        self.promised = self.recorded;
        self.mapped &= (1 << self.recorded.div_ceil(2)) - 1;
        self.barrier = None;
        self.cutting = false;
        self.sync = None;
        for half in 0..HALVES_MAX {
            let value = if half < self.size {
                self.durable(half)
            } else {
                0
            };
            self.truth[half] = value;
            self.may[half] = 1 << value;
        }
        true
    }

    /// What the device shows of a half block.
    pub(super) fn durable(&self, half: usize) -> u8 {
        if self.mapped & 1 << (half / 2) == 0 {
            0
        } else {
            self.disk[half]
        }
    }

    /// Raises the recorded size as far as the barrier lets it.
    pub(super) fn record_size(&mut self) {
        let limit = match self.barrier {
            Some(barrier) if self.mistake != Mistake::SizeGoesAhead => barrier.at,
            _ => HALVES_MAX,
        };
        self.recorded = self.recorded.max(self.pending.min(limit));
    }

    pub(super) fn folio_halves(&self, folio: usize) -> core::ops::Range<usize> {
        let len = 2 * self.shape.blocks;
        folio * len..(folio + 1) * len
    }

    /// The file grows over its end in the middle of a block: what that block
    /// holds behind the end becomes zero, and is written before the size that
    /// shows it (V15). What a write covers from `start` on needs no zeros.
    fn grow_from(&mut self, old: usize, start: usize) -> Result<(), String> {
        let is_cached = |folio: &Option<Cached>| folio.is_some();
        let folio = old / (2 * self.shape.blocks);
        if old.is_multiple_of(2)
            || !(is_cached(&self.folios[folio]) || self.is_mapped(old))
            || self.mistake == Mistake::GrowthShowsTheOldTail
        {
            return Ok(());
        }
        self.barrier = Some(Barrier {
            at: old,
            sent: false,
        });
        if start > old {
            self.buffered(old..old + 1, 0, Publish::Nothing)?;
        }
        Ok(())
    }

    const fn is_mapped(&self, half: usize) -> bool {
        self.mapped & 1 << (half / 2) != 0
    }

    /// The walk of a buffered write of one value in one folio.
    fn buffered(
        &mut self,
        halves: core::ops::Range<usize>,
        value: u8,
        publish: Publish,
    ) -> Result<(), String> {
        let folio = halves.start / (2 * self.shape.blocks);
        let mut cached = match self.folios[folio].take() {
            Some(cached) => cached,
            None => self.fresh(folio)?,
        };
        let range = range_of(halves.start, halves.end);
        let geometry = cached.state.geometry();
        let begun = BufferedWrite::<NoError>::begin(&cached.state, range);
        let mut write = begun.map_err(|error| error.to_string())?;
        loop {
            let mut cx = WriteContext {
                folio: &mut cached.state,
                maps: &mut cached.maps,
            };
            match write.step(&mut cx) {
                Ask::Map(block) => {
                    let range = geometry.bytes_of(BlockRange::one(block));
                    let kind = if self.is_mapped(halves_of(range).start) {
                        MappingKind::Mapped
                    } else {
                        MappingKind::Delay
                    };
                    write.mapped(Ok(Mapping { kind, range }), &mut cx);
                }
                Ask::Zero(part) => self.bytes[halves_of(part)].fill(0),
                Ask::Read(block) => {
                    for half in halves_of(geometry.bytes_of(BlockRange::one(block))) {
                        self.bytes[half] = self.durable(half);
                    }
                    write.read_done(block, Ok(()), &mut cx);
                }
                Ask::Copy => {
                    self.bytes[halves.clone()].fill(value);
                    write.commit(range.len(), &mut cx);
                }
                Ask::PublishSize(end) if publish == Publish::Size => {
                    self.size = self.size.max(halves_of(FileRange::clamped(end, end)).start);
                }
                Ask::PublishSize(_) => {}
                Ask::Committed(len) if len == range.len() => break,
                other => return Err(format!("a write ends with {other:?}")),
            }
        }
        self.folios[folio] = Some(cached);
        Ok(())
    }

    fn fresh(&self, folio: usize) -> Result<Cached, String> {
        let start = self.folio_halves(folio).start;
        let len = LenBytes::new(self.shape.blocks as u64 * BLOCK);
        let geometry = FolioGeometry::new(offset_of(start), len, self.block_size);
        let geometry = geometry.map_err(|error| error.to_string())?;
        let words = |error: BitmapError| format!("{error:?}");
        Ok(Cached {
            state: FolioState::empty(geometry).map_err(words)?,
            maps: MappingState::empty(geometry).map_err(words)?,
        })
    }

    /// The cut is over when no folio holds a block past the end.
    fn settle_cut(&mut self) {
        self.cutting &= (0..self.shape.folios).any(|folio| self.holds_cut_blocks(folio));
    }

    fn holds_cut_blocks(&self, folio: usize) -> bool {
        let Some(cached) = &self.folios[folio] else {
            return false;
        };
        let blocks = cached
            .state
            .geometry()
            .blocks_inside(self.behind_size(folio));
        let mut blocks = blocks.start().get()..blocks.end().get();
        blocks.any(|block| {
            let block = extentwise_core::geometry::BlockIndex::new(block);
            cached.state.is_block_uptodate(block)
                || cached.state.dirty().test(block)
                || cached.state.writeback().test(block)
        })
    }

    /// The part of a folio in whole blocks past the end.
    fn behind_size(&self, folio: usize) -> FileRange {
        let halves = self.folio_halves(folio);
        let start = self.size.next_multiple_of(2).max(halves.start);
        range_of(start, halves.end)
    }
}
