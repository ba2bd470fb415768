//! Reads btrfs images: every tree block of every tree, verified.
//!
//! An [`Image`] is opened over anything that can be [read at an
//! offset](ReadAt): a file, a block device, a slice. [`Image::check`] walks all
//! trees from the superblock on, reads each tree block once through an
//! [`ExtentBuffer`](extentwise_core::extent_buffer::ExtentBuffer), and says what
//! is [`Bad`] where. Nothing is ever written.
//!
//! **Invariant**: whatever the bytes are, the answer is a report or an error
//! (B9). Every length, level, count and offset is checked before it is used, and
//! the steps of a walk are counted against a budget, so a hostile image costs
//! bounded time and memory.
//!
//! ```
//! use extentwise_btrfs::{Heap, Image};
//!
//! let zeroes = vec![0_u8; 1 << 20];
//! let error = Image::open(zeroes.as_slice(), &mut Heap::default()).unwrap_err();
//! assert_eq!(error.to_string(), "no superblock; at 65536: the magic is missing");
//! ```

mod ahead;
mod chunk;
mod csum;
mod disk;
mod fault;
mod image;
mod memory;
mod read_at;
mod report;
mod superblock;
#[cfg(feature = "synthetic")]
pub mod synthetic;
mod verify;
mod view;
mod walk;

pub use chunk::Copy;
pub use disk::{Key, LEVEL_MAX, SUPERBLOCK_LEN, SUPERBLOCK_OFFSETS, Uuid, kind, objectid};
pub use extentwise_checksum::Algorithm;
pub use extentwise_memory::Backing;
pub use fault::{Bad, Dashed, Error, Field, Hex, Reason, Rule, Unsupported};
pub use image::Image;
pub use memory::{BackingCounts, BlockPool, Heap, NodeBlocks};
pub use read_at::{ImageFile, ReadAt};
pub use report::{Report, Stopped, Tree};
pub use superblock::{Root, Superblock};
pub use verify::Header;
pub use view::{BlockView, ItemView, Records};
pub use walk::Limits;
