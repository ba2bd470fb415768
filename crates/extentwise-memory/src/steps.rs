//! The steps of getting memory, and who may stand in their way.

/// A step that can fail for want of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// One allocation for a whole block.
    Contiguous,
    /// Address space to map pages side by side.
    Map,
    /// The page of this index, to be mapped or scattered.
    Page(usize),
}

/// Asked before each step; a step that is not allowed counts as failed.
///
/// The machine's own failures come beside it. A budget can be kept this way,
/// and tests reach every failure ([`testing`](crate::testing)).
pub trait Steps {
    /// Whether the step may be tried.
    fn allows(&mut self, step: Step) -> bool;
}

/// Nothing stands in the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unhindered;

impl Steps for Unhindered {
    fn allows(&mut self, _: Step) -> bool {
        true
    }
}
