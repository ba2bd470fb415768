//! Folios that threads share.

use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use extentwise_engine::{Memory, NoMemory};
use extentwise_memory::Folio;

/// The bytes of a folio: looked at by many, or written by one.
#[derive(Clone, Debug)]
pub(crate) struct SharedBytes(Arc<RwLock<Folio>>);

impl SharedBytes {
    /// A thread that panicked while it copied left bytes as any short copy does.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Folio> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// See [`read`](Self::read).
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Folio> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Page-aligned memory behind a lock for each folio.
#[derive(Debug, Default)]
pub(crate) struct SharedMemory;

impl Memory for SharedMemory {
    type Bytes = SharedBytes;

    fn allocate(&mut self, len: usize) -> Result<SharedBytes, NoMemory> {
        let folio = Folio::zeroed(len).map_err(|_| NoMemory)?;
        Ok(SharedBytes(Arc::new(RwLock::new(folio))))
    }

    fn zero(&mut self, bytes: &mut SharedBytes, range: Range<usize>) {
        if let Some(part) = bytes.write().get_mut(range) {
            part.fill(0);
        }
    }
}
