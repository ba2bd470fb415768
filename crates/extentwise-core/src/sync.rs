//! The one place where locks and atomics come from: `spin` and `core` in the
//! product, loom's in its models. A model over a lock that loom cannot see
//! would pass after a single execution and prove nothing.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, Ordering};

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicU32, Ordering};

/// A mutual-exclusion lock; under loom a poisoned lock is a failed model.
#[derive(Debug)]
#[cfg(not(loom))]
pub(crate) struct Mutex<T>(spin::mutex::SpinMutex<T>);

#[cfg(not(loom))]
impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(spin::mutex::SpinMutex::new(value))
    }

    pub(crate) fn with<R>(&self, run: impl FnOnce(&mut T) -> R) -> R {
        run(&mut self.0.lock())
    }

    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

/// A mutual-exclusion lock; under loom a poisoned lock is a failed model.
#[derive(Debug)]
#[cfg(loom)]
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

#[cfg(loom)]
impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    pub(crate) fn with<R>(&self, run: impl FnOnce(&mut T) -> R) -> R {
        run(&mut self.0.lock().expect("a thread of the model panicked"))
    }

    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner().expect("a thread of the model panicked")
    }
}
