//! The closing table: one line for each count, the verdict on the first line of its check.

use std::time::Duration;

use crate::report::Report;

const COLUMNS: usize = 6;

/// One line of the table.
pub(crate) struct Row([String; COLUMNS]);

impl Row {
    /// The line that names the columns.
    pub(crate) fn header() -> Self {
        Self(["check", "counted", "count", "floor", "seconds", "verdict"].map(String::from))
    }

    /// A line of another table of this shape: numbers in the third to the fifth column.
    pub(crate) fn of(cells: [String; COLUMNS]) -> Self {
        Self(cells)
    }
}

/// The lines of one check.
pub(crate) fn rows(check: &str, report: &Report, time: Duration) -> Vec<Row> {
    let verdict = if report.passed() { "ok" } else { "FAILED" };
    let mut rows: Vec<Row> = report
        .tallies()
        .iter()
        .map(|tally| {
            let floor = tally.floor.map_or("-".into(), |floor| floor.to_string());
            let short = if tally.holds() { "" } else { "below floor" };
            Row([
                String::new(),
                tally.what.into(),
                tally.count.to_string(),
                floor,
                String::new(),
                short.into(),
            ])
        })
        .collect();
    if rows.is_empty() {
        rows.push(Row(Default::default()));
    }
    let [name, _, _, _, seconds, word] = &mut rows[0].0;
    *name = check.into();
    *seconds = format!("{:.1}", time.as_secs_f64());
    if word.is_empty() {
        *word = verdict.into();
    }
    rows
}

/// Aligns the columns: words to the left, numbers to the right.
pub(crate) fn render(rows: &[Row]) -> String {
    let widths: [usize; COLUMNS] = std::array::from_fn(|column| {
        let lengths = rows.iter().map(|row| row.0[column].chars().count());
        lengths.max().unwrap_or(0)
    });
    let line = |row: &Row| {
        let cells = row.0.iter().zip(widths).enumerate();
        let cells = cells.map(|(column, (cell, width))| match column {
            2..=4 => format!("{cell:>width$}"),
            _ => format!("{cell:<width$}"),
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        line.trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_to_the_right_and_the_verdict_once() {
        let mut report = Report::default();
        report.count("tests", 1234, 100);
        report.note("ignored", 5);
        let mut table = vec![Row::header()];
        table.extend(rows("test", &report, Duration::from_millis(1520)));
        assert_eq!(
            render(&table),
            "check  counted  count  floor  seconds  verdict\n\
             test   tests     1234    100      1.5  ok\n       \
             ignored      5      -\n"
        );
    }

    #[test]
    fn a_count_below_its_floor_is_marked_on_its_line() {
        let mut report = Report::default();
        report.note("ignored", 5);
        report.count("tests", 0, 1);
        let table = render(&rows("test", &report, Duration::ZERO));
        assert!(table.contains("FAILED"));
        assert!(table.contains("below floor"));
    }

    #[test]
    fn a_check_that_counted_nothing_still_has_its_line() {
        let table = render(&rows("lint", &Report::default(), Duration::ZERO));
        assert!(table.starts_with("lint"));
    }
}
