//! Extents that were looked up, remembered to save lookups (W6).

use super::{ExtentStore, OrderedExtent, OrderedId, OrderedTable};
use crate::geometry::{DiskByte, FileOffset, FileRange};

/// Extents that one lookup remembers.
const AHEAD: usize = 16;

/// Where one extent of a table lies.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ExtentHint {
    /// The table's, at the time of the lookup.
    layout: u64,
    pub(crate) id: OrderedId,
    pub(crate) range: FileRange,
    disk: DiskByte,
}

impl ExtentHint {
    fn new(layout: u64, extent: &OrderedExtent) -> Self {
        Self {
            layout,
            id: extent.id(),
            range: extent.range(),
            disk: extent.disk_at(extent.file_offset()),
        }
    }

    /// Device address of a byte inside the extent.
    pub(crate) const fn disk_at(&self, at: FileOffset) -> DiskByte {
        let into = at.distance_from(self.range.start()).get();
        DiskByte::new(self.disk.get().saturating_add(into))
    }

    /// Whether the extent lies there still, and covers `at`.
    #[inline]
    pub(crate) fn covers<T: ExtentStore>(&self, at: FileOffset, table: &OrderedTable<T>) -> bool {
        self.range.contains(at) && self.is_current(table)
    }

    /// Whether the extent lies there still.
    #[inline]
    pub(crate) const fn is_current<T: ExtentStore>(&self, table: &OrderedTable<T>) -> bool {
        self.layout == table.layout()
    }
}

/// The extent found last and some of those behind it.
#[derive(Clone, Debug, Default)]
pub(crate) struct NearExtents {
    hints: heapless::Vec<ExtentHint, AHEAD>,
    /// Index of the one found last.
    last: usize,
}

impl NearExtents {
    /// The extent at the start of `range`: the one found last, the next, or else one
    /// looked up together with those behind it that meet `range`, which a walk over
    /// `range` wants next.
    #[inline]
    pub(crate) fn find<T: ExtentStore>(
        &mut self,
        range: FileRange,
        table: &OrderedTable<T>,
    ) -> Option<&ExtentHint> {
        if !self.covers(self.last, range.start(), table) {
            self.go_on(range, table);
        }
        self.hints.get(self.last)
    }

    #[inline]
    fn covers<T: ExtentStore>(
        &self,
        index: usize,
        at: FileOffset,
        table: &OrderedTable<T>,
    ) -> bool {
        let hint = self.hints.get(index);
        hint.is_some_and(|hint| hint.covers(at, table))
    }

    /// Goes on to the next extent if that is the one, or else looks it up. It is not
    /// inlined, for the pieces of one extent do not come here.
    #[inline(never)]
    fn go_on<T: ExtentStore>(&mut self, range: FileRange, table: &OrderedTable<T>) {
        if self.covers(self.last + 1, range.start(), table) {
            self.last += 1;
        } else {
            self.look_up(range, table);
        }
    }

    fn look_up<T: ExtentStore>(&mut self, range: FileRange, table: &OrderedTable<T>) {
        self.hints.clear();
        self.last = 0;
        let Some(first) = table.lookup(range.start()) else {
            return;
        };
        // There is room for one, and for as many as are taken.
        let _ = self.hints.push(ExtentHint::new(table.layout(), first));
        let behind = first.range().end();
        if behind >= range.end() {
            return;
        }
        for extent in table.ascending(behind).take(AHEAD - 1) {
            if extent.file_offset() >= range.end() {
                break;
            }
            let _ = self.hints.push(ExtentHint::new(table.layout(), extent));
        }
    }
}
