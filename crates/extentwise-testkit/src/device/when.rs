//! Which of many calls something happens to.

use crate::seed;

/// Which of the calls that a rule looks at it strikes; they count from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum When {
    /// This one, once.
    Nth(u64),
    /// This one and all that follow.
    From(u64),
    /// One in `calls` on average, chosen by the seed; none if `calls` is zero.
    OneIn {
        /// The mean distance of two that are struck.
        calls: u32,
        /// Which ones.
        seed: u64,
    },
}

/// A [`When`] with what it has seen.
#[derive(Clone, Debug)]
pub(super) struct Trigger {
    when: When,
    seen: u64,
    state: u64,
}

impl Trigger {
    pub(super) fn new(when: When) -> Self {
        let state = match when {
            When::OneIn { seed, .. } => seed,
            When::Nth(_) | When::From(_) => 0,
        };
        Self {
            when,
            seen: 0,
            state,
        }
    }

    /// Counts a call; whether it is struck.
    pub(super) fn strikes(&mut self) -> bool {
        let ordinal = self.seen;
        self.seen = self.seen.saturating_add(1);
        match self.when {
            When::Nth(nth) => ordinal == nth,
            When::From(first) => ordinal >= first,
            When::OneIn { calls: 0, .. } => false,
            When::OneIn { calls, .. } => {
                seed::next(&mut self.state).is_multiple_of(u64::from(calls))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn struck(when: When) -> Vec<u64> {
        let mut trigger = Trigger::new(when);
        (0..1000).filter(|_| trigger.strikes()).collect()
    }

    #[test]
    fn ordinals_strike_once_or_from_then_on() {
        assert_eq!(struck(When::Nth(3)), [3]);
        assert_eq!(struck(When::From(998)), [998, 999]);
        assert_eq!(struck(When::From(0)).len(), 1000);
    }

    #[test]
    fn a_rate_strikes_about_as_often_as_it_says_and_the_same_for_a_seed() {
        let often = |calls, seed| struck(When::OneIn { calls, seed });
        assert!((50..200).contains(&often(10, 1).len()));
        assert_eq!(often(10, 1), often(10, 1));
        assert_ne!(often(10, 1), often(10, 2));
        assert!(often(0, 1).is_empty());
        assert_eq!(often(1, 1).len(), 1000);
    }
}
