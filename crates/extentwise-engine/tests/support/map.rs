//! A map that allocates on write, out of a counted number of blocks.

use std::collections::{BTreeMap, BTreeSet};

use extentwise_engine::{
    DiskByte, ErrorClass, ExtentKind, FileExtent, FileId, FileOffset, FileRange, LenBytes, Mapping,
    NewOrdered, OrderedExtent, Outcome, Record,
};

use super::BLOCK;

/// Calls so far, in blocks except where it says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Calls {
    pub(crate) reserved: u64,
    pub(crate) unreserved: u64,
    pub(crate) allocated: u64,
    /// Extents completed.
    pub(crate) completed: u64,
}

/// Places new data behind all earlier data and counts blocks: free, promised,
/// in use. Breaking the rules of [`Mapping`] is a failed test.
#[derive(Debug)]
pub(crate) struct CountingMap {
    capacity: u64,
    /// Block of the file to block of the device.
    places: BTreeMap<(FileId, u64), u64>,
    promised: BTreeSet<(FileId, u64)>,
    /// Blocks of extents under way.
    under_way: u64,
    next: u64,
    pub(crate) calls: Calls,
    /// The longest extent that is handed out, in blocks.
    pub(crate) extent_blocks_max: u64,
    /// After so many calls more, `allocate` answers this error.
    pub(crate) refusal: Option<(u64, ErrorClass)>,
    /// The next `complete` answers this error.
    pub(crate) not_recorded: Option<ErrorClass>,
    /// The end of the last range, in the file, that got a place.
    pub(crate) allocated_end: u64,
    pub(crate) size: BTreeMap<FileId, u64>,
}

impl CountingMap {
    /// An empty map over so many blocks.
    pub(crate) fn with_blocks(capacity: u64) -> Self {
        Self {
            capacity,
            places: BTreeMap::new(),
            promised: BTreeSet::new(),
            under_way: 0,
            next: 0,
            calls: Calls::default(),
            extent_blocks_max: u64::MAX,
            refusal: None,
            not_recorded: None,
            allocated_end: 0,
            size: BTreeMap::new(),
        }
    }

    /// Maps blocks of a file to blocks of the device, as an earlier life left
    /// them.
    pub(crate) fn place(&mut self, file: FileId, first: u64, disk: u64, blocks: u64) {
        for nth in 0..blocks {
            self.places.insert((file, first + nth), disk + nth);
        }
        self.next = self.next.max(disk + blocks);
    }

    /// Where the block of the file that holds `at` lies, in bytes.
    pub(crate) fn disk_of(&self, file: FileId, at: u64) -> Option<u64> {
        let place = self.places.get(&(file, at / BLOCK))?;
        Some(place * BLOCK)
    }

    /// Blocks that are promised and have no place yet.
    pub(crate) fn promised(&self) -> u64 {
        self.promised.len() as u64
    }

    /// Blocks that hold data on record.
    pub(crate) fn used(&self) -> u64 {
        self.places.len() as u64
    }

    /// Blocks that nobody has.
    pub(crate) fn free(&self) -> u64 {
        self.capacity - self.used() - self.promised() - self.under_way
    }
}

/// The blocks of a range, which must be whole ones.
fn blocks(range: FileRange) -> std::ops::Range<u64> {
    let (start, end) = (range.start().get(), range.end().get());
    assert!(
        start % BLOCK == 0 && (end % BLOCK == 0 || end > u64::MAX - BLOCK),
        "{range}"
    );
    start / BLOCK..end.div_ceil(BLOCK)
}

impl Mapping for CountingMap {
    fn map(&mut self, file: FileId, asked: FileRange) -> Result<FileExtent, ErrorClass> {
        let asked = blocks(asked);
        let first = self.places.get(&(file, asked.start)).copied();
        let same = |nth: u64| {
            let place = self.places.get(&(file, asked.start + nth)).copied();
            place == first.map(|first| first + nth)
        };
        let count = (1..asked.end - asked.start)
            .take_while(|nth| same(*nth))
            .count();
        let start = FileOffset::new(asked.start * BLOCK);
        let len = LenBytes::new((count as u64 + 1) * BLOCK);
        Ok(FileExtent {
            range: FileRange::at(start, len).unwrap(),
            kind: first.map_or(ExtentKind::Hole, |first| {
                ExtentKind::Data(DiskByte::new(first * BLOCK))
            }),
        })
    }

    fn reserve(&mut self, file: FileId, range: FileRange) -> Result<(), ErrorClass> {
        let blocks = blocks(range);
        let count = blocks.end - blocks.start;
        if count > self.free() {
            return Err(ErrorClass::NoSpace);
        }
        self.calls.reserved += count;
        for block in blocks {
            assert!(self.promised.insert((file, block)), "promised twice");
        }
        Ok(())
    }

    fn unreserve(&mut self, file: FileId, range: FileRange) {
        for block in blocks(range) {
            self.calls.unreserved += 1;
            assert!(self.promised.remove(&(file, block)), "was not promised");
        }
    }

    fn allocate(&mut self, file: FileId, range: FileRange) -> Result<NewOrdered, ErrorClass> {
        if let Some((left, class)) = &mut self.refusal {
            if *left == 0 {
                return Err(*class);
            }
            *left -= 1;
        }
        let asked = blocks(range);
        let count = (asked.end - asked.start).min(self.extent_blocks_max);
        for block in asked.start..asked.start + count {
            assert!(self.promised.remove(&(file, block)), "was not promised");
        }
        self.calls.allocated += count;
        self.under_way += count;
        self.allocated_end = (asked.start + count) * BLOCK;
        let disk = self.next;
        self.next += count;
        Ok(NewOrdered::plain(
            range.start(),
            LenBytes::new(count * BLOCK),
            DiskByte::new(disk * BLOCK),
        ))
    }

    fn complete(
        &mut self,
        file: FileId,
        extent: &OrderedExtent,
        outcome: Outcome,
    ) -> Result<(), ErrorClass> {
        self.calls.completed += 1;
        self.under_way -= extent.num_bytes().get() / BLOCK;
        if let Some(class) = self.not_recorded.take() {
            return Err(class);
        }
        if let Record::Insert { file: range, disk } = outcome.record {
            for (nth, block) in (0..).zip(blocks(range)) {
                self.places.insert((file, block), disk.get() / BLOCK + nth);
            }
        }
        Ok(())
    }

    fn punch(&mut self, file: FileId, range: FileRange) -> Result<(), ErrorClass> {
        let blocks = blocks(range);
        self.places
            .retain(|(of, block), _| *of != file || !blocks.contains(block));
        Ok(())
    }

    fn set_size(&mut self, file: FileId, size: FileOffset) -> Result<(), ErrorClass> {
        self.size.insert(file, size.get());
        Ok(())
    }
}
