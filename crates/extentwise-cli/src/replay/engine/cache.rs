//! The cached folios of one file, and the buffered write path into them.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Error, Result, bail};
use extentwise_core::bitmap::words_for;
use extentwise_core::folio::FolioState;
use extentwise_core::geometry::{
    BlockIndex, BlockRange, BlockSize, FileOffset, FileRange, FolioGeometry, LenBytes,
};
use extentwise_core::ordered::{OrderedTable, TreeStore};
use extentwise_core::write::{
    Ask, BufferedWrite, Mapping, MappingFlags, MappingKind, MappingState, WriteContext,
};

use super::Fill;
use super::device::DeviceFile;
use super::memory::Memory;
use crate::replay::geometry::Geometry;
use crate::replay::report::Work;

/// The cache of one file.
///
/// **Invariant**: `dirty` holds the keys of the folios with a dirty block, and
/// `dirty_bytes` sums up those blocks; a dirty block is uptodate and has memory.
#[derive(Debug)]
pub(super) struct FileCache {
    pub(super) geometry: Geometry,
    pub(super) block_size: BlockSize,
    pub(super) folios: BTreeMap<u64, Folio>,
    /// The bytes of the folios, apart from their state: a bio takes bytes of many
    /// folios while a pass changes the state of one.
    pub(super) memory: Memory,
    pub(super) dirty: BTreeSet<u64>,
    pub(super) ordered: OrderedTable<TreeStore>,
    /// The size of the file as its users see it.
    pub(super) i_size: FileOffset,
    /// The size that the file has on the device (S4).
    pub(super) recorded_size: FileOffset,
    dirty_bytes: u64,
    /// Memory that the bitmaps of the folios take.
    state_bytes: u64,
}

/// What is known of the blocks of a folio.
#[derive(Debug)]
pub(super) struct Folio {
    pub(super) state: FolioState<Vec<u64>>,
    pub(super) maps: MappingState<Vec<u64>>,
}

/// What a cache holds, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// Of dirty blocks.
    pub(super) dirty: u64,
    /// Of memory.
    pub(super) cached: u64,
}

impl FileCache {
    /// The cache of an empty file.
    pub(super) fn new(geometry: Geometry) -> Result<Self> {
        let block_size = BlockSize::new(geometry.block_size())?;
        Ok(Self {
            geometry,
            block_size,
            folios: BTreeMap::new(),
            memory: Memory::new(geometry.block_size(), geometry.folio_size()),
            dirty: BTreeSet::new(),
            ordered: OrderedTable::new(block_size),
            i_size: FileOffset::ZERO,
            recorded_size: FileOffset::ZERO,
            dirty_bytes: 0,
            state_bytes: 0,
        })
    }

    pub(super) fn usage(&self) -> Usage {
        Usage {
            dirty: self.dirty_bytes,
            cached: self.state_bytes + self.memory.len_bytes(),
        }
    }

    /// Writes `range`, which must lie in one folio; answers how many bytes from
    /// its start are committed (V1-V16).
    pub(super) fn write(
        &mut self,
        range: FileRange,
        fill: Fill,
        device: &DeviceFile,
        work: &mut Work,
    ) -> Result<u64> {
        let pos = self.bring_in(range, work)?;
        let folio = folio_at(&mut self.folios, pos)?;
        let geometry = folio.state.geometry();
        let blocks = geometry.blocks_meeting(range);
        let dirty_before = folio.state.dirty().count_in(blocks);
        // The walk hands errors back as they came; what went wrong is kept here.
        let mut failure: Option<Error> = None;
        let mut write = BufferedWrite::<()>::begin(&folio.state, range)?;
        let committed = loop {
            let mut cx = WriteContext {
                folio: &mut folio.state,
                maps: &mut folio.maps,
            };
            match write.step(&mut cx) {
                Ask::Map(block) => {
                    let place = place_of(geometry, block, self.recorded_size);
                    write.mapped(Ok(place), &mut cx);
                }
                Ask::Zero(bytes) => self.memory.zero(bytes),
                Ask::Read(block) => {
                    let bytes = geometry.bytes_of(BlockRange::one(block));
                    let read = device.read(self.memory.pieces_mut(bytes), bytes.start().get());
                    let read = read.map_err(|error| {
                        failure.get_or_insert(error);
                    });
                    write.read_done(block, read, &mut cx);
                }
                Ask::WaitForReads => bail!("write {range}: every read was answered"),
                Ask::Copy => {
                    for (offset, piece) in self.memory.pieces_mut(range) {
                        fill.put(piece, offset);
                    }
                    write.commit(range.len(), &mut cx);
                }
                Ask::PublishSize(end) => self.i_size = self.i_size.max(end),
                Ask::Committed(len) => break len,
                Ask::Failed(_) => {
                    let cause = failure.unwrap_or_else(|| Error::msg("a mapping was refused"));
                    return Err(cause.context(format!("preparing the write {range}")));
                }
            }
        };
        let dirtied = folio.state.dirty().count_in(blocks) - dirty_before;
        let dirtied_bytes = dirtied as u64 * self.geometry.block_size();
        self.dirty.insert(pos);
        self.dirty_bytes += dirtied_bytes;
        work.dirtied_bytes += dirtied_bytes;
        Ok(committed.get())
    }

