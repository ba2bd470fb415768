//! Every device call of a scenario fails, in every way, once and for ever.

use super::setup::{Backing, Setup, Trouble};
use super::store::{Flat, Store, Thin};
use super::world::{Faulting, Late, World};
use super::{Choices, Tally};
use crate::device::{Fault, FaultRule, When};
use extentwise_device::ErrorClass;

/// What befalls a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mishap {
    Error,
    Short,
    /// Its answer comes when nothing else is left.
    Late,
    Full,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Often {
    Once,
    Always,
}

/// The fault of one run: which call of which disk.
#[derive(Clone, Copy, Debug)]
struct Planned {
    disk: usize,
    call: u64,
    often: Often,
    mishap: Mishap,
}

/// The scenario of a seed, once for each of its device calls, each way of
/// failing, and both once and from then on. Each run ends on the bad device, and
/// then on a sound one: nothing is lost that was not told to be.
///
/// # Errors
///
/// What does not hold, in words.
pub fn faults(seed: u64) -> Result<Tally, String> {
    let mut choices = Choices::Seed(seed);
    let backing = choices.one_of(&[Backing::Flat, Backing::Thin]);
    let setup = Setup::drawn(&mut choices, backing, Trouble::Faults);
    match backing {
        Backing::Flat => all::<Flat>(setup, &choices),
        Backing::Thin => all::<Thin>(setup, &choices),
    }
}

fn all<S: Store>(setup: Setup, choices: &Choices<'_>) -> Result<Tally, String> {
    let mut tally = Tally {
        sequences: 1,
        ..Tally::default()
    };
    let (calls, _) = run::<S>(setup, choices, None)?;
    for (disk, calls) in calls.into_iter().enumerate() {
        tally.ordinals += calls;
        for call in 0..calls {
            for often in [Often::Once, Often::Always] {
                for mishap in [Mishap::Error, Mishap::Short, Mishap::Late, Mishap::Full] {
                    let planned = Planned {
                        disk,
                        call,
                        often,
                        mishap,
                    };
                    let (_, struck) = run::<S>(setup, choices, Some(planned))
                        .map_err(|fault| format!("{planned:?}: {fault}"))?;
                    tally.fault_runs += 1;
                    tally.struck += u64::from(struck);
                }
            }
        }
    }
    Ok(tally)
}

/// One run; answers the calls of each disk, and whether the fault struck.
fn run<S: Store>(
    setup: Setup,
    choices: &Choices<'_>,
    planned: Option<Planned>,
) -> Result<(Vec<u64>, bool), String> {
    let mut choices = choices.clone();
    let mut world = World::<S>::new(setup, &mut choices);
    world.faulting = Faulting::Planned;
    if let Some(planned) = planned {
        plan(&mut world, planned);
    }
    for step in 0..setup.steps {
        let done = world.step();
        done.map_err(|fault| format!("step {step}: {fault}"))?;
    }
    let done = world.end_in_trouble();
    done.map_err(|fault| format!("in trouble: {fault}"))?;
    let disks = world.store.disks();
    let calls = disks.iter().map(|disk| disk.inner().calls()).collect();
    let struck = match planned {
        Some(Planned {
            mishap: Mishap::Late,
            ..
        }) => true,
        Some(planned) => disks[planned.disk].struck() > 0,
        None => false,
    };
    let done = world.end_in_peace();
    done.map_err(|fault| format!("at rest: {fault}"))?;
    Ok((calls, struck))
}

fn plan<S: Store>(world: &mut World<'_, '_, S>, planned: Planned) {
    let call = planned.call;
    let (when, last) = match planned.often {
        Often::Once => (When::Nth(call), call),
        Often::Always => (When::From(call), u64::MAX),
    };
    let fault = match planned.mishap {
        Mishap::Error => Fault::Error(ErrorClass::Io),
        Mishap::Short => Fault::Short,
        Mishap::Full => Fault::Full,
        Mishap::Late => {
            world.late = Some(Late {
                disk: planned.disk,
                first: call,
                last,
            });
            return;
        }
    };
    world.store.disks()[planned.disk].set_plan(FaultRule::new(when, fault));
}
