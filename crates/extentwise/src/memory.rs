//! Folios that threads share.

use std::ops::Range;
use std::sync::{PoisonError, TryLockError};

use extentwise_engine::{Config, Memory, NoMemory};
use extentwise_memory::{Folio, FolioPool};

use crate::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The bytes of a folio: looked at by many, or written by one.
#[derive(Clone, Debug)]
pub(crate) struct SharedBytes(Arc<Padded>);

/// Two cache lines, which processors fetch together: threads that lock one
/// folio each do not slow each other down.
#[derive(Debug)]
#[repr(align(128))]
struct Padded(RwLock<Folio>);

impl SharedBytes {
    /// A thread that panicked while it copied left bytes as any short copy does.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Folio> {
        self.0.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// See [`read`](Self::read).
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Folio> {
        self.0.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// See [`read`](Self::read); `None` while another thread has them.
    #[inline]
    pub(crate) fn try_write(&self) -> Option<RwLockWriteGuard<'_, Folio>> {
        match self.0.0.try_write() {
            Ok(bytes) => Some(bytes),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// Page-aligned memory behind a lock for each folio; what is given back is used
/// again.
#[derive(Debug)]
pub(crate) struct SharedMemory(FolioPool);

impl SharedMemory {
    pub(crate) fn new(config: &Config) -> Self {
        Self(FolioPool::of_cache(config.cache_bytes_max.get()))
    }
}

impl Memory for SharedMemory {
    type Bytes = SharedBytes;

    fn allocate(&mut self, len: usize) -> Result<SharedBytes, NoMemory> {
        let folio = self.0.get(len).map_err(|_| NoMemory)?;
        Ok(SharedBytes(Arc::new(Padded(RwLock::new(folio)))))
    }

    fn zero(&mut self, bytes: &mut SharedBytes, range: Range<usize>) {
        if let Some(part) = bytes.write().get_mut(range) {
            part.fill(0);
        }
    }

    fn release(&mut self, bytes: SharedBytes) {
        // A thread that still looks at them is the last to let them go.
        if let Ok(Padded(folio)) = Arc::try_unwrap(bytes.0) {
            let folio = folio.into_inner();
            self.0
                .give_back(folio.unwrap_or_else(PoisonError::into_inner));
        }
    }
}
