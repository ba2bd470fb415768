//! Devices for tests: of memory, recorded, faulty, and with a cache that a power
//! cut loses (C7, C8).
//!
//! All are deterministic: what is chosen is chosen by a seed, nothing reads a
//! clock, and they can be shared between threads. They wrap each other:
//! a [`RecordingDevice`] around a [`FaultDevice`] around a [`VolatileDevice`]
//! logs what the caller saw, the same inside out what the device did.

mod call;
mod completion;
mod fault;
mod image;
mod memory;
mod recording;
mod volatile;
mod when;

pub use call::{Call, CallKind};
pub use completion::{CompletionOrder, Hold, Order};
pub use fault::{Fault, FaultDevice, FaultPlan, FaultRule};
pub use image::Image;
pub use memory::MemoryDevice;
pub use recording::{Contents, RecordingDevice};
pub use volatile::{CrashImage, CrashImages, Fate, VolatileDevice};
pub use when::When;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The unit that a power cut tears: smaller pieces are written whole or not at
/// all.
pub const SECTOR: usize = 512;

/// What bytes read as that were held by a memory device and then discarded: no
/// zeros, so that nobody comes to rely on them.
pub const DISCARDED: u8 = 0xd5;

/// The value behind the lock. A test that panicked elsewhere with the lock held
/// has failed already, so its state may be looked at.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
