//! A flat file as its own device: byte `p` of the file lies at byte `p`.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use extentwise_core::errseq::ErrorClass;
use extentwise_core::geometry::{DiskByte, FileOffset, FileRange};
use extentwise_core::ordered::{NewOrdered, OrderedExtent, OrderedFlags, OrderedKind, Outcome};

use super::{ExtentKind, FileExtent, FileId, Mapping};

/// The identity: each file is a device of its own, written in place.
///
/// Holes that were punched are remembered until the host carries them out
/// ([`take_pending`](Self::take_pending)): until then they read as zero because
/// the map says so. A hole that is written again is no hole any more.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    files: BTreeMap<FileId, Flat>,
}

#[derive(Clone, Debug, Default)]
struct Flat {
    /// Behind the last byte that the device holds.
    disk_end: u64,
    /// How long the device is to be: the size on record, or more where data
    /// behind it was written.
    len: u64,
    /// Holes by their start, apart from each other: the device may hold other
    /// bytes there.
    holes: BTreeMap<u64, u64>,
    /// The ends of blocks that a truncate cut off within, by their start: of no
    /// concern to readers, who have them as zeros in the cache, but the device
    /// may hold other bytes, which a larger length would show.
    tails: BTreeMap<u64, u64>,
    /// Ordered extents by their start: no hole is carried out below them.
    writing: BTreeMap<u64, Writing>,
    changed: bool,
}

/// An ordered extent under way.
#[derive(Clone, Copy, Debug)]
struct Writing {
    end: u64,
    /// From here on the device held nothing when it began.
    fresh: u64,
}

/// What the host has to do to a file to make its map durable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingFile {
    /// These bytes of the device are to read as zero, first of all: whole blocks,
    /// and ends of blocks within which a truncate cut the file off.
    pub punch: Vec<FileRange>,
    /// Then this is its length.
    pub size: FileOffset,
    /// So many at the end of `punch` are ends of blocks.
    tails: usize,
}

impl Identity {
    /// No file yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            files: BTreeMap::new(),
        }
    }

    /// Makes a file known, which has `size` bytes on its device.
    pub fn add(&mut self, file: FileId, size: FileOffset) {
        let flat = Flat {
            disk_end: size.get(),
            len: size.get(),
            ..Flat::default()
        };
        self.files.insert(file, flat);
    }

    /// Forgets a file.
    pub fn remove(&mut self, file: FileId) {
        self.files.remove(&file);
    }

    /// What is to be carried out on the device of `file`, or `None` if nothing
    /// changed since it was asked last. Give it back by
    /// [`put_back`](Self::put_back) if that fails.
    pub fn take_pending(&mut self, file: FileId) -> Option<PendingFile> {
        let flat = self.files.get_mut(&file)?;
        if !core::mem::take(&mut flat.changed) {
            return None;
        }
        let holes = put_off(&mut flat.holes, &flat.writing);
        let tails = put_off(&mut flat.tails, &flat.writing);
        flat.changed |= !flat.holes.is_empty() || !flat.tails.is_empty();
        // What is being written may be on the device already: to cut it off now
        // would lose it. The next time does.
        let writing_end = flat.writing.values().map(|writing| writing.end).max();
        let size = flat.len.max(writing_end.unwrap_or(0));
        flat.changed |= size > flat.len;
        let tails_len = tails.len();
        let punch = holes.into_iter().chain(tails);
        Some(PendingFile {
            punch: punch.filter_map(|(start, end)| range(start, end)).collect(),
            size: FileOffset::new(size),
            tails: tails_len,
        })
    }

    /// The host could not carry `pending` out: it is asked for again.
    pub fn put_back(&mut self, file: FileId, pending: &PendingFile) {
        if let Some(flat) = self.files.get_mut(&file) {
            flat.changed = true;
            let whole = pending.punch.len().saturating_sub(pending.tails);
            for (nth, piece) in pending.punch.iter().enumerate() {
                let set = if nth < whole {
                    &mut flat.holes
                } else {
                    &mut flat.tails
                };
                add(set, piece.start().get(), piece.end().get());
            }
        }
    }

    fn file(&mut self, file: FileId) -> Result<&mut Flat, ErrorClass> {
        self.files.get_mut(&file).ok_or(ErrorClass::Gone)
    }
}

