//! A thin store: many files on one device, which get their space when they are
//! written.
//!
//! A [`ThinStore`] is a [`Mapping`](extentwise_engine::Mapping): it says where
//! the bytes of files lie, and takes note of what was written. It moves no data.
//! What is written again goes to a new place, and the old place is given up when
//! the new one is recorded; so a crash shows the old bytes or the new ones, and
//! never a mixture. A promise ([`reserve`](extentwise_engine::Mapping::reserve))
//! counts the blocks that the map itself will need.
//!
//! **Invariant**: whatever the bytes of a device are, opening it answers a store
//! or an error.
//!
//! ```
//! use extentwise_core::geometry::{BlockSize, FileOffset, FileRange};
//! use extentwise_engine::{ExtentKind, FileId, Mapping};
//! # use core::cell::RefCell;
//! # use extentwise_device::*;
//! # struct Ram(RefCell<Vec<u8>>);
//! # impl Device for Ram {
//! #     fn geometry(&self) -> DeviceGeometry {
//! #         let len = LenBytes::new(self.0.borrow().len() as u64);
//! #         DeviceGeometry::new(512, 512).unwrap().with_capacity(len)
//! #     }
//! #     fn read(&self, at: DiskByte, to: &mut [&mut [u8]]) -> Result<LenBytes, DeviceError> {
//! #         let (at, len) = (at.get() as usize, to[0].len());
//! #         to[0].copy_from_slice(&self.0.borrow()[at..at + len]);
//! #         Ok(LenBytes::new(len as u64))
//! #     }
//! #     fn write(&self, at: DiskByte, from: &[&[u8]]) -> Result<LenBytes, DeviceError> {
//! #         let (at, len) = (at.get() as usize, from[0].len());
//! #         self.0.borrow_mut()[at..at + len].copy_from_slice(from[0]);
//! #         Ok(LenBytes::new(len as u64))
//! #     }
//! #     fn flush(&self) -> Result<(), DeviceError> {
//! #         Ok(())
//! #     }
//! # }
//! use extentwise_thin::ThinStore;
//!
//! # let device = Ram(RefCell::new(vec![0; 1 << 20]));
//! let mut store = ThinStore::format(&device, BlockSize::new(4096)?)?;
//! store.create(FileId(7))?;
//! let range = FileRange::new(FileOffset::new(0), FileOffset::new(8192)).unwrap();
//! store.preallocate(FileId(7), range)?;
//! store.persist(&device)?;
//!
//! let mut store = ThinStore::open(&device)?;
//! let extent = store.map(FileId(7), range)?;
//! assert!(matches!(extent.kind, ExtentKind::Unwritten(_)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is on the device
//!
//! All numbers are little-endian; a block has 512 bytes to 64 KiB. Blocks are
//! numbered from the device's first byte on. Each block that is described here
//! begins the same:
//!
//! | bytes | |
//! |---|---|
//! | 0..32 | crc32c of all that follows; the field's last 28 bytes are zero |
//! | 32..40 | `XTWthin` or `XTWtmap`, and the version, 1, in the last byte |
//! | 40..48 | its own address, in bytes |
//! | 48..56 | generation |
//!
//! The two **superblocks** have 512 bytes; the rest of their blocks is zero. They
//! lie at byte 0 and at byte 65,536, whatever the block size, so that one is
//! found without the other, and so that no block of a file can pass for one.
//!
//! | bytes | |
//! |---|---|
//! | 56..64 | bytes of a block |
//! | 64..72 | blocks of the device |
//! | 72..80 | the first block of the map; 0 if the map is empty |
//! | 80..88 | that block's crc32c |
//! | 88..96 | blocks of the map |
//!
//! The **map** is a chain of blocks. Each names the next by its place *and its
//! checksum*, as the superblock names the first: a block of another generation
//! cannot stand in for one that was not written.
//!
//! | bytes | |
//! |---|---|
//! | 56..64 | owner: the file that the first record belongs to |
//! | 64..72 | the next block; 0 in the last |
//! | 72..80 | that block's crc32c |
//! | 80..88 | records in this block |
//! | 88.. | records of three words, 24 bytes |
//!
//! The records are each file, by number, followed by its extents in order.
//!
//! | record | first word | second word | third word |
//! |---|---|---|---|
//! | file | 1 + 256 × its extents | number | size in bytes |
//! | written extent | 2 + 256 × its blocks | first block in the file | first block on the device |
//! | unwritten extent | 3 + 256 × its blocks | first block in the file | first block on the device |
//!
//! # How it becomes durable
//!
//! [`ThinStore::persist`] writes the whole map to free blocks, flushes, writes
//! the superblock to the slot of the older one, and flushes (C8). The first flush
//! covers the data that the map points at as well. Until the new superblock is
//! durable the old map and all blocks that it has as data are left alone: what is
//! given up is *pinned*, and free only afterwards. Blocks that no durable map has
//! as data (written and given up between two persists, or never written) are free
//! at once.
//!
//! If the superblock or its flush fails, nobody knows which of the two states a
//! crash would show: both are left alone until that superblock is written again,
//! which is the first thing that the next `persist` does.
//!
//! The cost of a `persist` is that of the whole map: 24 bytes for each extent.
//!
//! **A limit**: a superblock that rots *after* it was durable looks like a torn
//! one, and the store opens with the state before it, the free blocks of which
//! may have been written since.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod check;
mod disk;
mod error;
mod file;
mod mapping;
mod open;
mod persist;
mod ranges;
mod space;
mod store;

pub use check::Unbalanced;
pub use error::{Broken, ThinError};
pub use store::{ThinStore, Usage};
