//! Ordered extents: ranges of a file whose place on the device is decided and
//! whose data is on its way there (O1–O8).
//!
//! [`OrderedTable`] holds the rules, once, over any [`ExtentStore`]: a
//! [`FixedStore`] of a capacity known at compile time, or (feature `alloc`) a
//! `TreeStore`. What was finished already is remembered by the store's
//! [`FinishedMap`], so that a double finish is detected; `NoFinishedMap` leaves
//! that memory out. [`SharedTable`] is a table behind a spin lock.

mod extent;
mod finished;
mod fixed;
#[cfg(feature = "alloc")]
mod leaf;
mod near;
mod shared;
mod store;
mod table;
#[cfg(test)]
mod tests;
#[cfg(feature = "alloc")]
mod tree;
mod wait;

pub use extent::{
    NewOrdered, OrderedError, OrderedExtent, OrderedFlags, OrderedId, OrderedKind, Outcome, Record,
};
#[cfg(feature = "alloc")]
pub use finished::HeapFinishedMap;
pub use finished::{FinishedMap, FixedFinishedMap, NoFinishedMap, Span};
pub use fixed::FixedStore;
pub(crate) use near::{ExtentHint, NearExtents};
pub use shared::SharedTable;
pub use store::{AddError, Entry, ExtentStore};
pub use table::{
    FinishObserver, Finished, InsertError, IoOutcome, OrderedTable, SplitError, Truncated,
};
#[cfg(feature = "alloc")]
pub use tree::TreeStore;
pub use wait::{FailureSeq, OrderedWait, WaitState};
