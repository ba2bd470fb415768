//! A page cache as a state machine that anybody can host.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod mapping;

pub use mapping::{ExtentKind, FileExtent, FileId, Identity, Mapping, PendingFile};