impl Mapping for Identity {
    fn map(&mut self, file: FileId, asked: FileRange) -> Result<FileExtent, ErrorClass> {
        let flat = self.file(file)?;
        let (start, end) = (asked.start().get(), asked.end().get());
        let kind = |range, hole| FileExtent {
            range,
            kind: if hole {
                ExtentKind::Hole
            } else {
                ExtentKind::Data(DiskByte::new(start))
            },
        };
        if start >= flat.disk_end {
            return Ok(kind(asked, true));
        }
        let before = flat.holes.range(..=start).next_back();
        let inside = before.map(|(_, hole_end)| *hole_end);
        let inside = inside.filter(|hole_end| *hole_end > start);
        let next = flat.holes.range(start..).next();
        // The bytes behind the device's end read as zero from the device too.
        let border = inside.or(next.map(|(hole, _)| *hole)).unwrap_or(u64::MAX);
        let answer = range(start, border.min(end)).unwrap_or(asked);
        Ok(kind(answer, inside.is_some()))
    }

    fn reserve(&mut self, file: FileId, _range: FileRange) -> Result<(), ErrorClass> {
        self.file(file).map(|_| ())
    }

    fn unreserve(&mut self, _file: FileId, _range: FileRange) {}

    fn allocate(&mut self, file: FileId, asked: FileRange) -> Result<NewOrdered, ErrorClass> {
        let flat = self.file(file)?;
        let (start, end) = (asked.start().get(), asked.end().get());
        let fresh = flat.disk_end.clamp(start, end);
        flat.writing.insert(start, Writing { end, fresh });
        Ok(NewOrdered {
            kind: OrderedKind::Nocow,
            ..NewOrdered::plain(
                asked.start(),
                asked.len(),
                DiskByte::new(asked.start().get()),
            )
        })
    }

    fn complete(
        &mut self,
        file: FileId,
        extent: &OrderedExtent,
        _outcome: Outcome,
    ) -> Result<(), ErrorClass> {
        let flat = self.file(file)?;
        let (start, end) = (extent.range().start().get(), extent.range().end().get());
        let writing = flat.writing.remove(&start);
        if extent.flags().contains(OrderedFlags::IO_ERROR) {
            flat.changed = true;
            // Where nothing was, some of it may have been written all the same.
            if let Some(writing) = writing {
                flat.add_hole(writing.fresh, writing.end);
            }
            return Ok(());
        }
        cut(&mut flat.holes, start, end);
        cut(&mut flat.tails, start, end);
        let kept = start.saturating_add(extent.truncated_len().get());
        let valid_end = extent.recorded_size(FileOffset::ZERO, FileOffset::new(kept));
        flat.set_len(flat.len.max(valid_end.get()));
        // Whole blocks were written: the device is longer than the file now.
        flat.changed |= valid_end.get() < kept;
        // Between the old end and the extent the device has nothing, or holes.
        flat.disk_end = flat.disk_end.max(kept);
        Ok(())
    }

    fn punch(&mut self, file: FileId, hole: FileRange) -> Result<(), ErrorClass> {
        let flat = self.file(file)?;
        let end = hole.end().get();
        flat.add_hole(hole.start().get(), end.min(flat.disk_end));
        Ok(())
    }

    fn truncate(
        &mut self,
        file: FileId,
        size: FileOffset,
        behind: FileRange,
    ) -> Result<(), ErrorClass> {
        self.punch(file, behind)?;
        let flat = self.file(file)?;
        let end = behind.start().get().min(flat.disk_end);
        add(&mut flat.tails, size.get(), end);
        flat.set_len(flat.len.min(size.get()));
        Ok(())
    }

    fn is_in_place(&self) -> bool {
        true
    }

    fn set_size(&mut self, file: FileId, size: FileOffset) -> Result<(), ErrorClass> {
        let flat = self.file(file)?;
        flat.set_len(flat.len.max(size.get()));
        Ok(())
    }
}

