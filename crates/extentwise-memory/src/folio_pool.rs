//! Folios that are used again.

use std::collections::BTreeMap;

use crate::{Folio, MemoryError};

/// Folios that were given back, kept for whoever wants one of their size.
///
/// A cache that is full gives one folio back for each that it gets. Without a
/// pool each of these is mapped, zeroed and unmapped by the system, or leaves
/// holes between others that no larger one fits in.
#[derive(Debug)]
pub struct FolioPool {
    /// By size.
    free: BTreeMap<usize, Vec<Folio>>,
    bytes: usize,
    bytes_max: usize,
}

impl FolioPool {
    /// An empty pool, which keeps at most `bytes_max` bytes.
    #[must_use]
    pub const fn new(bytes_max: usize) -> Self {
        Self {
            free: BTreeMap::new(),
            bytes: 0,
            bytes_max,
        }
    }

    /// An empty pool for a cache of so many bytes, of which it keeps an eighth.
    #[must_use]
    pub fn of_cache(cache_bytes: u64) -> Self {
        Self::new(usize::try_from(cache_bytes / 8).unwrap_or(usize::MAX))
    }

    /// Bytes that are kept.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// A folio of `len` bytes, a power of two; they hold anything. What is kept
    /// is let go before memory is given up (B7).
    pub fn get(&mut self, len: usize) -> Result<Folio, MemoryError> {
        if let Some(folio) = self.free.get_mut(&len).and_then(Vec::pop) {
            self.bytes = self.bytes.saturating_sub(len);
            return Ok(folio);
        }
        match Folio::zeroed(len) {
            Err(MemoryError::OutOfMemory(_)) if self.bytes > 0 => {
                self.purge();
                Folio::zeroed(len)
            }
            got => got,
        }
    }

    /// Takes a folio back. Where there is no room, those of other sizes go, which
    /// nobody wanted; then this one.
    pub fn give_back(&mut self, folio: Folio) {
        let len = folio.len();
        if self.has_no_room(len) {
            let same = self.free.remove(&len).unwrap_or_default();
            self.bytes = same.len().saturating_mul(len);
            self.free.clear();
            self.free.insert(len, same);
        }
        if self.has_no_room(len) {
            return;
        }
        self.bytes += len;
        self.free.entry(len).or_default().push(folio);
    }

    /// Lets go of all that is kept.
    pub fn purge(&mut self) {
        self.free.clear();
        self.bytes = 0;
    }

    fn has_no_room(&self, len: usize) -> bool {
        self.bytes
            .checked_add(len)
            .is_none_or(|sum| sum > self.bytes_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folio_of_the_same_size_is_used_again() {
        let mut pool = FolioPool::new(1 << 20);
        let mut folio = pool.get(8192).unwrap();
        folio.fill(7);
        let start = folio.start();
        pool.give_back(folio);
        assert_eq!(pool.bytes(), 8192);
        assert_eq!(pool.get(4096).unwrap().len(), 4096);
        let again = pool.get(8192).unwrap();
        assert_eq!((again.start(), again[0]), (start, 7));
        assert_eq!(pool.bytes(), 0);
    }

    #[test]
    fn it_keeps_no_more_than_it_may_and_other_sizes_go_first() {
        let mut pool = FolioPool::new(10_000);
        for len in [4096, 4096, 8192] {
            pool.give_back(Folio::zeroed(len).unwrap());
        }
        assert_eq!(pool.bytes(), 8192);
        pool.give_back(Folio::zeroed(8192).unwrap());
        assert_eq!(pool.bytes(), 8192);
        pool.give_back(Folio::zeroed(16384).unwrap());
        assert_eq!(pool.bytes(), 0);
        let mut eighth = FolioPool::of_cache(8 * 4096 + 7);
        for _ in 0..2 {
            eighth.give_back(Folio::zeroed(4096).unwrap());
        }
        assert_eq!(eighth.bytes(), 4096);
        FolioPool::new(0).give_back(Folio::zeroed(1).unwrap());
    }

    #[test]
    fn what_is_no_folio_is_refused_and_nothing_is_let_go() {
        let mut pool = FolioPool::new(1 << 20);
        pool.give_back(Folio::zeroed(4096).unwrap());
        assert!(pool.get(4097).is_err());
        assert_eq!(pool.bytes(), 4096);
        assert!(pool.get(1 << 63).is_err());
        assert_eq!(pool.bytes(), 0);
    }
}
