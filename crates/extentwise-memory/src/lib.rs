//! Memory for metadata blocks, from Linux.
//!
//! The core's extent buffers borrow their bytes. This crate owns such bytes:
//!
//! - [`Folio`]: aligned memory of any power of two of bytes, zeroed, in one
//!   allocation; [`FolioPool`] keeps those that were given back;
//! - [`NodeMemory`]: the memory of one metadata block, contiguous where it can
//!   be, else pages mapped side by side, else scattered pages (B1). The core
//!   does the same on all three; [`NodeMemory::backing`] tells which it is;
//! - [`NodePool`]: gets such memory, falls from one backing to the next, and
//!   keeps what was given back to be used again (B7).
//!
//! ```
//! use extentwise_core::extent_buffer::ExtentBuffer;
//! use extentwise_memory::{Backing, Content, NodeGeometry, NodePool};
//!
//! let geometry = NodeGeometry::new(16384, 4096)?;
//! let mut pool = NodePool::new(1 << 20);
//! let memory = pool.get(geometry, Backing::Contiguous, Content::Zeroed)?;
//! let mut block = ExtentBuffer::zeroed(1 << 20, memory);
//! block.write(4092, &[1, 2, 3, 4, 5, 6, 7, 8])?;
//! pool.give_back(block.into_memory());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Memory that cannot be got is an error, never an abort. What is there is
//! always initialised: there is no way to see bytes that nobody wrote.
//!
//! A process that forks without replacing itself must not touch these buffers
//! in the child: pages that are mapped side by side are shared with it.
#![allow(
    unsafe_code,
    reason = "this is the one crate that owns raw memory; each block holds one operation and its proof"
)]
#![deny(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    unsafe_op_in_unsafe_fn
)]

mod error;
mod folio;
mod folio_pool;
mod geometry;
mod mapping;
mod node;
mod part;
mod pool;
mod steps;
pub mod testing;

pub use error::MemoryError;
pub use folio::Folio;
pub use folio_pool::FolioPool;
pub use geometry::{Backing, NodeGeometry};
pub use node::NodeMemory;
pub use pool::{Content, NodePool, PoolStats};
pub use steps::{Step, Steps, Unhindered};