impl Flat {
    fn set_len(&mut self, len: u64) {
        self.changed |= len != self.len;
        self.len = len;
    }

    /// Makes `[start, end)` a hole; nothing where they cross.
    fn add_hole(&mut self, start: u64, end: u64) {
        self.changed |= start < end;
        add(&mut self.holes, start, end);
    }
}

/// Puts `[start, end)` into a set of ranges; nothing where they cross.
fn add(set: &mut BTreeMap<u64, u64>, start: u64, end: u64) {
    if start < end {
        cut(set, start, end);
        set.insert(start, end);
    }
}

/// Takes what is to be carried out now out of a set of ranges, and leaves there
/// what lies below an extent that is being written.
fn put_off(set: &mut BTreeMap<u64, u64>, writing: &BTreeMap<u64, Writing>) -> BTreeMap<u64, u64> {
    let mut now = core::mem::take(set);
    for (start, writing) in writing {
        set.extend(cut(&mut now, *start, writing.end));
    }
    now
}

/// Takes `[start, end)` out of a set of ranges; answers the parts that were in.
fn cut(set: &mut BTreeMap<u64, u64>, start: u64, end: u64) -> Vec<(u64, u64)> {
    let mut taken = Vec::new();
    while let Some((&low, &high)) = set.range(..end).next_back() {
        if high <= start {
            break;
        }
        set.remove(&low);
        taken.push((low.max(start), high.min(end)));
        if high > end {
            set.insert(end, high);
        }
        if low < start {
            set.insert(low, start);
        }
    }
    taken
}

