//! The engine in the simulator, with schedules and failures from bytes.

use super::choice::Choices;
use crate::sim::{self, Backing, Setup, Trouble};

const STEPS_MAX: u64 = 60;

/// Operations on the engine over either store, with effects carried out in any
/// order and failing: what is read is what was written, no error is lost, what
/// was synced is durable, nobody waits for ever (C1–C12, E1).
///
/// # Panics
///
/// Where that does not hold.
pub fn engine_ops(data: &[u8]) {
    let (setup, mut choices) = decode(data);
    if let Err(fault) = sim::sequence(setup, &mut choices) {
        panic!("{fault}");
    }
}

pub(super) fn describe(data: &[u8]) -> String {
    let (setup, mut choices) = decode(data);
    sim::narrate(setup, &mut choices)
}

/// The first byte chooses what it is about, those that follow the sizes.
fn decode(data: &[u8]) -> (Setup, sim::Choices<'_>) {
    let first = Choices::new(data).byte();
    let mut choices = sim::Choices::Bytes(data.get(1..).unwrap_or_default());
    let backing = [Backing::Flat, Backing::Thin][usize::from(first & 1)];
    let trouble = [Trouble::None, Trouble::Faults][usize::from(first >> 1 & 1)];
    let drawn = Setup::drawn(&mut choices, backing, trouble);
    let setup = Setup {
        steps: STEPS_MAX,
        ..drawn
    };
    (setup, choices)
}
