//! Which cached folio was used longest ago.

use std::collections::{BTreeMap, HashMap};

/// A folio: the index of its file and its place there.
pub(super) type FolioKey = (usize, u64);

/// Folios in the order of their last use.
///
/// **Invariant**: `order` and `ticks` hold the same folios.
#[derive(Debug, Default)]
pub(super) struct Lru {
    clock: u64,
    order: BTreeMap<u64, FolioKey>,
    ticks: HashMap<FolioKey, u64>,
}

impl Lru {
    /// The folio is used now.
    pub(super) fn touch(&mut self, key: FolioKey) {
        self.clock += 1;
        if let Some(before) = self.ticks.insert(key, self.clock) {
            self.order.remove(&before);
        }
        self.order.insert(self.clock, key);
    }

    /// Forgets the folio.
    pub(super) fn remove(&mut self, key: FolioKey) {
        if let Some(tick) = self.ticks.remove(&key) {
            self.order.remove(&tick);
        }
    }

    /// The first folio used after `tick`, and its own tick; 0 comes before all.
    pub(super) fn next_after(&self, tick: u64) -> Option<(u64, FolioKey)> {
        let mut later = self.order.range(tick + 1..);
        later.next().map(|(&tick, &key)| (tick, key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_that_of_the_last_use() {
        let mut lru = Lru::default();
        for key in [(0, 0), (0, 1), (1, 0), (0, 0)] {
            lru.touch(key);
        }
        lru.remove((0, 1));
        let first = lru.next_after(0).expect("two are left");
        let second = lru.next_after(first.0).expect("one is left");
        assert_eq!((first.1, second.1), ((1, 0), (0, 0)));
        assert_eq!(lru.next_after(second.0), None);
    }
}
