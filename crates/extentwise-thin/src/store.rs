//! The store in memory: files, space, and the accounts between them.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use extentwise_core::geometry::{BlockSize, FileOffset, FileRange};
use extentwise_engine::FileId;

use crate::disk::{Record, SLOTS, records_in};
use crate::error::ThinError;
use crate::file::{Extent, File, State};
use crate::persist::Doubt;
use crate::ranges::{RangeSet, Run};
use crate::space::Space;

/// Blocks besides the superblocks that a store needs to be of use: one of data,
/// and its map, twice, with one in hand.
const BLOCKS_MIN: u64 = 6;

/// A store of many files on one device. The [crate] says how.
///
/// All but [`format`](Self::format), [`open`](Self::open) and
/// [`persist`](Self::persist) work in memory alone.
///
/// **Invariant**: every block of the device is one of: free, in a file, in
/// flight, pinned, in the map, a superblock. Free blocks suffice for what was
/// promised and for the next map, so that a promise is kept and persisting does
/// not run out of space ([`check`](Self::check)).
#[derive(Clone, Debug)]
pub struct ThinStore {
    pub(crate) block_size: BlockSize,
    /// Blocks of the device.
    pub(crate) blocks: u64,
    /// Of the newest superblock that is surely durable.
    pub(crate) generation: u64,
    /// The place of that superblock, an index of [`SLOTS`].
    pub(crate) slot: usize,
    /// The blocks of its map.
    pub(crate) map: RangeSet,
    /// A superblock of which it is not known whether it is durable.
    pub(crate) doubt: Option<Doubt>,
    pub(crate) files: BTreeMap<FileId, File>,
    /// Extents of all files.
    pub(crate) extents: u64,
    pub(crate) space: Space,
    /// Blocks of failed writes, which may be promised again before anything else
    /// takes space.
    pub(crate) returned: u64,
    /// Something differs from the newest map.
    pub(crate) changed: bool,
}

/// What the blocks of a store are in use for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// All blocks of the device.
    pub blocks: u64,
    /// Nobody's.
    pub free: u64,
    /// Those of the free ones that are promised to writes.
    pub promised: u64,
    /// In the extents of files.
    pub data: u64,
    /// On their way into a file, or given up while they were written.
    pub in_flight: u64,
    /// Given up, and free once that is durable.
    pub pinned: u64,
    /// In the map, and in one of which it is not known whether it is durable.
    pub map: u64,
}

/// How far an operation may go into the space that is kept for the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Headroom {
    /// A block of the map is to be left for who gives space back.
    Kept,
    /// It gives space back.
    Used,
}

impl ThinStore {
    /// A store without files, of which nothing is durable.
    pub(crate) fn empty(block_size: BlockSize, blocks: u64) -> Result<Self, ThinError> {
        let needed = SLOTS[1] >> block_size.shift();
        let needed = (needed + 1).max(SLOTS.len() as u64 + BLOCKS_MIN);
        if blocks < needed {
            return Err(ThinError::TooSmall { blocks, needed });
        }
        let mut space = Space::default();
        space.free.extend(&Self::all_but_slots(block_size, blocks));
        Ok(Self {
            block_size,
            blocks,
            generation: 0,
            slot: 0,
            map: RangeSet::new(),
            doubt: None,
            files: BTreeMap::new(),
            extents: 0,
            space,
            returned: 0,
            changed: false,
        })
    }

    pub(crate) fn all_but_slots(block_size: BlockSize, blocks: u64) -> RangeSet {
        let mut all = RangeSet::new();
        if let Some(run) = Run::new(0, blocks) {
            all.insert(run);
        }
        for slot in SLOTS {
            if let Some(run) = Run::at(slot >> block_size.shift(), 1) {
                all.take(run);
            }
        }
        all
    }

    /// The unit of all ranges, in the files and on the device.
    #[must_use]
    pub const fn block_size(&self) -> BlockSize {
        self.block_size
    }

    /// The generation of the newest map that is durable; it rises by each
    /// [`persist`](Self::persist) that had something to write.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether it is not known if the newest map is durable: a superblock was
    /// written, and it or the flush failed. A crash shows that map or the one
    /// before; the next [`persist`](Self::persist) that succeeds ends it.
    #[must_use]
    pub const fn in_doubt(&self) -> bool {
        self.doubt.is_some()
    }

