//! A table that threads share.

use super::{
    ExtentStore, FinishObserver, Finished, InsertError, IoOutcome, NewOrdered, OrderedExtent,
    OrderedId, OrderedTable, Truncated,
};
use crate::geometry::{BlockSize, FileOffset, FileRange};
use crate::sync::Mutex;

/// An [`OrderedTable`] behind a spin lock that is held for one operation.
///
/// **Invariant**: whoever completes an extent sees its smallest
/// `truncated_len`, and one thread only is told that it is done (O4, O8):
/// truncation, finishing and removal exclude each other.
#[derive(Debug)]
pub struct SharedTable<S>(Mutex<OrderedTable<S>>);

impl<S: ExtentStore> SharedTable<S> {
    /// An empty table for a file of this block size.
    #[must_use]
    pub fn new(block_size: BlockSize) -> Self {
        Self(Mutex::new(OrderedTable::new(block_size)))
    }

    /// Runs `run` with the table locked; for several operations that belong
    /// together. `run` must not come back to this table.
    pub fn with<R>(&self, run: impl FnOnce(&mut OrderedTable<S>) -> R) -> R {
        self.0.with(run)
    }

    /// See [`OrderedTable::insert`].
    pub fn insert(&self, spec: NewOrdered) -> Result<OrderedId, InsertError> {
        self.with(|table| table.insert(spec))
    }

    /// The extent that covers `at`, as it is now.
    pub fn lookup(&self, at: FileOffset) -> Option<OrderedExtent> {
        self.with(|table| table.lookup(at).copied())
    }

    /// See [`OrderedTable::truncate`].
    pub fn truncate(&self, range: FileRange) -> Truncated {
        self.with(|table| table.truncate(range))
    }

    /// See [`OrderedTable::finish`]. The observer runs under the lock and must
    /// not come back to this table.
    pub fn finish(
        &self,
        range: FileRange,
        outcome: IoOutcome,
        observer: &mut impl FinishObserver,
    ) -> Finished {
        self.with(|table| table.finish(range, outcome, observer))
    }

    /// See [`OrderedTable::remove`].
    pub fn remove(&self, id: OrderedId, start: FileOffset) -> Option<OrderedExtent> {
        self.with(|table| table.remove(id, start))
    }

    /// Gives the table back.
    pub fn into_inner(self) -> OrderedTable<S> {
        self.0.into_inner()
    }
}
