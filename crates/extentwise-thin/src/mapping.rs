//! The store as a map that the engine asks.

use extentwise_core::errseq::ErrorClass;
use extentwise_core::geometry::{BlockSize, DiskByte, FileOffset, FileRange, LenBytes};
use extentwise_core::ordered::{NewOrdered, OrderedExtent, OrderedFlags, Outcome, Record};
use extentwise_engine::{ExtentKind, FileExtent, FileId, Mapping};

use crate::disk::disk_byte;
use crate::error::ThinError;
use crate::file::{Extent, File, State};
use crate::ranges::Run;
use crate::space::{Flight, Place, Space};
use crate::store::{Headroom, ThinStore, in_place};

/// What is written again goes to a new place; only unwritten extents are filled
/// where they are. Answers for ranges that are not made of blocks, that were not
/// reserved or are not in flight, are [`ErrorClass::Denied`].
impl Mapping for ThinStore {
    fn block_size(&self) -> Option<BlockSize> {
        Some(self.block_size)
    }

    fn map(&mut self, file: FileId, range: FileRange) -> Result<FileExtent, ErrorClass> {
        let shift = self.block_size.shift();
        let file = self.files.get(&file).ok_or(ErrorClass::Gone)?;
        let at = range.start().get() >> shift;
        let (run, kind) = if let Some((start, extent)) = file.find(at) {
            let disk = disk_byte(self.block_size, extent.disk);
            let kind = match extent.state {
                State::Written => ExtentKind::Data(disk),
                State::Unwritten => ExtentKind::Unwritten(disk),
            };
            (Run::at(start, extent.len), kind)
        } else {
            let (start, end) = file.hole_around(at);
            let end = end.unwrap_or(u64::MAX >> shift);
            (Run::new(start, end), ExtentKind::Hole)
        };
        // The block that would end at 2^64 is none.
        let run = run.filter(|run| at < run.end);
        let range = run.and_then(|run| file_range(self.block_size, run));
        let range = range.ok_or(ErrorClass::TooLarge)?;
        Ok(FileExtent { range, kind })
    }

    fn reserve(&mut self, file: FileId, range: FileRange) -> Result<(), ErrorClass> {
        let run = class(self.run_of(range))?;
        let entry = self.files.get(&file).ok_or(ErrorClass::Gone)?;
        let Some(run) = run else {
            return Ok(());
        };
        let new = entry.promised.outside(run);
        self.changing(file, run, |entry, space| {
            for run in &new {
                entry.promised.insert(*run);
                space.promised = space.promised.saturating_add(run.len());
            }
        });
        let count = new
            .iter()
            .fold(0_u64, |sum, run| sum.saturating_add(run.len()));
        // What a failed write gave back is there for the next try.
        let headroom = if count <= self.returned {
            Headroom::Used
        } else {
            Headroom::Kept
        };
        if self.fits(headroom) {
            self.returned = self.returned.saturating_sub(count);
            return Ok(());
        }
        self.changing(file, run, |entry, space| {
            for run in &new {
                entry.promised.take(*run);
                space.promised = space.promised.saturating_sub(run.len());
            }
        });
        Err(ErrorClass::NoSpace)
    }

    fn unreserve(&mut self, file: FileId, range: FileRange) {
        if let Ok(Some(run)) = self.run_of(range) {
            self.changing(file, run, |entry, space| {
                for part in entry.promised.take(run) {
                    space.promised = space.promised.saturating_sub(part.len());
                }
            });
        }
    }

    fn allocate(&mut self, file: FileId, range: FileRange) -> Result<NewOrdered, ErrorClass> {
        let run = class(self.run_of(range))?;
        let entry = self.files.get(&file).ok_or(ErrorClass::Gone)?;
        let run = run.filter(|run| entry.promised.covers(*run));
        let run = run.ok_or(ErrorClass::Denied)?;
        let placed = in_place(entry, &self.space, run).next();
        let (place, len, disk) = match (placed, entry.find(run.start)) {
            (Some(stretch), Some((start, extent))) if stretch.start == run.start => {
                let disk = Run::at(extent.disk + (run.start - start), stretch.len());
                (Place::Unwritten, stretch.len(), disk)
            }
            _ => {
                let len = placed.map_or(run.len(), |stretch| stretch.start - run.start);
                (Place::New, len, self.space.take(len))
            }
        };
        let disk = disk.ok_or(ErrorClass::NoSpace)?;
        let taken = Run::at(run.start, disk.len().min(len)).ok_or(ErrorClass::NoSpace)?;
        self.changing(file, taken, |entry, space| {
            entry.promised.take(taken);
            space.promised = space.promised.saturating_sub(taken.len());
            let flight = Flight {
                len: taken.len(),
                file: Some(file),
                at: taken.start,
                place,
            };
            space.start_flight(disk, flight);
        });
        let shift = self.block_size.shift();
        Ok(NewOrdered {
            kind: place.kind(),
            ..NewOrdered::plain(
                FileOffset::new(taken.start << shift),
                LenBytes::new(taken.len() << shift),
                disk_byte(self.block_size, disk.start),
            )
        })
    }

    fn give_back(&mut self, file: FileId, unused: NewOrdered) {
        let range = FileRange::at(unused.file_offset, unused.num_bytes);
        let disk = unused.disk_bytenr.checked_add(unused.offset);
        if let (Some(range), Some(disk)) = (range, disk)
            && let Ok((run, disk, flight)) = self.in_flight(file, range, disk)
        {
            self.release(file, run, disk, flight.place);
        }
    }

