//! Leases: cached bytes that a handle may write to without the cache's lock.
//!
//! The first write to cached bytes of a file asks the engine for them
//! ([`Engine::prepare_overwrite`]) and keeps what it was lent in a slot of its
//! handle. Later writes to these bytes lock the slot and the folio, copy, and
//! note which blocks they met. A *recall* takes the lease out of its slot and
//! tells the engine of those blocks.
//!
//! **Invariant**: a lease never covers the end of a file or a block that is not
//! uptodate, so that taking it back cannot fail; [`State`] knows every slot
//! that has one; and while a thread waits for something that a lease may hold
//! up, there is none, nor is one granted ([`State::waits`]).
//!
//! Order of locks: cache, slot, folio. Whoever has a slot locked waits for no
//! other lock.
//!
//! [`Engine::prepare_overwrite`]: extentwise_engine::Engine::prepare_overwrite

use std::ops::Range;
use std::sync::PoisonError;

use extentwise_core::bitmap::{BlockBitmap, words_for};
use extentwise_core::geometry::BlockRange;
use extentwise_engine::{
    Config, FileId, FileOffset, FileRange, HandleId, Mapping, OverwriteTicket,
};

use crate::cache::State;
use crate::memory::SharedBytes;
use crate::sync::{Arc, Mutex};

/// The leases of a handle.
///
/// Its file is cut into regions as large as the largest folio. Each has one
/// slot, which it shares with others: threads that write to different folios
/// seldom meet.
#[derive(Debug)]
pub(crate) struct Leases {
    slots: Box<[Slot]>,
    region_shift: u32,
    block_shift: u32,
}

/// Two cache lines, which processors fetch together: threads in different
/// slots do not slow each other down.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Slot(Mutex<Option<Lease>>);

/// Bytes of one folio, lent by the engine.
#[derive(Debug)]
struct Lease {
    ticket: OverwriteTicket,
    bytes: SharedBytes,
    /// Where the lent bytes lie in the folio's.
    place: Range<usize>,
    /// Where its first block starts in the file.
    first: u64,
    /// Its blocks that were written to.
    written: BlockBitmap<Vec<u64>>,
}

/// Where a lease is.
#[derive(Debug)]
pub(crate) struct Lent {
    leases: Arc<Leases>,
    slot: usize,
}

/// So many leases there are in a cache: a recall is short, and half of what may
/// be dirty is not lent.
const LEASES_MAX: usize = 16;

/// Slots of a handle, a power of two.
const SLOTS: usize = 16;

impl Leases {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            slots: (0..SLOTS).map(|_| Slot::default()).collect(),
            region_shift: config.folio_bytes_max.get().trailing_zeros(),
            block_shift: config.block_size.shift(),
        }
    }

    /// Writes the front of `bytes` at `at`, if these bytes are lent; answers how
    /// many that were. `None` also if another thread has the folio locked.
    #[inline]
    pub(crate) fn write(&self, at: u64, bytes: &[u8]) -> Option<usize> {
        let slot = self.slots.get(self.slot_of(at))?;
        let mut slot = slot.0.lock().unwrap_or_else(PoisonError::into_inner);
        slot.as_mut()?.write(at, bytes, self.block_shift)
    }

    /// The bytes that the slot of `at` may be lent for `at`.
    fn region_of(&self, at: u64) -> FileRange {
        let start = at >> self.region_shift << self.region_shift;
        let end = start.saturating_add(1 << self.region_shift);
        FileRange::clamped(FileOffset::new(start), FileOffset::new(end))
    }

    /// The slot of the region of `at`. Regions far from each other, as threads
    /// use them, are spread by the upper bits of a product.
    fn slot_of(&self, at: u64) -> usize {
        let region = at >> self.region_shift;
        let spread = region.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        usize::try_from(spread >> (u64::BITS - SLOTS.trailing_zeros())).unwrap_or_default()
    }

    fn put(&self, slot: usize, lease: Option<Lease>) -> Option<Lease> {
        let slot = self.slots.get(slot)?;
        let mut slot = slot.0.lock().unwrap_or_else(PoisonError::into_inner);
        core::mem::replace(&mut slot, lease)
    }
}

