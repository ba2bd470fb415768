//! The engine: many files over one cache.
//!
//! | file | what it does |
//! |---|---|
//! | `open.rs` | files, handles, closing |
//! | `write.rs` | tickets of writers; the walk of a buffered write |
//! | `overwrite.rs` | cached bytes that are lent to a writer |
//! | `read.rs` | tickets of readers; filling folios |
//! | `resize.rs` | truncate, grow, punch |
//! | `cache.rs` | finding, making and evicting folios; dirty accounting |
//! | `writeback.rs` | planning, passes, completion |
//! | `sync.rs` | syncs, step by step |

mod cache;
mod check;
mod open;
mod overwrite;
mod read;
mod resize;
mod sync;
mod write;
mod writeback;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::ops::Range;

use extentwise_core::bitmap::BitmapError;
use extentwise_core::errseq::ErrorClass;
use extentwise_core::geometry::{BlockRange, FileOffset, FileRange, LenBytes};
use extentwise_core::writeback::{Bio, Segment};

use crate::config::ConfigError;
use crate::file::{File, Handle};
use crate::folio::Folio;
use crate::slab::{Key, Slab};
use crate::stats::Counts;
use crate::ticket::Tickets;
use crate::{Config, Effect, FileId, IoId, Mapping, Memory, Refusal, SyncId};

pub use open::{CloseError, CloseReason, HandleId};

/// A page cache that does nothing by itself: calls go in, effects come out.
///
/// A caller opens a handle, prepares a write or a read, copies bytes when its
/// ticket is ready, and commits. The host carries out what
/// [`next_effect`](Self::next_effect) answers, in any order and at any pace, and
/// says how it went by [`complete`](Self::complete). Time is told by
/// [`tick`](Self::tick).
///
/// No call waits. What cannot be done now is refused as
/// [`Busy`](Refusal::Busy), or its ticket is pending, until effects were
/// carried out.
///
/// **Invariant**: a dirty block stays in the cache until a device write of its
/// newest content succeeded and is on record (C3), it was cut off, or its loss
/// was told (C2, C6).
#[derive(Debug)]
pub struct Engine<M: Memory, P> {
    config: Config,
    memory: M,
    mapping: P,
    files: Slab<File>,
    by_id: BTreeMap<FileId, Key>,
    handles: Slab<Handle>,
    serials: u32,
    folios: Slab<Folio<M::Bytes>>,
    /// Where eviction looks next.
    hand: Key,
    tickets: Tickets,
    ios: BTreeMap<IoId, Io>,
    syncs: BTreeMap<SyncId, sync::Sync>,
    effects: VecDeque<Effect>,
    next_id: u64,
    cached_bytes: u64,
    dirty_bytes: u64,
    /// Of bios that the device has not answered.
    sent_bytes: u64,
    /// Of blocks that an overwrite under way may make dirty.
    lent_bytes: u64,
    /// Somebody was told to wait.
    waiting: bool,
    now_nanos: u64,
    counts: Counts,
}

/// What an effect under way is for.
#[derive(Debug)]
enum Io {
    Bio(Key, Bio<Vec<Segment>>, u64),
    /// A fill of these blocks of a folio.
    Fill(Key, BlockRange),
    /// A read of one block for a prepared write.
    WriteRead {
        folio: Key,
        slot: Key,
        blocks: BlockRange,
    },
    Flush(SyncId),
    Persist(SyncId),
}

impl<M: Memory, P: Mapping> Engine<M, P> {
    /// An engine without files. Refuses limits that cannot be kept, and blocks
    /// other than those of the map.
    pub fn new(config: Config, memory: M, mapping: P) -> Result<Self, ConfigError> {
        config.check()?;
        config.check_blocks(mapping.block_size())?;
        Ok(Self {
            config,
            memory,
            mapping,
            files: Slab::default(),
            by_id: BTreeMap::new(),
            handles: Slab::default(),
            serials: 0,
            folios: Slab::default(),
            hand: 0,
            tickets: Tickets::default(),
            ios: BTreeMap::new(),
            syncs: BTreeMap::new(),
            effects: VecDeque::new(),
            next_id: 0,
            cached_bytes: 0,
            dirty_bytes: 0,
            sent_bytes: 0,
            lent_bytes: 0,
            waiting: false,
            now_nanos: 0,
            counts: Counts::default(),
        })
    }

    /// What the engine was made with.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// The map.
    pub const fn mapping(&self) -> &P {
        &self.mapping
    }

    /// The map, to make it durable or to add files.
    pub const fn mapping_mut(&mut self) -> &mut P {
        &mut self.mapping
    }

    /// What is to be done or was found out next; `None` until something
    /// happens.
    pub fn next_effect(&mut self) -> Option<Effect> {
        self.reap();
        self.effects.pop_front()
    }

