//! Devices of an operating system below the engine.
//!
//! [`FileDevice`] is a file or a block device through the system's page cache,
//! [`DirectDevice`] one past it. What the system answers becomes an error with a
//! class, by one table ([`class_of_os_code`]).
//!
//! With the feature `uring`, transfers go through `io_uring`: one at a time by a
//! `UringDevice`, many of an engine by a `UringDriver`. Nothing else here is
//! unsafe code.

#![cfg_attr(not(feature = "uring"), forbid(unsafe_code))]

mod alignment;
mod direct;
mod disk;
mod errno;
mod file;
mod open;
mod transfer;
#[cfg(feature = "uring")]
mod uring;

pub use direct::DirectDevice;
pub use errno::class_of_os_code;
pub use file::FileDevice;
pub use open::{Access, FileOptions, Lock, Missing, OpenCause, OpenError};
#[cfg(feature = "uring")]
pub use uring::{
    Concurrency, RingFile, RingFolio, RingMemory, RingTarget, UringDevice, UringDriver, UringError,
};
