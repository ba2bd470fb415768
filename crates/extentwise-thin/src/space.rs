//! The blocks of the device: which are free, and why the others are not.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use extentwise_core::ordered::OrderedKind;
use extentwise_engine::FileId;

use crate::file::{Extent, State};
use crate::ranges::{RangeSet, Run};

/// Runs of free blocks that are looked at for one that is long enough.
const LOOK_MAX: usize = 64;

/// Blocks on the device that an ordered extent writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flight {
    pub(crate) len: u64,
    /// `None` when the file was removed meanwhile.
    pub(crate) file: Option<FileId>,
    /// First block in the file.
    pub(crate) at: u64,
    pub(crate) place: Place,
}

/// Where an ordered extent writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// To blocks that were free.
    New,
    /// To those of an unwritten extent.
    Unwritten,
}

impl Place {
    pub(crate) const fn kind(self) -> OrderedKind {
        match self {
            Self::New => OrderedKind::Plain,
            Self::Unwritten => OrderedKind::Prealloc,
        }
    }
}

/// The blocks of the device.
///
/// **Invariant**: a block is free, or pinned, or an orphan, or in flight to a
/// new place, or in an extent, or in the map, or a superblock; one of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Space {
    pub(crate) free: RangeSet,
    /// In no extent any more, but a map that a crash may show has them as data.
    pub(crate) pinned: RangeSet,
    /// Data in an extent, and no map that a crash may show has them as data.
    pub(crate) fresh: RangeSet,
    /// In no extent any more, but an ordered extent still writes them.
    pub(crate) orphans: RangeSet,
    /// By the first block on the device.
    pub(crate) flights: BTreeMap<u64, Flight>,
    /// Blocks of all files that were promised.
    pub(crate) promised: u64,
    /// Those of them that will need a block of the device.
    pub(crate) owed: u64,
    /// Blocks in flight.
    pub(crate) flying: u64,
    /// Where the last run was taken.
    cursor: u64,
}

impl Space {
    /// Takes a run of at most `len` free blocks: the next that is long enough,
    /// or the longest of those looked at.
    pub(crate) fn take(&mut self, len: u64) -> Option<Run> {
        let behind = Run::new(self.cursor, u64::MAX)?;
        // The rest of the run that the cursor stands in comes first.
        let rest = self.free.inside(behind).take(1);
        let rest = rest.filter(|run| run.start == self.cursor);
        let candidates = rest
            .chain(self.free.iter_from(self.cursor))
            .chain(self.free.iter());
        let mut best: Option<Run> = None;
        for run in candidates.take(LOOK_MAX) {
            if best.is_none_or(|best| best.len() < run.len()) {
                best = Some(run);
            }
            if run.len() >= len {
                best = Some(run);
                break;
            }
        }
        let best = best?;
        let run = Run::at(best.start, len.min(best.len()))?;
        self.free.take(run);
        self.cursor = run.end;
        Some(run)
    }

    /// Takes `len` free blocks, in runs; all of them or none.
    pub(crate) fn take_all(&mut self, len: u64) -> Option<Vec<Run>> {
        if self.free.total() < len {
            return None;
        }
        let mut runs = Vec::new();
        let mut left = len;
        while let Some(run) = (left > 0).then(|| self.take(left)).flatten() {
            left -= run.len();
            runs.push(run);
        }
        Some(runs)
    }

    /// A part of an extent left its file.
    pub(crate) fn drop_extent(&mut self, extent: Extent) {
        let run = extent.disk_run();
        match extent.state {
            State::Written => {
                for fresh in self.fresh.take(run) {
                    self.free.insert(fresh);
                }
                for old in self.free.outside(run) {
                    self.pinned.insert(old);
                }
            }
            // No map that a crash may show has data here: nobody misses it.
            State::Unwritten => {
                let (written_now, free) = self.split_flying(run);
                for run in written_now {
                    self.orphans.insert(run);
                }
                for run in free {
                    self.free.insert(run);
                }
            }
        }
    }

    /// The parts of an unwritten extent's blocks that an ordered extent writes,
    /// and the others.
    fn split_flying(&self, run: Run) -> (Vec<Run>, Vec<Run>) {
        let mut flying = RangeSet::new();
        let first = self.flights.range(..=run.start).next_back();
        let from = first.map_or(run.start, |(start, _)| *start);
        for (start, flight) in self.flights.range(from..run.end) {
            if let Some(part) = Run::at(*start, flight.len).and_then(|part| part.overlap(run)) {
                flying.insert(part);
            }
        }
        (flying.iter().collect(), flying.outside(run))
    }

    /// The parts of an unwritten extent's blocks that no ordered extent writes.
    pub(crate) fn not_flying(&self, run: Run) -> Vec<Run> {
        self.split_flying(run).1
    }

    pub(crate) fn start_flight(&mut self, run: Run, flight: Flight) {
        self.flights.insert(run.start, flight);
        self.flying = self.flying.saturating_add(run.len());
    }

    /// The flight that `run` is a part of, as that part.
    pub(crate) fn flight_of(&self, run: Run) -> Option<Flight> {
        let (start, flight) = self.flights.range(..=run.start).next_back()?;
        let skip = run.start - start;
        let inside = skip.checked_add(run.len())? <= flight.len;
        inside.then_some(Flight {
            len: run.len(),
            at: flight.at + skip,
            ..*flight
        })
    }

    /// Ends the flight of `run`, which [`flight_of`](Self::flight_of) found; the
    /// rest of a larger one goes on.
    pub(crate) fn end_flight(&mut self, run: Run) {
        let found = self.flights.range(..=run.start).next_back();
        let Some((start, flight)) = found.map(|(start, flight)| (*start, *flight)) else {
            return;
        };
        self.flights.remove(&start);
        let (before, behind) = (run.start - start, start + flight.len - run.end);
        if before > 0 {
            let part = Flight {
                len: before,
                ..flight
            };
            self.flights.insert(start, part);
        }
        if behind > 0 {
            let part = Flight {
                len: behind,
                at: flight.at + before + run.len(),
                ..flight
            };
            self.flights.insert(run.end, part);
        }
        self.flying = self.flying.saturating_sub(run.len());
        for orphan in self.orphans.take(run) {
            self.free.insert(orphan);
        }
    }

    /// What is in flight for a removed file lands nowhere.
    pub(crate) fn orphan_flights(&mut self, file: FileId) {
        for flight in self.flights.values_mut() {
            if flight.file == Some(file) {
                flight.file = None;
            }
        }
    }
}
