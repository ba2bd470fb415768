//! Runs scenarios through the core.
//!
//! Scenarios must pass their `check`, as all parsed and generated ones do. One
//! that does not is run as far as the core accepts it.

mod extent_buffer;
mod write_begin;
mod writeback;

pub use extent_buffer::extent_buffer;
pub use write_begin::write_begin;
pub use writeback::writeback;
