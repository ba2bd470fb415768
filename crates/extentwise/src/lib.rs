//! A page cache for threads.
//!
//! [`PageCache`] hosts the engine (`extentwise-engine`): threads of its own carry
//! out what the engine wants done, on the devices that your [`Host`] brings.
//! [`File`] handles are positioned readers and writers that any number of
//! threads share.
//!
//! Bytes are copied while the engine is not locked: writers of different folios
//! copy at the same time, and readers wait for nobody but a writer of the same
//! folio. A write to bytes that are cached does not ask the engine each time:
//! the handle borrows them (`lease.rs`) and gives them back before anything that
//! has to know of them, and after a second.

//!
//! With the feature `tracing`, each transfer is an event, and failures and losses
//! are warnings; with `metrics`, transfers, their bytes, times and failures are
//! counted under names that begin with `extentwise_`.

#![forbid(unsafe_code)]

mod cache;
mod cursor;
mod file;
mod flusher;
mod lease;
mod memory;
mod sync;
mod told;

pub use cache::{PageCache, Setup, Snapshot};
pub use cursor::Cursor;
pub use extentwise_device as device;
pub use extentwise_engine as engine;
pub use extentwise_engine::{
    BlockSize, CloseReason, Config, ErrorClass, ErrorPolicy, FileId, FileOffset, FileRange, Host,
    Identity, LenBytes, Loss, Mapping, Refusal,
};
#[cfg(shuttle)]
#[doc(hidden)]
pub use sync::watched::{Mistake, make};

pub use file::{CloseError, Durable, File, Patience};