    fn complete(
        &mut self,
        file: FileId,
        extent: &OrderedExtent,
        outcome: Outcome,
    ) -> Result<(), ErrorClass> {
        let disk = extent.disk_of(extent.file_offset());
        let disk = disk.ok_or(ErrorClass::Denied)?;
        let (run, disk, flight) = self.in_flight(file, extent.range(), disk)?;
        if flight.file.is_none() {
            self.release(file, run, disk, flight.place);
            return Err(ErrorClass::Gone);
        }
        let kept = match outcome.record {
            _ if extent.flags().contains(OrderedFlags::IO_ERROR) => 0,
            Record::Nothing => 0,
            // A tail that was cut off within a block leaves that block (O5).
            Record::Insert { file, .. } | Record::Convert { file, .. } => {
                let blocks = self.block_size.ceil(file.len().get()) >> self.block_size.shift();
                blocks.min(run.len())
            }
        };
        let kept_run = Run::at(run.start, kept);
        self.returned = self.returned.saturating_add(run.len() - kept);
        self.changed |= kept_run.is_some();
        let done = self.changing(file, run, |entry, space| {
            space.end_flight(disk);
            match (flight.place, kept_run) {
                (Place::New, kept_run) => {
                    if let Some(kept_run) = kept_run {
                        for piece in entry.cut(kept_run) {
                            space.drop_extent(piece);
                        }
                        let extent = Extent {
                            len: kept,
                            disk: disk.start,
                            state: State::Written,
                        };
                        entry.insert(run.start, extent);
                        space.fresh.insert(extent.disk_run());
                    }
                    if let Some(rest) = Run::new(disk.start + kept, disk.end) {
                        space.free.insert(rest);
                    }
                }
                (Place::Unwritten, Some(kept_run)) => {
                    for piece in convert(entry, kept_run, disk) {
                        space.fresh.insert(piece);
                    }
                }
                (Place::Unwritten, None) => {}
            }
        });
        done.ok_or(ErrorClass::Gone)
    }

    fn punch(&mut self, file: FileId, range: FileRange) -> Result<(), ErrorClass> {
        let run = class(self.run_of(range))?;
        let entry = self.files.get(&file).ok_or(ErrorClass::Gone)?;
        let Some(run) = run else {
            return Ok(());
        };
        let inside_one = entry
            .find(run.start)
            .is_some_and(|(start, extent)| start < run.start && run.end < start + extent.len);
        if inside_one {
            self.extents += 1;
            let fits = self.fits(Headroom::Used);
            self.extents -= 1;
            if !fits {
                return Err(ErrorClass::NoSpace);
            }
            self.returned = 0;
        }
        let cut = self.changing(file, run, |entry, space| {
            let pieces = entry.cut(run);
            let any = !pieces.is_empty();
            for piece in pieces {
                space.drop_extent(piece);
            }
            any
        });
        self.changed |= cut.ok_or(ErrorClass::Gone)?;
        Ok(())
    }

    fn set_size(&mut self, file: FileId, size: FileOffset) -> Result<(), ErrorClass> {
        let entry = self.files.get_mut(&file).ok_or(ErrorClass::Gone)?;
        self.changed |= entry.size != size.get();
        entry.size = size.get();
        Ok(())
    }
}

impl ThinStore {
    /// What is in flight from `range` of a file to `disk`: its blocks there and
    /// on the device. The file may be removed by now.
    fn in_flight(
        &self,
        file: FileId,
        range: FileRange,
        disk: DiskByte,
    ) -> Result<(Run, Run, Flight), ErrorClass> {
        let run = class(self.run_of(range))?.ok_or(ErrorClass::Denied)?;
        let disk = Run::at(disk.get() >> self.block_size.shift(), run.len());
        let disk = disk.ok_or(ErrorClass::Denied)?;
        let flight = self.space.flight_of(disk).ok_or(ErrorClass::Denied)?;
        if flight.at != run.start || flight.file.is_some_and(|owner| owner != file) {
            return Err(ErrorClass::Denied);
        }
        Ok((run, disk, flight))
    }

    /// Ends a flight of which nothing is recorded.
    fn release(&mut self, file: FileId, run: Run, disk: Run, place: Place) {
        self.returned = self.returned.saturating_add(run.len());
        let end = |space: &mut Space| {
            space.end_flight(disk);
            if place == Place::New {
                space.free.insert(disk);
            }
        };
        // The accounts of a file that was removed are gone with it.
        if self.changing(file, run, |_, space| end(space)).is_none() {
            end(&mut self.space);
        }
    }
}

/// The unwritten extents in `run` that lie in the blocks `disk`, which begin
/// with it, become written; answers their blocks. Who punched the file
/// meanwhile, and gave it other blocks, finds those as they were.
fn convert(entry: &mut File, run: Run, disk: Run) -> alloc::vec::Vec<Run> {
    let pieces = entry.pieces(run);
    let ours: alloc::vec::Vec<_> = pieces
        .filter(|(at, piece)| {
            piece.state == State::Unwritten && piece.disk == disk.start + (at - run.start)
        })
        .collect();
    for (at, piece) in &ours {
        if let Some(run) = Run::at(*at, piece.len) {
            entry.cut(run);
        }
        let written = Extent {
            state: State::Written,
            ..*piece
        };
        entry.insert(*at, written);
    }
    ours.into_iter()
        .map(|(_, piece)| piece.disk_run())
        .collect()
}

fn file_range(block_size: BlockSize, run: Run) -> Option<FileRange> {
    let shift = block_size.shift();
    FileRange::new(
        FileOffset::new(run.start << shift),
        FileOffset::new(run.end << shift),
    )
}

fn class<T>(result: Result<T, ThinError>) -> Result<T, ErrorClass> {
    result.map_err(|error| error.class())
}
