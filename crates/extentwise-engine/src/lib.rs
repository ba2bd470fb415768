//! A page cache as a state machine that anybody can host.
//!
//! [`Engine`] never performs I/O, takes a lock, spawns a thread, reads a clock or
//! uses `unsafe`. Calls go in, [`Effect`]s come out; a kernel, a thread pool or a
//! simulator carries them out. Folios live in the host's [`Memory`], and a
//! [`Mapping`] says where data lies on the device.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod calls;
mod config;
mod driver;
mod effect;
mod engine;
mod file;
mod folio;
mod index;
mod mapping;
mod memory;
mod slab;
mod stats;
mod ticket;

pub use calls::Calls;
pub use config::{Config, ConfigError, ErrorPolicy};
pub use driver::{Driver, Host, Transfers};
pub use effect::{Effect, IoId, Loss, Refusal, SyncId};
pub use engine::{CloseError, CloseReason, Engine, HandleId};
pub use extentwise_core::errseq::ErrorClass;
pub use extentwise_core::geometry::{BlockSize, DiskByte, FileOffset, FileRange, LenBytes};
pub use extentwise_core::ordered::{
    NewOrdered, OrderedExtent, OrderedFlags, OrderedKind, Outcome, Record,
};
pub use extentwise_core::writeback::{BioLimits, Stride};
pub use extentwise_device::WriteCache;
pub use mapping::{ExtentKind, FileExtent, FileId, Identity, Mapping, PendingFile};
pub use memory::{HeapMemory, Memory, NoMemory};
pub use stats::{Blocks, Counts, Histogram};
pub use ticket::{OverwriteTicket, ReadTicket, TicketState, WriteTicket};