    /// The bytes of `range`, which must lie in one folio, in pieces with their
    /// offset; blocks that are not cached are read.
    pub(super) fn read(
        &mut self,
        range: FileRange,
        device: &DeviceFile,
        work: &mut Work,
    ) -> Result<impl Iterator<Item = (u64, &[u8])>> {
        let pos = self.bring_in(range, work)?;
        let folio = folio_at(&mut self.folios, pos)?;
        let geometry = folio.state.geometry();
        let blocks = geometry.blocks_meeting(range);
        while let Some(stale) = folio.state.next_stale(blocks) {
            let bytes = geometry.bytes_of(stale);
            device.read(self.memory.pieces_mut(bytes), bytes.start().get())?;
            folio.state.mark_uptodate(stale);
        }
        folio.state.promote_uptodate();
        Ok(self.memory.pieces(range))
    }

    /// Forgets the blocks that lie wholly in `range` and makes the device read
    /// as zero there; the size stays. Partly covered blocks keep their state
    /// (W13): the caller writes zeros into them.
    pub(super) fn punch(
        &mut self,
        range: FileRange,
        device: &DeviceFile,
        work: &mut Work,
    ) -> Result<()> {
        let first = self.folio_pos(range.start().get());
        for (&pos, folio) in self.folios.range_mut(first..range.end().get()) {
            let all = folio.state.geometry().all();
            let dirty_before = folio.state.dirty().count_in(all);
            let Ok(forgotten) = folio.state.invalidate(range) else {
                bail!("punch {range}: the folio at {pos} is in writeback");
            };
            folio.maps.replace(forgotten, MappingFlags::empty());
            let cleaned = dirty_before - folio.state.dirty().count_in(all);
            self.dirty_bytes -= cleaned as u64 * self.geometry.block_size();
            if !folio.state.is_dirty() {
                self.dirty.remove(&pos);
            }
        }
        let end = self.block_size.ceil(self.recorded_size.get());
        let (start, end) = (range.start().get(), range.end().get().min(end));
        if start < end {
            let written = device.punch(start, end - start)?;
            work.device_writes += written.calls;
            work.device_bytes += written.bytes;
        }
        Ok(())
    }

    /// Every dirty block was written.
    pub(super) fn all_clean(&mut self) {
        self.dirty.clear();
        self.dirty_bytes = 0;
    }

    /// Drops the folio at `pos` unless a block of it is dirty; whether it did.
    pub(super) fn evict(&mut self, pos: u64) -> bool {
        if self.dirty.contains(&pos) {
            return false;
        }
        if let Some(folio) = self.folios.remove(&pos) {
            self.state_bytes -= folio.len_bytes();
            self.memory.forget(folio.state.geometry().range());
        }
        true
    }

    /// Where the folio of `offset` begins.
    pub(super) fn folio_pos(&self, offset: u64) -> u64 {
        offset & !(self.geometry.folio_size() - 1)
    }

    /// Makes the folio of `range` cached, with memory for the blocks that the
    /// range meets; answers where it begins.
    fn bring_in(&mut self, range: FileRange, work: &mut Work) -> Result<u64> {
        let pos = self.folio_pos(range.start().get());
        let folio = match self.folios.entry(pos) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let size = LenBytes::new(self.geometry.folio_size());
                let geometry = FolioGeometry::new(FileOffset::new(pos), size, self.block_size)?;
                let folio = Folio::new(geometry)?;
                work.folios += 1;
                self.state_bytes += folio.len_bytes();
                entry.insert(folio)
            }
        };
        let geometry = folio.state.geometry();
        let blocks = geometry.blocks_meeting(range);
        self.memory.cover(geometry.bytes_of(blocks));
        Ok(pos)
    }
}

impl Folio {
    fn new(geometry: FolioGeometry) -> Result<Self> {
        let words = || vec![0; words_for(geometry.blocks())];
        let state = FolioState::new(geometry, [(); 3].map(|()| words()));
        let maps = MappingState::unmapped(geometry, [(); 4].map(|()| words()));
        match (state, maps) {
            (Ok(state), Ok(maps)) => Ok(Self { state, maps }),
            _ => bail!("folio at {}: its bitmaps are too small", geometry.pos()),
        }
    }

    /// Memory that the bitmaps take.
    fn len_bytes(&self) -> u64 {
        let words = words_for(self.state.geometry().blocks());
        (7 * words * size_of::<u64>()) as u64
    }
}

impl Usage {
    /// This sum, after one of its parts went from `before` to `after`.
    pub(super) fn changed(self, before: Self, after: Self) -> Self {
        Self {
            dirty: self.dirty - before.dirty + after.dirty,
            cached: self.cached - before.cached + after.cached,
        }
    }
}

fn folio_at(folios: &mut BTreeMap<u64, Folio>, pos: u64) -> Result<&mut Folio> {
    match folios.get_mut(&pos) {
        Some(folio) => Ok(folio),
        None => bail!("the folio at {pos} is not cached"),
    }
}

/// Where a block is: what lies below the size on the device has its place
/// there, holes too; the rest gets one at writeback (delayed allocation).
fn place_of(geometry: FolioGeometry, block: BlockIndex, recorded_size: FileOffset) -> Mapping {
    let on_device = geometry.block_size().ceil(recorded_size.get());
    let (kind, start, end) = if geometry.offset_of(block).get() < on_device {
        (MappingKind::Mapped, 0, on_device)
    } else {
        (MappingKind::Delay, on_device, u64::MAX)
    };
    let range = FileRange::new(FileOffset::new(start), FileOffset::new(end));
    Mapping {
        kind,
        range: range.unwrap_or_default(),
    }
}
