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
    /// Holes, by their start: not carried out yet, apart from each other.
    holes: BTreeMap<u64, u64>,
    /// Holes under an ordered extent: not to be carried out while it writes.
    covered: BTreeMap<u64, u64>,
    changed: bool,
}

/// What the host has to do to a file to make its map durable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingFile {
    /// These bytes of the device are to read as zero, first of all.
    pub punch: Vec<FileRange>,
    /// Then this is its length.
    pub size: FileOffset,
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
        let punch = core::mem::take(&mut flat.holes).into_iter();
        let punch = punch.filter_map(|(start, end)| range(start, end));
        Some(PendingFile {
            punch: punch.collect(),
            size: FileOffset::new(flat.len),
        })
    }

    /// The host could not carry `pending` out: it is asked for again.
    pub fn put_back(&mut self, file: FileId, pending: &PendingFile) {
        if let Some(flat) = self.files.get_mut(&file) {
            flat.changed = true;
            for hole in &pending.punch {
                flat.add_hole(hole.start().get(), hole.end().get());
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
        // The bytes behind the device's end read as zero from the device too.
        let in_holes = [&flat.holes, &flat.covered];
        let inside = in_holes.iter().find_map(|holes| {
            let (_, hole_end) = holes.range(..=start).next_back()?;
            (*hole_end > start).then_some(*hole_end)
        });
        let border = match inside {
            Some(hole_end) => hole_end,
            None => in_holes
                .iter()
                .filter_map(|holes| holes.range(start..).next().map(|(hole, _)| *hole))
                .fold(u64::MAX, u64::min),
        };
        let answer = range(start, border.min(end)).unwrap_or(asked);
        Ok(kind(answer, inside.is_some()))
    }

    fn reserve(&mut self, file: FileId, _range: FileRange) -> Result<(), ErrorClass> {
        self.file(file).map(|_| ())
    }

    fn unreserve(&mut self, _file: FileId, _range: FileRange) {}

    fn allocate(&mut self, file: FileId, asked: FileRange) -> Result<NewOrdered, ErrorClass> {
        let flat = self.file(file)?;
        for (start, end) in cut(&mut flat.holes, asked.start().get(), asked.end().get()) {
            flat.covered.insert(start, end);
        }
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
        let covered = cut(&mut flat.covered, start, end);
        if extent.flags().contains(OrderedFlags::IO_ERROR) {
            flat.changed = true;
            for (start, end) in covered {
                flat.add_hole(start, end);
            }
            return Ok(());
        }
        let kept = start.saturating_add(extent.truncated_len().get());
        let valid_end = extent.recorded_size(FileOffset::ZERO, FileOffset::new(kept));
        flat.set_len(flat.len.max(valid_end.get()));
        // Whole blocks were written: the device is longer than the file now.
        flat.changed |= valid_end.get() < kept;
        if kept > flat.disk_end {
            // Between the old end and the extent the device may hold anything,
            // such as the bytes of a failed write: a hole, in the map's words.
            let old_end = core::mem::replace(&mut flat.disk_end, kept);
            flat.add_hole(old_end, start);
        }
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
        flat.set_len(flat.len.min(size.get()));
        Ok(())
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
        if start >= end {
            return;
        }
        self.changed = true;
        cut(&mut self.holes, start, end);
        self.holes.insert(start, end);
    }
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