fn range(start: u64, end: u64) -> Option<FileRange> {
    FileRange::new(FileOffset::new(start), FileOffset::new(end)).filter(|range| !range.is_empty())
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use extentwise_core::geometry::BlockSize;
    use extentwise_core::ordered::{IoOutcome, OrderedTable, TreeStore};

    use super::*;

    const FILE: FileId = FileId(1);

    struct Bench {
        map: Identity,
        table: OrderedTable<TreeStore>,
    }

    impl Bench {
        fn new(size: u64) -> Self {
            let mut map = Identity::new();
            map.add(FILE, FileOffset::new(size));
            let table = OrderedTable::new(BlockSize::new(512).unwrap());
            Self { map, table }
        }

        fn allocate(&mut self, start: u64, end: u64) {
            let asked = range(start, end).unwrap();
            let new = self.map.allocate(FILE, asked).unwrap();
            self.table.insert(new).unwrap();
        }

        fn complete(&mut self, start: u64, end: u64, outcome: IoOutcome) {
            let range = range(start, end).unwrap();
            self.table.finish(range, outcome, &mut ());
            let extent = *self.table.lookup(range.start()).unwrap();
            self.table.remove(extent.id(), range.start());
            let outcome = extent.outcome().unwrap();
            self.map.complete(FILE, &extent, outcome).unwrap();
        }

        fn written(&mut self, start: u64, end: u64) {
            let valid_end = FileOffset::new(end);
            self.complete(start, end, IoOutcome::Written { valid_end });
        }

        /// What is at `start`, and up to where.
        fn at(&mut self, start: u64) -> (bool, u64) {
            let answer = self.map.map(FILE, range(start, 1 << 20).unwrap()).unwrap();
            let is_data = matches!(answer.kind, ExtentKind::Data(_));
            (is_data, answer.range.end().get())
        }
    }

    #[test]
    fn a_hole_is_not_carried_out_under_an_extent_that_is_being_written() {
        let mut bench = Bench::new(8192);
        bench.map.punch(FILE, range(0, 4096).unwrap()).unwrap();
        bench.allocate(1024, 2048);
        let pending = bench.map.take_pending(FILE).unwrap();
        assert_eq!(
            pending.punch,
            [range(0, 1024).unwrap(), range(2048, 4096).unwrap()]
        );
        assert_eq!(bench.at(1024), (false, 2048));
        bench.written(1024, 2048);
        assert!(bench.at(1024).0);
        let pending = bench.map.take_pending(FILE).unwrap();
        assert_eq!(pending.punch, []);
    }

    #[test]
    fn an_extent_that_ends_after_a_later_one_keeps_its_data() {
        let mut bench = Bench::new(0);
        bench.allocate(0, 512);
        bench.allocate(4096, 8192);
        bench.written(4096, 8192);
        let pending = bench.map.take_pending(FILE).unwrap();
        assert_eq!((pending.punch, pending.size.get()), (vec![], 8192));
        bench.written(0, 512);
        assert!(bench.map.take_pending(FILE).is_none());
        assert!(bench.at(0).0);
    }

    #[test]
    fn the_device_is_not_cut_short_of_an_extent_that_is_being_written() {
        let mut bench = Bench::new(0);
        bench.allocate(0, 512);
        bench.allocate(4096, 8192);
        bench.written(0, 512);
        // The device has what nobody was told yet.
        let pending = bench.map.take_pending(FILE).unwrap();
        assert_eq!(pending.size, FileOffset::new(8192));
        bench.complete(4096, 8192, IoOutcome::Failed);
        let pending = bench.map.take_pending(FILE).unwrap();
        assert_eq!(pending.size, FileOffset::new(512));
        assert_eq!(bench.map.take_pending(FILE), None);
    }

    #[test]
    fn what_failed_behind_the_end_is_a_hole() {
        let mut bench = Bench::new(512);
        bench.allocate(0, 2048);
        bench.complete(0, 2048, IoOutcome::Failed);
        bench.allocate(4096, 4608);
        bench.written(4096, 4608);
        assert_eq!(bench.at(0), (true, 512));
        assert_eq!(bench.at(512), (false, 2048));
        let pending = bench.map.take_pending(FILE).unwrap();
        assert_eq!(pending.punch, [range(512, 2048).unwrap()]);
        bench.map.put_back(FILE, &pending);
        assert_eq!(bench.map.take_pending(FILE), Some(pending));
        assert_eq!(bench.map.take_pending(FILE), None);
    }

    #[test]
    fn what_a_truncate_cut_off_reads_as_zero_when_the_file_grows_again() {
        let mut bench = Bench::new(8192);
        let behind = range(1024, 1 << 40).unwrap();
        bench
            .map
            .truncate(FILE, FileOffset::new(1000), behind)
            .unwrap();
        bench.map.set_size(FILE, FileOffset::new(1000)).unwrap();
        bench.map.set_size(FILE, FileOffset::new(6000)).unwrap();
        assert_eq!(bench.at(512), (true, 1024));
        assert_eq!(bench.at(1024), (false, 8192));
        let pending = bench.map.take_pending(FILE).unwrap();
        let cut_off = [range(1024, 8192).unwrap(), range(1000, 1024).unwrap()];
        assert_eq!(pending.punch, cut_off);
        assert_eq!(pending.size, FileOffset::new(6000));
        assert_eq!(bench.map.reserve(FileId(2), behind), Err(ErrorClass::Gone));
    }

    #[test]
    fn the_end_of_a_block_that_was_cut_off_stays_data_and_is_zeroed_until_it_is_written() {
        let mut bench = Bench::new(1024);
        let behind = range(1024, 1 << 40).unwrap();
        let size = FileOffset::new(700);
        bench.map.truncate(FILE, size, behind).unwrap();
        let pending = bench.map.take_pending(FILE).unwrap();
        assert_eq!(pending.punch, [range(700, 1024).unwrap()]);
        bench.map.put_back(FILE, &pending);
        assert!(
            bench.at(512).0,
            "the block is data, with zeros in the cache"
        );
        // The new bytes may be there by now.
        bench.allocate(512, 1024);
        let pending = bench.map.take_pending(FILE).unwrap();
        assert_eq!(pending.punch, []);
        bench.complete(512, 1024, IoOutcome::Failed);
        let pending = bench.map.take_pending(FILE).unwrap();
        assert_eq!(pending.punch, [range(700, 1024).unwrap()]);
        bench.map.put_back(FILE, &pending);
        bench.allocate(512, 1024);
        bench.written(512, 1024);
        let pending = bench.map.take_pending(FILE).unwrap();
        assert_eq!(pending.punch, []);
        assert_eq!(bench.map.take_pending(FILE), None);
    }
}
