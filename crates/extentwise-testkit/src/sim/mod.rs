//! A deterministic simulator of everything around the engine.
//!
//! One seed decides what callers do, when each effect is carried out and when it
//! is answered, what fails, and where the power is cut. Many tickets are held at
//! once; geometries are so tiny that eviction, back-pressure and short space are
//! ordinary. Behind every step the engine is checked as a whole, and against
//! byte vectors:
//!
//! - what is read is what was written; only what the engine told to be lost may
//!   be old (C2);
//! - each failed effect is reported once by each handle (E1);
//! - a sync that succeeds has made durable what was there when it began (C4, C8);
//! - memory stays in its bounds (C5);
//! - nobody waits when nothing is under way, and who was told to wait is woken.

// Offsets and lengths lie below 2^20.
#![allow(clippy::cast_possible_truncation)]

mod choices;
mod crash;
mod durability;
mod effects;
mod errors;
mod faults;
mod loans;
mod memory;
mod model;
mod ops;
mod rest;
mod setup;
mod store;
mod watch;
mod world;

pub use choices::Choices;
pub use crash::{Host, crash};
pub use durability::durability_table;
pub use faults::faults;
pub use setup::{Backing, Setup, Trouble};

use store::{Flat, Store, Thin};
use world::World;

/// What was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Sequences of operations.
    pub sequences: u64,
    /// Steps of them: an operation, or an effect carried out or answered.
    pub steps: u64,
    /// Syncs that succeeded, and whose durable image was looked at.
    pub syncs: u64,
    /// Places where the power was cut: one behind each device call.
    pub cuts: u64,
    /// Images that a cut may leave, each opened and compared.
    pub states: u64,
    /// How many of these come from cuts of which some images were drawn, not all.
    pub sampled: u64,
    /// Device calls that were let fail, one a run.
    pub ordinals: u64,
    /// Runs with a call that fails.
    pub fault_runs: u64,
    /// Runs of these in which the fault changed what happened.
    pub struck: u64,
}

impl Tally {
    /// Every count, by name.
    #[must_use]
    pub fn counts(&self) -> [(&'static str, u64); 9] {
        [
            ("sequences", self.sequences),
            ("steps", self.steps),
            ("syncs", self.syncs),
            ("cuts", self.cuts),
            ("states", self.states),
            ("sampled", self.sampled),
            ("ordinals", self.ordinals),
            ("fault_runs", self.fault_runs),
            ("struck", self.struck),
        ]
    }

    /// Adds what another looked at.
    pub fn add(&mut self, other: &Self) {
        self.sequences += other.sequences;
        self.steps += other.steps;
        self.syncs += other.syncs;
        self.cuts += other.cuts;
        self.states += other.states;
        self.sampled += other.sampled;
        self.ordinals += other.ordinals;
        self.fault_runs += other.fault_runs;
        self.struck += other.struck;
    }
}

/// Runs one sequence of operations to its end.
///
/// # Errors
///
/// What does not hold, in words.
pub fn sequence(setup: Setup, choices: &mut Choices<'_>) -> Result<Tally, String> {
    match setup.backing {
        Backing::Flat => run::<Flat>(setup, choices),
        Backing::Thin => run::<Thin>(setup, choices),
    }
}

/// The sequence of a seed, over either store.
///
/// # Errors
///
/// What does not hold, in words.
pub fn model(seed: u64, trouble: Trouble) -> Result<Tally, String> {
    let mut choices = Choices::Seed(seed);
    let backing = choices.one_of(&[Backing::Flat, Backing::Thin]);
    let setup = Setup::drawn(&mut choices, backing, trouble);
    sequence(setup, &mut choices)
}

/// What happens in a sequence, an event a line.
pub fn narrate(setup: Setup, choices: &mut Choices<'_>) -> String {
    let lines = match setup.backing {
        Backing::Flat => lines::<Flat>(setup, choices),
        Backing::Thin => lines::<Thin>(setup, choices),
    };
    format!("{setup:?}\n{}", lines.join("\n"))
}

fn lines<S: Store>(setup: Setup, choices: &mut Choices<'_>) -> Vec<String> {
    let mut world = World::<S>::new(setup, choices);
    world.log = Some(Vec::new());
    let result = to_the_end(&mut world);
    let mut lines = world.log.unwrap_or_default();
    lines.extend(result.err());
    lines
}

fn run<S: Store>(setup: Setup, choices: &mut Choices<'_>) -> Result<Tally, String> {
    let mut world = World::<S>::new(setup, choices);
    to_the_end(&mut world)?;
    world.tally.sequences = 1;
    Ok(world.tally)
}

fn to_the_end<S: Store>(world: &mut World<'_, '_, S>) -> Result<(), String> {
    for step in 0..world.setup.steps {
        let done = world.step();
        done.map_err(|fault| format!("step {step}: {fault}"))?;
        if world.choices.are_over() {
            break;
        }
    }
    world
        .end_in_peace()
        .map_err(|fault| format!("at rest: {fault}"))
}
