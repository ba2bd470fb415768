//! `io_uring`: calls go into a ring that is shared with the kernel, answers come
//! out of another, in any order.
//!
//! | file | what it is |
//! |---|---|
//! | `ring.rs` | the ring itself: entries in, answers out |
//! | `device.rs` | a device that waits for each call |
//! | `memory.rs` | folios that the kernel reads and writes while the engine has them |
//! | `flight.rs` | transfers under way, with what they need |
//! | `driver.rs` | an engine's effects, many of them under way |
//!
//! **Invariant**: what the kernel was told of outlives the call. A device waits
//! for the answer before it gives borrowed memory back; a flight owns its file and a
//! share of its memory until its answer came, and is leaked where none comes.
#![allow(
    unsafe_code,
    reason = "the kernel works on memory behind the compiler's back; each block holds one operation and its proof"
)]
#![deny(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    unsafe_op_in_unsafe_fn
)]

mod device;
mod driver;
mod error;
mod flight;
mod memory;
mod ring;
mod target;

pub use device::UringDevice;
pub use driver::{Concurrency, UringDriver};
pub use error::UringError;
pub use memory::{RingFolio, RingMemory};
pub use target::{RingFile, RingTarget};
