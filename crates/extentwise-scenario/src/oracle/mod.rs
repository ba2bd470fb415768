//! The reference: decides scenarios block by block, written from the rules
//! alone and simple enough to be believed by reading. It shares nothing with
//! the core but the scenario and result types.
//!
//! Scenarios must pass their `check`, as all parsed and generated ones do.

mod extent_buffer;
mod write_begin;
mod writeback;

pub use extent_buffer::extent_buffer;
pub use write_begin::write_begin;
pub use writeback::writeback;
