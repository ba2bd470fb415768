//! Tickets: reads and writes that their callers hold.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering};

use extentwise_core::errseq::ErrorClass;
use extentwise_core::geometry::{FileRange, LenBytes};
use extentwise_core::write::BufferedWrite;

use crate::slab::{Key, Slab};

/// A buffered write that was begun: copy the bytes when it is ready, then
/// commit. It pins its folio.
///
/// Dropping it aborts the write, as a commit of nothing (V16); the engine sees
/// that at its next call.
#[must_use = "dropping a ticket aborts its write"]
#[derive(Debug)]
pub struct WriteTicket(pub(crate) Ticket);

/// Cached bytes that were lent for writing: write to them, then commit. It pins
/// its folio.
///
/// Dropping it takes all of them for written; the engine sees that at its next
/// call.
#[must_use = "dropping a ticket makes all of its blocks dirty"]
#[derive(Debug)]
pub struct OverwriteTicket(pub(crate) Ticket);

/// A read that was begun: look at the bytes when it is ready. It pins its folio
/// until it is dropped; the engine sees that at its next call.
#[must_use = "dropping a ticket ends its read"]
#[derive(Debug)]
pub struct ReadTicket(pub(crate) Ticket);

impl WriteTicket {
    /// The bytes of the file that it is for: the front of what was asked, as far
    /// as it lies in one folio.
    #[must_use]
    pub const fn range(&self) -> FileRange {
        self.0.range
    }
}

impl OverwriteTicket {
    /// The bytes of the file that are lent.
    #[must_use]
    pub const fn range(&self) -> FileRange {
        self.0.range
    }
}

impl ReadTicket {
    /// The bytes of the file that it is for: the front of what was asked, as far
    /// as it lies in one folio and in the file.
    #[must_use]
    pub const fn range(&self) -> FileRange {
        self.0.range
    }
}

/// A ticket lives as long as its token has two owners: that is how the engine
/// learns, without a lock or a callback, that one was dropped.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(crate) slot: Key,
    pub(crate) range: FileRange,
    token: Arc<()>,
    /// Counts the tickets that are gone and whose works are left.
    gone: Arc<AtomicU32>,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // Before the token: who reads a smaller count looks again later.
        self.gone.fetch_add(1, Ordering::Release);
    }
}

/// How a ticket stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TicketState {
    /// The bytes may be copied.
    Ready,
    /// Something has to be read first, or somebody else holds the folio: carry
    /// out effects and ask again.
    Pending,
    /// It cannot be done, for an error of this class; nothing changed.
    Failed(ErrorClass),
}

/// What a ticket stands for.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) file: Key,
    pub(crate) folio: Key,
    pub(crate) range: FileRange,
    pub(crate) kind: WorkKind,
    pub(crate) state: TicketState,
    /// `None`: the engine's own.
    token: Option<Arc<()>>,
}

#[derive(Debug)]
pub(crate) enum WorkKind {
    /// A write of the caller's bytes.
    Write(BufferedWrite<ErrorClass>),
    /// A write of zeros by the engine, below the size.
    Zeros(BufferedWrite<ErrorClass>),
    /// A read.
    Read {
        /// It goes on where the last ended.
        ahead: bool,
        /// A fill was begun for it.
        filled: bool,
    },
    /// A write to cached bytes that the caller does without asking.
    Overwrite {
        /// Bytes of its blocks that were clean.
        lent: u64,
    },
    /// A write that is over, with the bytes committed; its ticket is still held.
    Over(LenBytes),
}

/// The tickets under way.
///
/// **Invariant**: each has one slot; the slot of a ticket that was dropped is
/// free again after the engine's next call.
#[derive(Debug, Default)]
pub(crate) struct Tickets {
    works: Slab<Work>,
    /// Tokens of slots that are free.
    tokens: alloc::vec::Vec<Arc<()>>,
    /// Tickets that were dropped, and not found by [`dropped`](Self::dropped).
    gone: Arc<AtomicU32>,
}

impl Tickets {
    /// Adds the caller's work, and answers its ticket.
    pub(crate) fn add(
        &mut self,
        (file, folio): (Key, Key),
        range: FileRange,
        kind: WorkKind,
    ) -> Option<Ticket> {
        let token = self.tokens.pop().unwrap_or_default();
        let work = Work {
            file,
            folio,
            range,
            kind,
            state: TicketState::Pending,
            token: Some(token.clone()),
        };
        let slot = self.works.insert(work).ok()?;
        let gone = self.gone.clone();
        Some(Ticket {
            slot,
            range,
            token,
            gone,
        })
    }

    /// Adds work of the engine's own.
    pub(crate) fn add_own(
        &mut self,
        (file, folio): (Key, Key),
        range: FileRange,
        kind: WorkKind,
    ) -> Option<Key> {
        let work = Work {
            file,
            folio,
            range,
            kind,
            state: TicketState::Pending,
            token: None,
        };
        self.works.insert(work).ok()
    }

    pub(crate) fn get(&self, slot: Key) -> Option<&Work> {
        self.works.get(slot)
    }

    pub(crate) fn get_mut(&mut self, slot: Key) -> Option<&mut Work> {
        self.works.get_mut(slot)
    }

    /// The work of a ticket, if it is one of this engine's.
    pub(crate) fn of(&mut self, ticket: &Ticket) -> Option<&mut Work> {
        let work = self.works.get_mut(ticket.slot)?;
        let token = work.token.as_ref()?;
        Arc::ptr_eq(token, &ticket.token).then_some(work)
    }

    /// As [`of`](Self::of), to look at.
    pub(crate) fn checked(&self, ticket: &Ticket) -> Option<&Work> {
        let work = self.works.get(ticket.slot)?;
        let token = work.token.as_ref()?;
        Arc::ptr_eq(token, &ticket.token).then_some(work)
    }

    /// Frees a slot.
    pub(crate) fn remove(&mut self, slot: Key) {
        if let Some(work) = self.works.remove(slot)
            && let Some(token) = work.token
            && Arc::strong_count(&token) <= 2
        {
            // The ticket that is dropped next, if any, leaves one owner.
            self.tokens.push(token);
        }
    }

    /// Frees the slot of a ticket that comes back, which is one of this engine's.
    pub(crate) fn end(&mut self, ticket: Ticket) {
        self.remove(ticket.slot);
        drop(ticket);
        self.gone.fetch_sub(1, Ordering::Relaxed);
    }

    /// Makes the work of a dropped ticket the engine's own, to end by itself.
    pub(crate) fn disown(&mut self, slot: Key) {
        if let Some(work) = self.works.get_mut(slot)
            && let Some(token) = work.token.take()
        {
            self.tokens.push(token);
        }
    }

    /// Whether the work of a slot has no ticket.
    pub(crate) fn is_disowned(&self, slot: Key) -> bool {
        self.works
            .get(slot)
            .is_some_and(|work| work.token.is_none())
    }

    /// The first slot whose ticket was dropped.
    pub(crate) fn dropped(&self) -> Option<Key> {
        if self.gone.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut works = self.works.iter();
        let dropped = works.find(|(_, work)| {
            let token = work.token.as_ref();
            token.is_some_and(|token| Arc::strong_count(token) == 1)
        });
        let (slot, _) = dropped?;
        self.gone.fetch_sub(1, Ordering::Relaxed);
        Some(slot)
    }

    /// Tickets that their callers hold.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Work> {
        self.works.iter().map(|(_, work)| work)
    }
}
