//! The one place where locks, threads and the clock come from: the standard
//! library's, and shuttle's under `cfg(shuttle)`, which runs threads in orders
//! of its choice.

use std::time::Duration;

#[cfg(not(shuttle))]
pub(crate) use std::sync::{
    Arc, Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
};
#[cfg(not(shuttle))]
pub(crate) use std::thread;

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{
    Arc, Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
};
#[cfg(shuttle)]
pub(crate) use shuttle::thread;

/// Time since the clock was made.
#[cfg(not(shuttle))]
#[derive(Debug)]
pub(crate) struct Clock(std::time::Instant);

#[cfg(not(shuttle))]
impl Clock {
    pub(crate) fn start() -> Self {
        Self(std::time::Instant::now())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Time that passes by being looked at, so that a schedule can be run again.
#[cfg(shuttle)]
#[derive(Debug)]
pub(crate) struct Clock(std::sync::atomic::AtomicU64);

#[cfg(shuttle)]
impl Clock {
    /// One look at the clock takes as long.
    const LOOK: Duration = Duration::from_millis(100);

    pub(crate) fn start() -> Self {
        Self(std::sync::atomic::AtomicU64::new(0))
    }

    pub(crate) fn elapsed(&self) -> Duration {
        let looks = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Self::LOOK.saturating_mul(u32::try_from(looks).unwrap_or(u32::MAX))
    }
}
