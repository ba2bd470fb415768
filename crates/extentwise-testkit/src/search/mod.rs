//! A search of all states of a small file over the real core.
//!
//! A few folios of a few blocks, their ordered extents, the bios under way, the
//! device, and what was promised to callers: from the empty file, every
//! operation is tried in every state, until no state is left that was not seen.
//! Bios are answered in any order, and may fail; files shrink below what is on
//! its way; clean folios are evicted; the power is cut.
//!
//! In each state: who reads sees what was written; what is clean is on the
//! device; no ordered extent is left without a bio that will end it; and a crash
//! now would show nothing but what was promised or is newer.

// Offsets and lengths lie below 2^20.
#![allow(clippy::cast_possible_truncation)]

mod check;
mod file;
mod shape;
mod world;
mod writeback;

use std::collections::HashSet;
use std::rc::Rc;

pub use shape::{Event, Mistake, SHAPES, Shape, WIDE_SHAPES};
use world::{Op, World};

/// How a search ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Searched {
    /// Different states that were seen.
    pub states: u64,
    /// Operations that were tried in them and led somewhere.
    pub steps: u64,
    /// Whether every operation was tried in every state.
    pub closed: bool,
    /// What does not hold, with the operations that lead there.
    pub fault: Option<String>,
}

impl Searched {
    const fn failed(fault: String) -> Self {
        Self {
            states: 0,
            steps: 0,
            closed: false,
            fault: Some(fault),
        }
    }
}

/// How a state was reached.
struct Link {
    op: Op,
    before: Option<Rc<Link>>,
}

/// Searches a shape to its end, or until `states_max` states were seen.
#[must_use]
pub fn search(shape: &Shape, mistake: Mistake, states_max: u64) -> Searched {
    let start = match World::new(shape, mistake) {
        Ok(start) => start,
        Err(fault) => return Searched::failed(fault),
    };
    let mut seen = HashSet::from([start.key()]);
    let mut steps = 0_u64;
    // The last found goes first: few states are waiting at any time.
    let mut waiting: Vec<(World<'_>, Option<Rc<Link>>)> = vec![(start, None)];
    let mut ops = Vec::new();
    while let Some((world, link)) = waiting.pop() {
        world.ops(&mut ops);
        for op in ops.drain(..) {
            let mut next = world.clone();
            let outcome = match next.apply(op) {
                Ok(false) => continue,
                Ok(true) => next.check(),
                Err(fault) => Err(fault),
            };
            steps += 1;
            let before = link.clone();
            if let Err(fault) = outcome {
                return Searched {
                    states: seen.len() as u64,
                    steps,
                    ..Searched::failed(story(&Link { op, before }, &fault))
                };
            }
            if seen.insert(next.key()) {
                waiting.push((next, Some(Rc::new(Link { op, before }))));
            }
        }
        if seen.len() as u64 > states_max {
            break;
        }
    }
    Searched {
        states: seen.len() as u64,
        steps,
        closed: waiting.is_empty(),
        fault: None,
    }
}

fn story(last: &Link, fault: &str) -> String {
    let mut ops = vec![format!("{:?}", last.op)];
    let mut before = last.before.as_deref();
    while let Some(link) = before {
        ops.push(format!("{:?}", link.op));
        before = link.before.as_deref();
    }
    ops.reverse();
    format!("{}: {fault}", ops.join(", "))
}

impl Drop for Link {
    /// A path may be longer than the stack is deep.
    fn drop(&mut self) {
        let mut before = self.before.take();
        while let Some(link) = before {
            match Rc::try_unwrap(link) {
                Ok(mut link) => before = link.before.take(),
                Err(_) => return,
            }
        }
    }
}
