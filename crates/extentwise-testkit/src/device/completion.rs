//! Completions out of order, late, and never.

use super::When;
use super::when::Trigger;
use crate::seed;

/// The order in which what was submitted completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// As submitted.
    Submission,
    /// The newest first.
    Newest,
    /// Any; chosen by this seed.
    Seeded(u64),
}

/// What happens to a completion that a rule strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hold {
    /// It comes after this many other completions at the earliest, or when no
    /// other is left that could come first.
    Late {
        /// The others that it waits for.
        completions: u64,
    },
    /// It does not come until [`CompletionOrder::release`].
    Stuck,
}

/// A queue between a device, which answers at once, and a driver that wants its
/// bios to complete later: out of order, late, or stuck.
///
/// The driver does the I/O whenever it likes, puts the bio with its answer in,
/// and completes what [`next`](Self::next) answers.
///
/// **Invariant**: everything submitted is answered once, or is still counted by
/// [`len`](Self::len).
#[derive(Clone, Debug)]
pub struct CompletionOrder<T> {
    order: Order,
    state: u64,
    rules: Vec<(Trigger, Hold)>,
    completed: u64,
    waiting: Vec<Waiting<T>>,
}

#[derive(Clone, Debug)]
struct Waiting<T> {
    item: T,
    due: Due,
}

/// When something may complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    /// When so many have.
    After(u64),
    Never,
}

impl<T> CompletionOrder<T> {
    /// An empty queue.
    #[must_use]
    pub fn new(order: Order) -> Self {
        let state = match order {
            Order::Seeded(seed) => seed,
            Order::Submission | Order::Newest => 0,
        };
        Self {
            order,
            state,
            rules: Vec::new(),
            completed: 0,
            waiting: Vec::new(),
        }
    }

    /// The same with a rule for some of what is submitted. Where two rules
    /// strike, the first decides.
    #[must_use]
    pub fn with(mut self, when: When, hold: Hold) -> Self {
        self.rules.push((Trigger::new(when), hold));
        self
    }

    /// Puts in something that is to complete.
    pub fn submit(&mut self, item: T) {
        let mut hold = None;
        for (trigger, then) in &mut self.rules {
            // Every rule counts every submission.
            if trigger.strikes() {
                hold = hold.or(Some(*then));
            }
        }
        let due = match hold {
            None => Due::After(0),
            Some(Hold::Late { completions }) => {
                Due::After(self.completed.saturating_add(completions))
            }
            Some(Hold::Stuck) => Due::Never,
        };
        self.waiting.push(Waiting { item, due });
    }

    /// What completes next; `None` if nothing is left but what is stuck.
    // An iterator it is not: more may come after `None`.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<T> {
        let ready = self.ready();
        let nth = match self.order {
            Order::Submission => 0,
            Order::Newest => ready.len().checked_sub(1)?,
            Order::Seeded(_) => {
                let choices = (ready.len() as u64).max(1);
                usize::try_from(seed::next(&mut self.state) % choices).unwrap_or(0)
            }
        };
        let index = *ready.get(nth)?;
        self.completed = self.completed.saturating_add(1);
        Some(self.waiting.remove(index).item)
    }

    /// Lets what is stuck complete; how many that are.
    pub fn release(&mut self) -> usize {
        let mut released = 0;
        for waiting in &mut self.waiting {
            if waiting.due == Due::Never {
                waiting.due = Due::After(0);
                released += 1;
            }
        }
        released
    }

    /// What has not completed, with what is stuck.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether everything has completed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// What is stuck.
    #[must_use]
    pub fn stuck(&self) -> usize {
        let stuck = self.waiting.iter().filter(|w| w.due == Due::Never);
        stuck.count()
    }

    /// Indexes of what may complete now: what is due, else what is due first.
    fn ready(&self) -> Vec<usize> {
        let dues = || {
            let waiting = self.waiting.iter().enumerate();
            waiting.filter_map(|(index, waiting)| match waiting.due {
                Due::After(completed) => Some((index, completed)),
                Due::Never => None,
            })
        };
        let first = dues().map(|(_, due)| due).min().unwrap_or(0);
        let now = self.completed.max(first);
        let ready = dues().filter(|(_, due)| *due <= now);
        ready.map(|(index, _)| index).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain<T>(queue: &mut CompletionOrder<T>) -> Vec<T> {
        std::iter::from_fn(|| queue.next()).collect()
    }

    fn queue(order: Order) -> CompletionOrder<u32> {
        CompletionOrder::new(order)
    }

    fn filled(mut queue: CompletionOrder<u32>) -> CompletionOrder<u32> {
        (0..6).for_each(|item| queue.submit(item));
        queue
    }

    #[test]
    fn orders_are_what_they_say_and_lose_nothing() {
        assert_eq!(
            drain(&mut filled(queue(Order::Submission))),
            [0, 1, 2, 3, 4, 5]
        );
        assert_eq!(drain(&mut filled(queue(Order::Newest))), [5, 4, 3, 2, 1, 0]);
        let seeded = |seed| drain(&mut filled(queue(Order::Seeded(seed))));
        assert_eq!(seeded(1), seeded(1));
        assert!((2..20).any(|seed| seeded(seed) != seeded(1)));
        for seed in 0..50 {
            let mut all = seeded(seed);
            all.sort_unstable();
            assert_eq!(all, [0, 1, 2, 3, 4, 5]);
        }
    }

    #[test]
    fn what_is_late_comes_behind_the_others_it_waits_for() {
        let late = Hold::Late { completions: 3 };
        let mut queue = filled(queue(Order::Submission).with(When::Nth(0), late));
        assert_eq!(drain(&mut queue), [1, 2, 3, 0, 4, 5]);
    }

    #[test]
    fn what_is_late_comes_at_last_when_nothing_else_is_left() {
        let late = Hold::Late { completions: 1000 };
        let mut queue = filled(queue(Order::Submission).with(When::From(0), late));
        assert_eq!(drain(&mut queue), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn what_is_stuck_comes_when_it_is_released() {
        let mut queue = filled(queue(Order::Newest).with(When::Nth(2), Hold::Stuck));
        assert_eq!(drain(&mut queue), [5, 4, 3, 1, 0]);
        assert_eq!((queue.len(), queue.stuck()), (1, 1));
        assert_eq!(queue.next(), None);
        assert_eq!(queue.release(), 1);
        assert_eq!(drain(&mut queue), [2]);
        assert!(queue.is_empty());
    }
}
