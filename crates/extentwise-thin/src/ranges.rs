//! Sets of numbers, kept as ranges.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Half-open, not empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Run {
    /// The numbers from `start` on below `end`; `None` where there are none.
    pub(crate) const fn new(start: u64, end: u64) -> Option<Self> {
        if start < end {
            Some(Self { start, end })
        } else {
            None
        }
    }

    /// `len` numbers from `start` on; `None` where there are none or they pass
    /// the largest.
    pub(crate) const fn at(start: u64, len: u64) -> Option<Self> {
        match start.checked_add(len) {
            Some(end) => Self::new(start, end),
            None => None,
        }
    }

    pub(crate) const fn len(self) -> u64 {
        self.end - self.start
    }

    /// What both have.
    pub(crate) fn overlap(self, other: Self) -> Option<Self> {
        Self::new(self.start.max(other.start), self.end.min(other.end))
    }
}

/// A set of numbers.
///
/// **Invariant**: the ranges are not empty, apart from each other, and do not
/// touch; `total` is the sum of their lengths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RangeSet {
    ranges: BTreeMap<u64, u64>,
    total: u64,
}

impl RangeSet {
    pub(crate) const fn new() -> Self {
        Self {
            ranges: BTreeMap::new(),
            total: 0,
        }
    }

    /// Numbers in the set.
    pub(crate) const fn total(&self) -> u64 {
        self.total
    }

    /// The ranges, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Run> {
        self.ranges.iter().map(|(start, end)| Run {
            start: *start,
            end: *end,
        })
    }

    /// Those ranges, whole, that begin at or behind `start`.
    pub(crate) fn iter_from(&self, start: u64) -> impl Iterator<Item = Run> {
        self.ranges.range(start..).map(|(start, end)| Run {
            start: *start,
            end: *end,
        })
    }

    /// The parts of the set that lie in `run`, in order.
    pub(crate) fn inside(&self, run: Run) -> impl Iterator<Item = Run> {
        let first = self.ranges.range(..=run.start).next_back();
        let from = first.map_or(run.start, |(start, _)| *start);
        let near = self.ranges.range(from..run.end);
        near.filter_map(move |(start, end)| {
            let part = Run {
                start: *start,
                end: *end,
            };
            part.overlap(run)
        })
    }

    /// The parts of `run` that are not in the set, in order.
    pub(crate) fn outside(&self, run: Run) -> Vec<Run> {
        let mut missing = Vec::new();
        let mut at = run.start;
        for part in self.inside(run) {
            missing.extend(Run::new(at, part.start));
            at = part.end;
        }
        missing.extend(Run::new(at, run.end));
        missing
    }

    /// Whether any of `run` is in the set.
    pub(crate) fn meets(&self, run: Run) -> bool {
        self.inside(run).next().is_some()
    }

    /// Whether all of `run` is in the set.
    pub(crate) fn covers(&self, run: Run) -> bool {
        self.inside(run).next() == Some(run)
    }

    /// Puts all of `run` in.
    pub(crate) fn insert(&mut self, run: Run) {
        self.take(run);
        let (mut start, mut end) = (run.start, run.end);
        if let Some((low, high)) = self.ranges.range(..start).next_back()
            && *high == start
        {
            start = *low;
        }
        if let Some(high) = self.ranges.remove(&end) {
            end = high;
        }
        self.ranges.insert(start, end);
        self.total = self.total.saturating_add(run.len());
    }

    /// Takes `run` out; answers the parts that were in, the last first.
    pub(crate) fn take(&mut self, run: Run) -> Vec<Run> {
        let mut taken = Vec::new();
        while let Some((&low, &high)) = self.ranges.range(..run.end).next_back() {
            let part = Run {
                start: low,
                end: high,
            };
            let Some(part) = part.overlap(run) else {
                break;
            };
            self.ranges.remove(&low);
            if high > run.end {
                self.ranges.insert(run.end, high);
            }
            if low < run.start {
                self.ranges.insert(low, run.start);
            }
            self.total -= part.len();
            taken.push(part);
        }
        taken
    }

    /// Puts all of `other` in.
    pub(crate) fn extend(&mut self, other: &Self) {
        for run in other.iter() {
            self.insert(run);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every set of six numbers, every range put in and taken out.
    #[test]
    fn ranges_behave_as_the_set_of_their_numbers() {
        const END: u64 = 6;
        for bits in 0_u32..1 << END {
            let mut set = RangeSet::new();
            for at in (0..END).filter(|at| bits >> at & 1 == 1) {
                set.insert(Run::at(at, 1).unwrap());
            }
            for (start, end) in (0..END).flat_map(|s| (s + 1..=END).map(move |e| (s, e))) {
                let run = Run { start, end };
                let mask = ((1 << (end - start)) - 1) << start;
                let mut with = set.clone();
                with.insert(run);
                assert_eq!(numbers(&with), bits | mask);
                let mut without = set.clone();
                let taken = without.take(run);
                assert_eq!(numbers(&without), bits & !mask);
                assert_eq!(
                    taken.iter().fold(0, |all, run| all | bits_of(*run)),
                    bits & mask
                );
                let missing = set.outside(run);
                assert_eq!(
                    missing.iter().fold(0, |all, run| all | bits_of(*run)),
                    !bits & mask
                );
                assert_eq!(set.meets(run), bits & mask != 0);
                assert_eq!(set.covers(run), bits & mask == mask);
            }
        }
    }

    fn bits_of(run: Run) -> u32 {
        (run.start..run.end).fold(0, |bits, at| bits | 1 << at)
    }

    /// The set as bits; its ranges must neither touch nor be empty.
    fn numbers(set: &RangeSet) -> u32 {
        let mut bits = 0_u32;
        let mut last = None;
        for run in set.iter() {
            assert!(run.start < run.end && last.is_none_or(|end| end < run.start));
            last = Some(run.end);
            bits |= bits_of(run);
        }
        assert_eq!(u64::from(bits.count_ones()), set.total());
        bits
    }
}