impl Lease {
    fn new(
        ticket: OverwriteTicket,
        (bytes, place): (SharedBytes, Range<usize>),
        block_shift: u32,
    ) -> Option<Self> {
        let range = ticket.range();
        let first = range.start().get() >> block_shift << block_shift;
        let last = range.end().get().checked_sub(first + 1)? >> block_shift;
        let blocks = usize::try_from(last).ok()?.checked_add(1)?;
        let written = BlockBitmap::cleared(vec![0; words_for(blocks)], blocks);
        Some(Self {
            ticket,
            bytes,
            place,
            first,
            written: written.ok()?,
        })
    }

    #[inline]
    fn write(&mut self, at: u64, bytes: &[u8], block_shift: u32) -> Option<usize> {
        let range = self.ticket.range();
        let before = at.checked_sub(range.start().get())?;
        let room = range.end().get().checked_sub(at)?;
        let len = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        let last = at.checked_add((len as u64).checked_sub(1)?)?;
        let start = self.place.start + usize::try_from(before).ok()?;
        let mut folio = self.bytes.try_write()?;
        let into = folio.get_mut(start..start.checked_add(len)?)?;
        into.copy_from_slice(bytes.get(..len)?);
        let block = |at: u64| usize::try_from((at - self.first) >> block_shift).ok();
        let written = BlockRange::clamped(block(at)?, block(last)? + 1);
        self.written.set(written);
        Some(len)
    }
}

impl<P: Mapping> State<P> {
    /// Lends the bytes around `at` to a handle and its slot, if that may be.
    pub(crate) fn lend(
        &mut self,
        leases: &Arc<Leases>,
        (handle, file): (HandleId, FileId),
        at: u64,
    ) -> bool {
        let may_wait_for = |wait: &Option<FileId>| wait.is_none_or(|waits| waits == file);
        if self.waits.iter().any(may_wait_for) {
            return false;
        }
        let slot = leases.slot_of(at);
        self.recall(leases, slot);
        if self.lent.len() >= LEASES_MAX {
            self.recall_all();
        }
        let within = leases.region_of(at);
        let at = FileOffset::new(at);
        let Some(ticket) = self.engine.prepare_overwrite(handle, at, within) else {
            return false;
        };
        let target = self.engine.overwrite_target(&ticket);
        let target = target.map(|(bytes, place)| (bytes.clone(), place));
        let lease = target.and_then(|target| Lease::new(ticket, target, leases.block_shift));
        let Some(lease) = lease else {
            return false;
        };
        leases.put(slot, Some(lease));
        let leases = leases.clone();
        self.lent.push(Lent { leases, slot });
        true
    }

    /// Takes every lease back; false if there was none.
    pub(crate) fn recall_all(&mut self) -> bool {
        #[cfg(shuttle)]
        if crate::sync::watched::is_made(crate::Mistake::NoRecalls) {
            return false;
        }
        let any = !self.lent.is_empty();
        while let Some(Lent { leases, slot }) = self.lent.pop() {
            self.take_back(&leases, slot);
        }
        any
    }

    /// Takes the lease of one slot back.
    fn recall(&mut self, leases: &Arc<Leases>, slot: usize) {
        let is_it = |lent: &Lent| lent.slot == slot && Arc::ptr_eq(&lent.leases, leases);
        if let Some(nth) = self.lent.iter().position(is_it) {
            self.lent.swap_remove(nth);
            self.take_back(leases, slot);
        }
    }

    fn take_back(&mut self, leases: &Leases, slot: usize) {
        if let Some(lease) = leases.put(slot, None) {
            let Lease {
                ticket,
                first,
                written,
                ..
            } = lease;
            let written = ranges(&written, first, leases.block_shift);
            // A ticket of this engine is never refused.
            let _ = self.engine.commit_overwrite(ticket, written);
        }
    }
}

/// The ranges of a file that blocks stand for, the first of which is at `first`.
fn ranges(
    blocks: &BlockBitmap<Vec<u64>>,
    first: u64,
    block_shift: u32,
) -> impl Iterator<Item = FileRange> {
    let place = move |block: usize| {
        let into = (block as u64) << block_shift;
        FileOffset::new(first.saturating_add(into))
    };
    let all = BlockRange::clamped(0, usize::MAX);
    let runs = blocks.runs(all);
    runs.map(move |run| FileRange::clamped(place(run.start().get()), place(run.end().get())))
}
