//! The one place where locks, threads and the clock come from: the standard
//! library's, and shuttle's under `cfg(shuttle)`, which runs threads in orders
//! of its choice.

#[cfg(not(shuttle))]
use std::time::Duration;

#[cfg(not(shuttle))]
pub(crate) use std::sync::{
    Arc, Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
};
#[cfg(not(shuttle))]
pub(crate) use std::thread;

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
#[cfg(shuttle)]
pub(crate) use shuttle::thread;
#[cfg(shuttle)]
pub(crate) use watched::{Clock, Condvar};

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

/// What shuttle's threads have in place of the standard library's.
#[cfg(shuttle)]
pub(crate) mod watched {
    use std::sync::LockResult;
    use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
    use std::time::Duration;

    use shuttle::sync::{MutexGuard, WaitTimeoutResult};

    /// Time that passes by being looked at, so that a schedule can be run again.
    #[derive(Debug)]
    pub(crate) struct Clock(AtomicU64);

    impl Clock {
        /// One look at the clock takes as long.
        const LOOK: Duration = Duration::from_millis(100);

        pub(crate) fn start() -> Self {
            Self(AtomicU64::new(0))
        }

        pub(crate) fn elapsed(&self) -> Duration {
            let looks = self.0.fetch_add(1, Ordering::Relaxed);
            Self::LOOK.saturating_mul(u32::try_from(looks).unwrap_or(u32::MAX))
        }
    }

    /// What scenes have to notice.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[repr(u8)]
    pub enum Mistake {
        /// There is none.
        None,
        /// Nobody is told that something changed.
        NoWakes,
        /// Leases are not recalled.
        NoRecalls,
    }

    static MADE: AtomicU8 = AtomicU8::new(Mistake::None as u8);

    /// Makes a mistake from now on.
    pub fn make(mistake: Mistake) {
        MADE.store(mistake as u8, Ordering::Relaxed);
    }

    pub(crate) fn is_made(mistake: Mistake) -> bool {
        MADE.load(Ordering::Relaxed) == mistake as u8
    }

    /// A condition whose waits never time out.
    #[derive(Debug, Default)]
    pub(crate) struct Condvar(shuttle::sync::Condvar);

    impl Condvar {
        pub(crate) const fn new() -> Self {
            Self(shuttle::sync::Condvar::new())
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(crate) fn notify_all(&self) {
            if !is_made(Mistake::NoWakes) {
                self.0.notify_all();
            }
        }

        pub(crate) fn wait<'a, T>(
            &self,
            guard: MutexGuard<'a, T>,
        ) -> LockResult<MutexGuard<'a, T>> {
            self.0.wait(guard)
        }

        pub(crate) fn wait_timeout<'a, T>(
            &self,
            guard: MutexGuard<'a, T>,
            time: Duration,
        ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
            self.0.wait_timeout(guard, time)
        }
    }
}
