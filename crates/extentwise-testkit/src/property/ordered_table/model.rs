//! A table of ordered extents as lists of cells, without arithmetic to speak of.

use extentwise_core::geometry::FileRange;
use extentwise_core::ordered::{NewOrdered, OrderedId, OrderedKind};

use super::{BLOCK, CELL, CELLS, How, Memory};

/// One extent; cells are counted from the start of the space.
#[derive(Clone, Debug)]
pub(super) struct Plain {
    pub(super) id: OrderedId,
    pub(super) kind: OrderedKind,
    pub(super) start: u64,
    /// Device address of its first byte.
    pub(super) disk: u64,
    pub(super) kept: u64,
    pub(super) truncated: bool,
    pub(super) failed: bool,
    finished: Vec<bool>,
    /// End of the valid bytes written, as a cell; unknown after a split.
    valid_end: Option<u64>,
}

/// Why an extent may not be inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Invalid,
    Overlap,
    Full,
}

/// Why an extent may not be split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    Unaligned,
    NoExtent,
    Ended,
    PartDone,
    Full,
}

#[derive(Default)]
pub(super) struct Finish {
    pub(super) new: u64,
    pub(super) double: u64,
    pub(super) covered: u64,
    pub(super) completed: Vec<OrderedId>,
}

pub(super) struct Model {
    /// File offset of cell 0.
    pub(super) start: u64,
    capacity: usize,
    /// In file order.
    pub(super) extents: Vec<Plain>,
    /// The cells of extents that failed, in the order in which they were done.
    pub(super) failures: Vec<(u64, u64)>,
    /// Cells of the last finish that had been finished before.
    doubles: Vec<u64>,
    used_ids: Vec<OrderedId>,
}

impl Plain {
    pub(super) fn end(&self) -> u64 {
        self.start + self.finished.len() as u64
    }

    pub(super) fn left(&self) -> u64 {
        self.finished.iter().filter(|done| !**done).count() as u64
    }

    /// The recorded size that it leads to from 0, as a cell; `None` where it
    /// leads to none or is not known.
    pub(super) fn recorded(&self) -> Option<u64> {
        self.valid_end
            .filter(|end| self.left() == 0 && !self.failed && *end > self.start)
    }

    fn covers(&self, cell: u64) -> bool {
        (self.start..self.end()).contains(&cell)
    }

    /// The cells of the extent in `[a, b)`, from its start.
    fn part(&self, (a, b): (u64, u64)) -> std::ops::Range<usize> {
        let into = |cell: u64| (cell.clamp(self.start, self.end()) - self.start) as usize;
        into(a)..into(b)
    }
}

