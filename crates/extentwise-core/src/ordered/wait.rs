//! Waiting for the ordered extents of a range (O6).

use crate::geometry::FileRange;

/// Failures that a table keeps apart. More are joined with the nearest older
/// ones: a wait may then report a failure beside its range, never miss one.
const FAILURES_MAX: usize = 8;

/// A moment in the sequence of failures of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FailureSeq(u64);

/// A wait for every ordered extent that meets a range; made by
/// [`OrderedTable::begin_wait`](super::OrderedTable::begin_wait).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderedWait {
    pub(super) range: FileRange,
    pub(super) since: FailureSeq,
}

/// How a wait stands.
#[must_use = "a failed wait that is dropped swallows an error"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitState {
    /// An extent of the range has bytes left.
    Pending,
    /// All are done, and none failed since the wait's moment.
    Done,
    /// All are done; this is the range of the first that failed, also if it
    /// has left the table.
    Failed(FileRange),
}

/// The ranges of the ordered extents that failed, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct FailureLog {
    seq: u64,
    failures: heapless::Vec<(FailureSeq, FileRange), FAILURES_MAX>,
}

impl FailureLog {
    pub(super) const fn now(&self) -> FailureSeq {
        FailureSeq(self.seq)
    }

    pub(super) fn record(&mut self, range: FileRange) {
        self.seq = self.seq.saturating_add(1);
        let failure = (FailureSeq(self.seq), range);
        if self.failures.push(failure).is_err() {
            let (_, oldest) = self.failures.remove(0);
            if let Some(next) = self.failures.first_mut() {
                next.1 = FileRange::clamped(
                    oldest.start().min(next.1.start()),
                    oldest.end().max(next.1.end()),
                );
            }
            // The removal made room for exactly this one.
            let _ = self.failures.push(failure);
        }
    }

    pub(super) fn first_since(&self, wait: &OrderedWait) -> Option<FileRange> {
        self.failures
            .iter()
            .find(|(seq, range)| *seq > wait.since && range.overlap(wait.range).is_some())
            .map(|(_, range)| *range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::FileOffset;

    #[test]
    fn o6_a_full_log_joins_failures_and_loses_none() {
        let range = |i: u64| {
            FileRange::new(FileOffset::new(i * 4096), FileOffset::new((i + 1) * 4096)).unwrap()
        };
        let mut log = FailureLog::default();
        (0..100).for_each(|i| log.record(range(i)));
        for i in 0..100 {
            let wait = OrderedWait {
                range: range(i),
                since: FailureSeq(0),
            };
            let found = log.first_since(&wait).unwrap();
            assert!(found.covers(range(i)));
        }
        let late = OrderedWait {
            range: range(99),
            since: log.now(),
        };
        assert_eq!(log.first_since(&late), None);
    }
}
