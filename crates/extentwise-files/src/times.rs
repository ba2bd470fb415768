//! Times, kept in constant memory.

/// Each power of two is told apart in `2^SPLIT_BITS` steps, so a percentile is
/// off by at most 1/32.
const SPLIT_BITS: u32 = 5;
const SPLITS: usize = 1 << SPLIT_BITS;
const CELLS: usize = (u64::BITS - SPLIT_BITS + 1) as usize * SPLITS;

/// A histogram of times in nanoseconds.
///
/// **Invariant**: `count` is the sum of `cells`.
#[derive(Clone, Debug)]
pub struct Times {
    cells: Vec<u64>,
    count: u64,
    sum: u128,
    max: u64,
}

/// A row of the histogram in powers of two: times from `low` to below `high`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The shortest time of the row.
    pub low: u64,
    /// Where the next row would begin.
    pub high: u64,
    /// How many.
    pub count: u64,
}

impl Default for Times {
    fn default() -> Self {
        Self::new()
    }
}

impl Times {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            cells: vec![0; CELLS],
            count: 0,
            sum: 0,
            max: 0,
        }
    }

    /// Takes a time in.
    pub fn record(&mut self, nanoseconds: u64) {
        self.cells[cell(nanoseconds)] += 1;
        self.count += 1;
        self.sum += u128::from(nanoseconds);
        self.max = self.max.max(nanoseconds);
    }

    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean; 0 if nothing was recorded.
    #[must_use]
    pub fn mean(&self) -> u64 {
        let mean = self.sum / u128::from(self.count.max(1));
        u64::try_from(mean).unwrap_or(u64::MAX)
    }

    /// The time that `percent` of them did not exceed; 0 if nothing was
    /// recorded.
    #[must_use]
    pub fn percentile(&self, percent: u64) -> u64 {
        let wanted = u128::from(self.count) * u128::from(percent);
        let mut seen = 0_u128;
        for (index, &count) in self.cells.iter().enumerate() {
            seen += u128::from(count);
            if count > 0 && seen * 100 >= wanted {
                return cell_last(index).min(self.max);
            }
        }
        0
    }

    /// The powers of two in which times fell, ascending.
    #[must_use]
    pub fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        let counted = self.cells.iter().enumerate();
        for (index, &count) in counted.filter(|&(_, &count)| count > 0) {
            let time = cell_last(index);
            let low = if time == 0 { 0 } else { 1 << time.ilog2() };
            match rows.last_mut() {
                Some(row) if row.low == low => row.count += count,
                _ => rows.push(Row {
                    low,
                    high: low.max(1).saturating_mul(if low == 0 { 1 } else { 2 }),
                    count,
                }),
            }
        }
        rows
    }
}

/// The cell of a time: small times have one each, larger ones share it with
/// those of the same leading bits.
#[allow(
    clippy::cast_possible_truncation,
    reason = "the leading bits are fewer than 7"
)]
fn cell(time: u64) -> usize {
    let exponent = (u64::BITS - time.leading_zeros()).saturating_sub(SPLIT_BITS + 1);
    exponent as usize * SPLITS + (time >> exponent) as usize
}

/// The longest time in a cell.
fn cell_last(index: usize) -> u64 {
    let exponent = (index / SPLITS).saturating_sub(1);
    let leading = (index - exponent * SPLITS) as u64;
    ((leading + 1) << exponent).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_lies_in_its_cell_and_cells_ascend() {
        let mut times: Vec<u64> = (0..70_000).collect();
        times.extend((0..64).flat_map(|bit| {
            let power = 1_u64 << bit;
            [power - 1, power, power + 1, power | power >> 3]
        }));
        times.push(u64::MAX);
        for time in times {
            let index = cell(time);
            assert!(index < CELLS, "{time}");
            assert!(time <= cell_last(index), "{time}");
            assert!(index == 0 || cell_last(index - 1) < time, "{time}");
        }
    }

    #[test]
    fn percentiles_are_within_a_thirtysecond() {
        let mut times = Times::new();
        for time in 1..=10_000 {
            times.record(time * 1000);
        }
        for (percent, exact) in [(50, 5_000_000), (99, 9_900_000), (100, 10_000_000)] {
            let found = times.percentile(percent);
            assert!(
                found >= exact && found <= exact + exact / 32,
                "{percent}: {found}"
            );
        }
        assert_eq!(times.mean(), 5_000_500);
    }

    #[test]
    fn rows_are_powers_of_two_that_hold_every_time() {
        let mut times = Times::new();
        for time in [0, 1, 2, 3, 4, 1023, 1024, 1500, u64::MAX] {
            times.record(time);
        }
        let rows: Vec<_> = times
            .rows()
            .iter()
            .map(|row| (row.low, row.high, row.count))
            .collect();
        let last = (1 << 63, u64::MAX, 1);
        assert_eq!(
            rows,
            [
                (0, 1, 1),
                (1, 2, 1),
                (2, 4, 2),
                (4, 8, 1),
                (512, 1024, 1),
                (1024, 2048, 2),
                last
            ]
        );
    }

    #[test]
    fn no_times_are_all_zero() {
        let times = Times::new();
        assert_eq!(
            (times.mean(), times.percentile(99), times.count()),
            (0, 0, 0)
        );
        assert!(times.rows().is_empty());
    }
}