impl Model {
    pub(super) fn new(start: u64, capacity: usize) -> Self {
        Self {
            start,
            capacity,
            extents: Vec::new(),
            failures: Vec::new(),
            doubles: Vec::new(),
            used_ids: Vec::new(),
        }
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = OrderedId> {
        self.used_ids.iter().copied()
    }

    pub(super) fn covering(&self, cell: u64) -> Option<&Plain> {
        self.extents.iter().find(|plain| plain.covers(cell))
    }

    pub(super) fn may_insert(&self, spec: NewOrdered) -> Result<(), Refusal> {
        let numbers = [
            spec.file_offset.get(),
            spec.num_bytes.get(),
            spec.disk_bytenr.get(),
            spec.offset.get(),
            spec.disk_num_bytes.get(),
        ];
        let [file, len, disk, offset, disk_len] = numbers.map(u128::from);
        let limit = u128::from(u64::MAX);
        let sound = numbers.iter().all(|number| number % BLOCK == 0)
            && len > 0
            && offset + len <= disk_len
            && [file + len, disk + disk_len]
                .iter()
                .all(|end| *end <= limit);
        if !sound {
            return Err(Refusal::Invalid);
        }
        let overlaps = self.extents.iter().any(|plain| {
            let place = |cell: u64| u128::from(self.start) + u128::from(cell * CELL);
            place(plain.start) < file + len && file < place(plain.end())
        });
        match overlaps {
            true => Err(Refusal::Overlap),
            false if self.extents.len() >= self.capacity => Err(Refusal::Full),
            false => Ok(()),
        }
    }

    pub(super) fn insert(&mut self, id: OrderedId, spec: NewOrdered) {
        let start = (spec.file_offset.get() - self.start) / CELL;
        let cells = (spec.num_bytes.get() / CELL) as usize;
        self.used_ids.push(id);
        self.extents.push(Plain {
            id,
            kind: spec.kind,
            start,
            disk: spec.disk_bytenr.get() + spec.offset.get(),
            kept: cells as u64,
            truncated: false,
            failed: false,
            finished: vec![false; cells],
            valid_end: Some(start),
        });
        self.extents.sort_by_key(|plain| plain.start);
    }

    /// Answers the extents met and their cells in the range.
    pub(super) fn truncate(&mut self, cells: (u64, u64)) -> (usize, u64) {
        let (mut extents, mut covered) = (0, 0);
        for plain in &mut self.extents {
            let part = plain.part(cells);
            if part.is_empty() {
                continue;
            }
            plain.truncated = true;
            plain.kept = plain.kept.min(part.start as u64);
            extents += 1;
            covered += part.len() as u64;
        }
        (extents, covered)
    }

    pub(super) fn finish(&mut self, cells: (u64, u64), how: How, memory: Memory) -> Finish {
        let mut done = Finish::default();
        self.doubles.clear();
        for plain in &mut self.extents {
            let part = plain.part(cells);
            done.covered += part.len() as u64;
            let mut fresh: Vec<usize> = part.clone().filter(|at| !plain.finished[*at]).collect();
            if memory == Memory::Counting {
                // Any cells that are left stand for those that are finished.
                let left = (0..plain.finished.len()).filter(|at| !plain.finished[*at]);
                fresh = left.take(part.len()).collect();
            }
            done.double += (part.len() - fresh.len()) as u64;
            let known = part.clone().filter(|at| plain.finished[*at]);
            self.doubles.extend(known.map(|at| plain.start + at as u64));
            if fresh.is_empty() {
                continue;
            }
            done.new += fresh.len() as u64;
            for at in fresh {
                plain.finished[at] = true;
            }
            match how {
                How::Failed => plain.failed = true,
                How::Skipped => {}
                How::Written(end) => {
                    let end = end.min(plain.start + part.end as u64);
                    plain.valid_end = plain.valid_end.map(|valid| valid.max(end));
                }
            }
            if plain.left() == 0 {
                done.completed.push(plain.id);
                if plain.failed {
                    self.failures.push((plain.start, plain.end()));
                }
            }
        }
        done
    }

    /// Whether all of `range` had been finished before the last finish.
    pub(super) fn was_double(&self, range: FileRange) -> bool {
        let cell = |at: u64| (at - self.start) / CELL;
        let cells = cell(range.start().get())..cell(range.end().get());
        cells.end <= CELLS && cells.clone().all(|cell| self.doubles.contains(&cell))
    }

    pub(super) fn reasons_against_split(&self, cell: u64) -> Vec<Reason> {
        let mut reasons = Vec::new();
        if !(cell * CELL).is_multiple_of(BLOCK) {
            reasons.push(Reason::Unaligned);
        }
        if self.extents.len() >= self.capacity {
            reasons.push(Reason::Full);
        }
        let Some(plain) = self.covering(cell).filter(|plain| plain.start < cell) else {
            reasons.push(Reason::NoExtent);
            return reasons;
        };
        if plain.failed || plain.left() == 0 {
            reasons.push(Reason::Ended);
        }
        let (front, back) = plain.finished.split_at((cell - plain.start) as usize);
        let begun = plain.finished.contains(&true);
        if begun && [front, back].iter().any(|part| !part.contains(&false)) {
            reasons.push(Reason::PartDone);
        }
        reasons
    }

    pub(super) fn split(&mut self, cell: u64, (front, back): (OrderedId, OrderedId)) {
        let Some(index) = self.extents.iter().position(|plain| plain.covers(cell)) else {
            panic!("split where the model has no extent: cell {cell}");
        };
        let whole = &mut self.extents[index];
        assert_eq!(front, whole.id, "the front keeps the name");
        let front_len = cell - whole.start;
        let finished = whole.finished.split_off(front_len as usize);
        let kept = whole.kept.saturating_sub(front_len);
        let part = Plain {
            id: back,
            start: cell,
            disk: whole.disk + front_len * CELL,
            kept,
            truncated: kept < finished.len() as u64,
            finished,
            valid_end: None,
            ..*whole
        };
        whole.kept = whole.kept.min(front_len);
        whole.truncated = whole.kept < front_len;
        whole.valid_end = None;
        assert!(!self.used_ids.contains(&back), "{back:?} again");
        self.used_ids.push(back);
        self.extents.insert(index + 1, part);
    }

    pub(super) fn take(&mut self, cell: u64) -> Option<Plain> {
        let index = self.extents.iter().position(|plain| plain.covers(cell))?;
        Some(self.extents.remove(index))
    }

    pub(super) fn any_pending(&self, a: u64, b: u64) -> bool {
        let met = |plain: &&Plain| !plain.part((a, b)).is_empty();
        self.extents
            .iter()
            .filter(met)
            .any(|plain| plain.left() > 0)
    }

    pub(super) fn first_failure(&self, a: u64, b: u64, since: usize) -> Option<(u64, u64)> {
        let meets = |(start, end): &&(u64, u64)| *start.max(&a) < *end.min(&b);
        self.failures.iter().skip(since).find(meets).copied()
    }
}
