//! Devices of an operating system below the engine.
//!
//! [`FileDevice`] is a file or a block device through the system's page cache,
//! [`DirectDevice`] one past it. What the system answers becomes an error with a
//! class, by one table ([`class_of_os_code`]).

#![forbid(unsafe_code)]

mod alignment;
mod direct;
mod disk;
mod errno;
mod file;
mod open;
mod transfer;

pub use direct::DirectDevice;
pub use errno::class_of_os_code;
pub use file::FileDevice;
pub use open::{Access, FileOptions, Lock, Missing, OpenCause, OpenError};