    /// The files, in order.
    pub fn files(&self) -> impl Iterator<Item = FileId> {
        self.files.keys().copied()
    }

    /// The size on record of a file; `None` if there is no such file.
    #[must_use]
    pub fn size(&self, file: FileId) -> Option<FileOffset> {
        self.files.get(&file).map(|file| FileOffset::new(file.size))
    }

    /// What the blocks of the device are in use for.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let doubted = self.doubt.as_ref();
        let space = &self.space;
        let new_flights = space.flights.values();
        let new_flights = new_flights.filter(|flight| flight.place == crate::space::Place::New);
        let files = self.files.values().flat_map(File::extents);
        Usage {
            blocks: self.blocks,
            free: space.free.total(),
            promised: space.owed,
            data: files.map(|(_, extent)| extent.len).sum(),
            in_flight: new_flights.map(|flight| flight.len).sum::<u64>() + space.orphans.total(),
            pinned: space.pinned.total() + doubted.map_or(0, |doubt| doubt.pinned.total()),
            map: self.map.total() + doubted.map_or(0, |doubt| doubt.map.total()),
        }
    }

    /// Makes an empty file.
    pub fn create(&mut self, file: FileId) -> Result<(), ThinError> {
        if self.files.contains_key(&file) {
            return Err(ThinError::Exists(file));
        }
        self.files.insert(file, File::default());
        if !self.fits(Headroom::Kept) {
            self.files.remove(&file);
            return Err(self.no_space());
        }
        self.returned = 0;
        self.changed = true;
        Ok(())
    }

    /// Removes a file and gives its space back. Of what is in flight for it
    /// nothing will be recorded.
    pub fn remove(&mut self, file: FileId) -> Result<(), ThinError> {
        let all = Run {
            start: 0,
            end: u64::MAX,
        };
        let mut removed = self.files.remove(&file).ok_or(ThinError::NoFile(file))?;
        self.space.owed -= owed(&removed, &self.space, all);
        self.space.promised -= removed.promised.total();
        self.extents -= removed.extent_count();
        for piece in removed.cut(all) {
            self.space.drop_extent(piece);
        }
        self.space.orphan_flights(file);
        self.changed = true;
        Ok(())
    }

    /// Gives the holes in `range` a place, so that writing there needs no space
    /// any more; they go on reading as zero. All of them or none. The size of
    /// the file stays.
    pub fn preallocate(&mut self, file: FileId, range: FileRange) -> Result<(), ThinError> {
        let Some(run) = self.run_of(range)? else {
            return Ok(());
        };
        let Some(entry) = self.files.get(&file) else {
            return Err(ThinError::NoFile(file));
        };
        let mut present = RangeSet::new();
        for (at, piece) in entry.pieces(run) {
            if let Some(piece) = Run::at(at, piece.len) {
                present.insert(piece);
            }
        }
        let holes = present.outside(run);
        let wanted = holes
            .iter()
            .fold(0_u64, |sum, hole| sum.saturating_add(hole.len()));
        let Some(places) = self.space.take_all(wanted) else {
            return Err(self.no_space());
        };
        let filled = self.changing(file, run, |entry, _| {
            let mut places = places.into_iter();
            let mut place: Option<Run> = None;
            for hole in &holes {
                let mut at = hole.start;
                while at < hole.end {
                    let Some(free) = place.take().or_else(|| places.next()) else {
                        return;
                    };
                    let len = free.len().min(hole.end - at);
                    let extent = Extent {
                        len,
                        disk: free.start,
                        state: State::Unwritten,
                    };
                    entry.insert(at, extent);
                    at += len;
                    place = Run::new(free.start + len, free.end);
                }
            }
        });
        filled.ok_or(ThinError::NoFile(file))?;
        if !self.fits(Headroom::Kept) {
            self.changing(file, run, |entry, space| {
                for hole in holes {
                    for piece in entry.cut(hole) {
                        space.drop_extent(piece);
                    }
                }
            });
            return Err(self.no_space());
        }
        self.returned = 0;
        self.changed |= wanted > 0;
        Ok(())
    }

    /// Lets `change` work on a file, and keeps the accounts of what it does to
    /// the extents in `run`; `None` if there is no such file.
    pub(crate) fn changing<R>(
        &mut self,
        file: FileId,
        run: Run,
        change: impl FnOnce(&mut File, &mut Space) -> R,
    ) -> Option<R> {
        let entry = self.files.get_mut(&file)?;
        let extents = entry.extent_count();
        let before = owed(entry, &self.space, run);
        let answer = change(entry, &mut self.space);
        self.extents = self.extents - extents + entry.extent_count();
        self.space.owed = self.space.owed - before + owed(entry, &self.space, run);
        Some(answer)
    }

    /// The blocks of a range; `None` where it is empty.
    pub(crate) fn run_of(&self, range: FileRange) -> Result<Option<Run>, ThinError> {
        let (start, end) = (range.start().get(), range.end().get());
        if range.is_empty() {
            return Ok(None);
        }
        if !self.block_size.divides(start) || !self.block_size.divides(end) {
            return Err(ThinError::Unaligned { start, end });
        }
        let shift = self.block_size.shift();
        Ok(Run::new(start >> shift, end >> shift))
    }

    /// Whether free blocks suffice: for what was promised, and for the next map
    /// and the one after it, whatever becomes of what is promised and in flight.
    ///
    /// A block that is written adds at most two extents: itself, and the rest of
    /// the one that it splits. The map of the next `persist` lies beside the old
    /// one, whose blocks are free only afterwards; and where it grew, those do
    /// not suffice for the one after it.
    pub(crate) fn fits(&self, headroom: Headroom) -> bool {
        let pending = self.space.promised.saturating_add(self.space.flying);
        let records = self.records().saturating_add(pending.saturating_mul(2));
        let slack = match headroom {
            Headroom::Kept => 1,
            Headroom::Used => 0,
        };
        let map = records.div_ceil(records_in(self.block_size)) + slack;
        let current = match &self.doubt {
            Some(doubt) => doubt.map.total(),
            None => self.map.total(),
        };
        // What the end of the doubt gives back, which comes before the next map.
        let later = match &self.doubt {
            Some(doubt) => self.map.total() + doubt.pinned.total(),
            None => 0,
        };
        let (free, owed) = (self.space.free.total(), self.space.owed);
        let needed = owed
            .saturating_add(map)
            .saturating_add(map.saturating_sub(current));
        owed <= free && free.saturating_add(later) >= needed
    }

    /// Records in the map, as it is now.
    pub(crate) fn records(&self) -> u64 {
        self.extents.saturating_add(self.files.len() as u64)
    }

    /// Those records.
    pub(crate) fn record_list(&self) -> impl Iterator<Item = Record> {
        self.files.iter().flat_map(|(id, file)| {
            let head = Record::File {
                id: *id,
                size: file.size,
                extents: file.extent_count(),
            };
            let extents = file
                .extents()
                .map(|(at, extent)| Record::Extent { at, extent });
            core::iter::once(head).chain(extents)
        })
    }

    pub(crate) fn no_space(&self) -> ThinError {
        ThinError::NoSpace {
            free: self.space.free.total(),
        }
    }
}

/// The promised blocks in `run` that will need a block of the device: all but
/// those that have a place already, and nothing in it.
pub(crate) fn owed(file: &File, space: &Space, run: Run) -> u64 {
    let promised: Vec<Run> = file.promised.inside(run).collect();
    let all = promised.iter().map(|run| run.len()).sum::<u64>();
    let placed = promised
        .into_iter()
        .flat_map(|run| in_place(file, space, run));
    all - placed.map(super::ranges::Run::len).sum::<u64>()
}

/// The stretches of `run`, each of one extent, that are written in place.
pub(crate) fn in_place<'s>(
    file: &'s File,
    space: &'s Space,
    run: Run,
) -> impl Iterator<Item = Run> + 's {
    let unwritten = file
        .pieces(run)
        .filter(|(_, piece)| piece.state == State::Unwritten);
    unwritten.flat_map(|(at, piece)| {
        let open = space.not_flying(piece.disk_run()).into_iter();
        open.filter_map(move |disk| Run::at(at + (disk.start - piece.disk), disk.len()))
    })
}
