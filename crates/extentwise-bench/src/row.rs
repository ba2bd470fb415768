//! One line of the table.

use serde::Serialize;

use crate::paired::Paired;

/// What a row has to reach.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bar {
    /// The ratio that is wanted.
    goal: Option<f64>,
    /// The ratio below which a change is refused, where others hold the workspace to it.
    guard: Option<f64>,
    /// The ratio above which something is other than it was.
    most: Option<f64>,
}

impl Bar {
    /// A row for the reader only.
    pub(crate) const NONE: Self = Self {
        goal: None,
        guard: None,
        most: None,
    };

    pub(crate) const fn goal(goal: f64) -> Self {
        Self {
            goal: Some(goal),
            ..Self::NONE
        }
    }

    /// A row that is held to this ratio, and has no goal beyond.
    pub(crate) const fn only_guard(guard: f64) -> Self {
        Self {
            guard: Some(guard),
            ..Self::NONE
        }
    }

    /// A row that is to stay as it was.
    pub(crate) const fn within(tolerance: f64) -> Self {
        Self {
            guard: Some(1.0 - tolerance),
            most: Some(1.0 + tolerance),
            ..Self::NONE
        }
    }

    pub(crate) const fn guard(self, guard: f64) -> Self {
        Self {
            guard: Some(guard),
            ..self
        }
    }
}

/// Which bar counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judge {
    Goals,
    /// Rows that have a guard are held to that; others are for the reader only.
    Guards,
}

/// What both sides took, and how they compare.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    /// The number in the table of goals, or what the row is beside them.
    pub(crate) id: &'static str,
    pub(crate) name: String,
    pub(crate) ours: f64,
    pub(crate) peer: f64,
    pub(crate) peer_name: String,
    pub(crate) unit: &'static str,
    /// Above 1 means that ours is better.
    pub(crate) ratio: f64,
    pub(crate) goal: Option<f64>,
    pub(crate) pass: bool,
    #[serde(skip)]
    bar: Bar,
}

impl Row {
    /// A row of two times in nanoseconds.
    pub(crate) fn of_times(
        id: &'static str,
        name: impl Into<String>,
        bar: Bar,
        paired: Paired,
    ) -> Self {
        Self {
            id,
            name: name.into(),
            ours: paired.ours,
            peer: paired.peer,
            peer_name: paired.peer_name,
            unit: "ns",
            ratio: paired.ratio,
            goal: None,
            pass: true,
            bar,
        }
    }

    /// A row of two rates, from times in nanoseconds of so much work.
    pub(crate) fn of_rates(
        id: &'static str,
        name: impl Into<String>,
        bar: Bar,
        (paired, amount, unit): (Paired, f64, &'static str),
    ) -> Self {
        let rate = |nanos: f64| amount / nanos * 1e9;
        Self {
            ours: rate(paired.ours),
            peer: rate(paired.peer),
            unit,
            ..Self::of_times(id, name, bar, paired)
        }
    }

    /// A row of two figures of which the smaller is better.
    pub(crate) fn of_costs(
        id: &'static str,
        name: impl Into<String>,
        bar: Bar,
        unit: &'static str,
        (ours, peer, peer_name): (f64, f64, &str),
    ) -> Self {
        Self {
            id,
            name: name.into(),
            ours,
            peer,
            peer_name: peer_name.into(),
            unit,
            ratio: peer / ours,
            goal: None,
            pass: true,
            bar,
        }
    }
}

/// What became of a row.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    Measured(Row),
    /// This machine cannot do it; said loudly.
    Skipped {
        id: &'static str,
        name: String,
        why: String,
    },
}

impl From<Row> for Outcome {
    fn from(row: Row) -> Self {
        Self::Measured(row)
    }
}

impl Outcome {
    pub(crate) fn skipped(
        id: &'static str,
        name: impl Into<String>,
        why: impl Into<String>,
    ) -> Self {
        Self::Skipped {
            id,
            name: name.into(),
            why: why.into(),
        }
    }

    pub(crate) fn id(&self) -> &'static str {
        match self {
            Self::Measured(row) => row.id,
            Self::Skipped { id, .. } => id,
        }
    }

    /// The same with the bar that counts.
    pub(crate) fn judged(mut self, judge: Judge) -> Self {
        if let Self::Measured(row) = &mut self {
            row.goal = match judge {
                Judge::Goals => row.bar.goal.or(row.bar.guard),
                Judge::Guards => row.bar.guard,
            };
            // What is no number, or came from nothing, passes nothing.
            row.pass = row.ratio.is_finite()
                && row.goal.is_none_or(|goal| row.ratio >= goal)
                && row.bar.most.is_none_or(|most| row.ratio <= most);
        }
        self
    }

    /// Where it stands in a table: by number, then what has none.
    pub(crate) fn place(&self) -> u32 {
        self.id().parse().unwrap_or(u32::MAX)
    }

    pub(crate) fn is_failed(&self) -> bool {
        matches!(self, Self::Measured(row) if !row.pass)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ratio: f64, bar: Bar) -> Outcome {
        Row::of_costs("0", "row", bar, "ns", (1.0, ratio, "peer")).into()
    }

    #[test]
    fn a_guard_judges_only_where_it_is_asked_for() {
        let bar = Bar::goal(2.0).guard(1.0);
        assert!(row(1.5, bar).judged(Judge::Goals).is_failed());
        assert!(!row(1.5, bar).judged(Judge::Guards).is_failed());
        assert!(row(0.9, bar).judged(Judge::Guards).is_failed());
        assert!(!row(0.9, Bar::goal(1.0)).judged(Judge::Guards).is_failed());
        assert!(
            row(0.9, Bar::only_guard(1.0))
                .judged(Judge::Goals)
                .is_failed()
        );
        assert!(!row(0.1, Bar::NONE).judged(Judge::Goals).is_failed());
    }

    #[test]
    fn what_is_to_stay_as_it_was_may_not_get_better_unnoticed() {
        for (ratio, is_failed) in [(0.97, true), (0.99, false), (1.01, false), (1.03, true)] {
            let judged = row(ratio, Bar::within(0.02)).judged(Judge::Guards);
            assert_eq!(judged.is_failed(), is_failed, "{ratio}");
        }
    }

    #[test]
    fn what_is_no_number_passes_nothing() {
        assert!(
            row(f64::INFINITY, Bar::goal(1.0))
                .judged(Judge::Goals)
                .is_failed()
        );
        assert!(
            row(f64::NAN, Bar::goal(1.0))
                .judged(Judge::Goals)
                .is_failed()
        );
    }
}
