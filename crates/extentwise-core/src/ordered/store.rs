//! Where the ordered extents of a file are kept: storage only, no rules.

use super::{FinishedMap, OrderedExtent, OrderedId};
use crate::geometry::{FileOffset, FileRange};

/// An ordered extent with the memory of what was finished of it.
#[derive(Clone, Debug)]
#[repr(C)] // Where an extent lies is in the first line of the cache.
pub struct Entry<F> {
    pub(super) extent: OrderedExtent,
    pub(super) finished: F,
}

impl<F> Entry<F> {
    /// The extent.
    pub const fn extent(&self) -> &OrderedExtent {
        &self.extent
    }
}

/// Why an entry was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddError {
    /// It overlaps an extent that is there.
    Overlap,
    /// The store holds as many as it can.
    Full,
}

/// A container of ordered extents sorted by file offset, without overlaps.
///
/// The rules live in [`OrderedTable`](super::OrderedTable), which is the only
/// caller; a store only finds, adds and takes. Every store passes the same test
/// suite.
pub trait ExtentStore: Default {
    /// The memory kept with each extent.
    type Finished: FinishedMap;

    /// Extents held.
    fn len(&self) -> usize;

    /// Whether none is held.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The last extent that begins at or before `at`.
    fn at_or_before(&self, at: FileOffset) -> Option<&OrderedExtent>;

    /// The extents that begin at or behind `at`, ascending.
    fn ascending(&self, at: FileOffset) -> impl Iterator<Item = &OrderedExtent>;

    /// The entry that begins at `start`.
    fn get_mut(&mut self, start: FileOffset) -> Option<&mut Entry<Self::Finished>>;

    /// Calls `visit` with each entry that meets `range`, ascending.
    fn visit_mut(&mut self, range: FileRange, visit: impl FnMut(&mut Entry<Self::Finished>));

    /// Whether one more entry fits.
    fn has_room(&self) -> bool;

    /// Adds an entry. One that overlaps another, or does not fit, changes nothing.
    fn add(&mut self, entry: Entry<Self::Finished>) -> Result<(), AddError>;

    /// Takes out the extent `id`, which begins at `start`.
    fn take(&mut self, id: OrderedId, start: FileOffset) -> Option<OrderedExtent>;
}