    /// Whether [`next_effect`](Self::next_effect) would answer one.
    pub fn has_effects(&self) -> bool {
        !self.effects.is_empty()
    }

    /// Whether an effect was handed out and not answered yet.
    pub fn is_io_under_way(&self) -> bool {
        !self.ios.is_empty()
    }

    /// Says how an effect ended. An `io` that is not under way is ignored: a
    /// device that answers twice changes nothing.
    pub fn complete(&mut self, io: IoId, result: Result<(), ErrorClass>) {
        self.reap();
        match self.ios.remove(&io) {
            None => return,
            Some(Io::Bio(file, bio, sent_nanos)) => {
                self.complete_bio(file, &bio, result, sent_nanos);
            }
            Some(Io::Fill(folio, blocks)) => self.complete_fill(folio, blocks, result),
            Some(Io::WriteRead {
                folio,
                slot,
                blocks,
            }) => self.complete_write_read(folio, slot, blocks, result),
            Some(Io::Flush(sync)) => self.complete_flush(sync, result),
            Some(Io::Persist(sync)) => self.complete_persist(sync, result),
        }
        self.step_syncs();
        self.wake();
    }

    /// Tells the time, in nanoseconds from any start; it does not go back. Data
    /// that has been dirty for too long is written back.
    pub fn tick(&mut self, now_nanos: u64) {
        self.reap();
        self.now_nanos = self.now_nanos.max(now_nanos);
        let old = self.config.dirty_age_max_nanos;
        let aged: Vec<Key> = self
            .files
            .iter()
            .filter(|(_, file)| {
                let since = self.now_nanos.saturating_sub(file.dirty_since_nanos);
                !file.dirty.is_empty() && since >= old
            })
            .map(|(key, _)| key)
            .collect();
        for file in aged {
            self.write_back(file, FileRange::clamped(FileOffset::ZERO, FileOffset::MAX));
            if let Some(file) = self.files.get_mut(file) {
                file.dirty_since_nanos = self.now_nanos;
            }
        }
    }

    /// The memory that a [`Effect::Read`] fills: a part of a folio. `None` if it
    /// is not under way.
    pub fn read_target(&mut self, io: IoId) -> Option<(&mut M::Bytes, Range<usize>)> {
        let (folio, blocks) = match self.ios.get(&io)? {
            Io::Fill(folio, blocks) | Io::WriteRead { folio, blocks, .. } => (*folio, *blocks),
            _ => return None,
        };
        let folio = self.folios.get_mut(folio)?;
        let place = folio.place_of(folio.geometry().bytes_of(blocks));
        Some((&mut folio.bytes, place))
    }

    /// The memory that a [`Effect::Write`] takes to the device: parts of folios,
    /// one behind the other. Nothing if it is not under way.
    pub fn write_source(&self, io: IoId) -> impl Iterator<Item = (&M::Bytes, Range<usize>)> {
        let (file, segments) = match self.ios.get(&io) {
            Some(Io::Bio(file, bio, _)) => (self.files.get(*file), bio.segments()),
            _ => (None, &[][..]),
        };
        segments.iter().filter_map(move |segment| {
            let key = file?.index.lookup(segment.file_offset)?;
            let folio = self.folios.get(key)?;
            Some((&folio.bytes, folio.place_of(segment.range())))
        })
    }

    fn new_io(&mut self, io: Io) -> IoId {
        let id = IoId(self.new_number());
        self.ios.insert(id, io);
        id
    }

    fn new_number(&mut self) -> u64 {
        self.next_id = self.next_id.saturating_add(1);
        self.next_id
    }

    /// Tells somebody to wait; [`wake`](Self::wake) tells when to try again.
    fn busy(&mut self) -> Refusal {
        self.waiting = true;
        Refusal::Busy
    }

    /// Something changed that somebody may wait for.
    fn wake(&mut self) {
        if core::mem::take(&mut self.waiting) {
            self.effects.push_back(Effect::Wake);
        }
    }
}

/// A folio's block count fits its words by construction; should it not, that is
/// an I/O error like any other.
impl From<BitmapError> for Refusal {
    fn from(_: BitmapError) -> Self {
        Self::Failed(ErrorClass::Io)
    }
}

/// The whole of a file, and more.
const WHOLE: FileRange = FileRange::clamped(FileOffset::ZERO, FileOffset::MAX);

/// The longest file, 2^63 - 1 bytes.
const SIZE_MAX: FileOffset = FileOffset::new(i64::MAX as u64);

/// Bytes of so many blocks.
fn bytes_of(blocks: usize, shift: u32) -> u64 {
    (blocks as u64) << shift
}

/// The front of `range`, at most `len` long.
fn front(range: FileRange, len: LenBytes) -> FileRange {
    let end = FileOffset::new(range.start().get().saturating_add(len.get()));
    FileRange::clamped(range.start(), end.min(range.end()))
}
