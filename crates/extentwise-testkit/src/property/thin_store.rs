//! The thin store against plain lists of blocks, through crashes; and images of
//! it with bytes changed.

mod hostile;
mod session;

use super::choice::Choices;
use session::Session;

/// Blocks of a file that are used.
const CELLS: u64 = 24;
/// Blocks of the device: both superblocks, which lie 64 KiB apart, and some.
const BLOCKS: u64 = 136;
/// Blocks that are left for files and maps: few, so that each is used again and
/// again.
const LEFT: std::ops::Range<u64> = 8..40;
const FILES: u64 = 3;
const OPS_MAX: usize = 48;
/// Calls that a persist makes, about.
const CALLS: u64 = 5;

/// What is done to the store; places are in blocks of the file.
#[derive(Clone, Copy, Debug)]
enum Op {
    Create(u64),
    Remove(u64),
    Reserve(u64, u64, u64),
    Unreserve(u64, u64, u64),
    /// Allocate, and write data there.
    Allocate(u64, u64, u64),
    /// The same for so many blocks of the promised run with this number.
    AllocatePromised(u64, u64, u64),
    /// Reserve, allocate and complete.
    Write(u64, u64, u64),
    Split(usize, u64),
    /// Cut a write that is on its way off.
    Truncate(usize, u64),
    Complete(usize, How),
    Punch(u64, u64, u64),
    Preallocate(u64, u64, u64),
    SetSize(u64, u64),
    Persist,
    /// With a device whose call of this number fails; from [`CALLS`] on, a write
    /// of a superblock.
    PersistFailing(u64, Failure),
    /// Cut the power, with unflushed writes lost, kept or torn by this seed.
    Crash(u64),
}

/// How a write on its way ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Written,
    Failed,
    /// Failed, and space for it is promised again at once.
    FailedAndReserved,
    /// Nobody uses the place.
    GivenBack,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    Error,
    Short,
    Full,
    Torn,
}

/// Operations on a store, with a device that fails and loses what was not
/// flushed: it says what a model says, its files hold what was written, a crash
/// shows what was made durable last, and promises are kept (C8, O5, W14). Or an
/// image with bytes changed under right checksums: it opens to an error or to a
/// store whose accounts hold.
///
/// # Panics
///
/// Where that does not hold.
pub fn thin_store(data: &[u8]) {
    match decode(data) {
        Case::Session { filler, ops } => {
            let mut session = Session::new(filler);
            for op in ops {
                session.apply(op);
            }
            session.end();
        }
        Case::Hostile(changes) => hostile::run(&changes),
    }
}

pub(super) fn describe(data: &[u8]) -> String {
    match decode(data) {
        Case::Session { filler, ops } => format!(
            "{filler} blocks are in use\n{}",
            super::list(ops.into_iter())
        ),
        Case::Hostile(changes) => super::list(changes.into_iter()),
    }
}

enum Case {
    Session { filler: u64, ops: Vec<Op> },
    Hostile(Vec<hostile::Change>),
}

fn decode(data: &[u8]) -> Case {
    let mut choices = Choices::new(data);
    let first = choices.byte();
    if first >= 224 {
        return Case::Hostile(hostile::decode(&mut choices));
    }
    let left = LEFT.start + u64::from(first) % (LEFT.end - LEFT.start);
    // Two blocks are superblocks.
    let filler = BLOCKS - 2 - left;
    let mut ops = Vec::new();
    while !choices.is_empty() && ops.len() < OPS_MAX {
        ops.push(op(&mut choices));
    }
    Case::Session { filler, ops }
}

fn op(choices: &mut Choices<'_>) -> Op {
    let kind = choices.below(32);
    let file = |choices: &mut Choices<'_>| choices.below(FILES);
    let range = |choices: &mut Choices<'_>| {
        let start = choices.below(CELLS);
        let len = choices.one_of(&[1, 1, 2, 2, 3, 4, 8, 0]);
        (start, (start + len).min(CELLS))
    };
    let flight = |choices: &mut Choices<'_>| choices.index(8);
    match kind {
        0 => Op::Remove(file(choices)),
        1 => Op::Create(file(choices)),
        2..=4 => {
            let (id, (start, end)) = (file(choices), range(choices));
            Op::Reserve(id, start, end)
        }
        5 => {
            let (id, (start, end)) = (file(choices), range(choices));
            Op::Unreserve(id, start, end)
        }
        6..=9 => Op::AllocatePromised(file(choices), choices.below(4), 1 + choices.below(4)),
        10 => {
            let (id, (start, end)) = (file(choices), range(choices));
            Op::Allocate(id, start, end)
        }
        11..=14 => {
            let (id, (start, end)) = (file(choices), range(choices));
            Op::Write(id, start, end)
        }
        15 => Op::Split(flight(choices), choices.below(8)),
        16 => Op::Truncate(flight(choices), choices.below(8)),
        17..=20 => {
            let flight = flight(choices);
            let hows = [
                How::Written,
                How::Written,
                How::Failed,
                How::FailedAndReserved,
                How::GivenBack,
            ];
            Op::Complete(flight, choices.one_of(&hows))
        }
        21 | 22 => {
            let (id, (start, end)) = (file(choices), range(choices));
            Op::Punch(id, start, end)
        }
        23 | 24 => {
            let (id, (start, end)) = (file(choices), range(choices));
            Op::Preallocate(id, start, end)
        }
        25 => Op::SetSize(file(choices), choices.word()),
        26 | 27 => Op::Persist,
        28 | 29 => {
            let failures = [Failure::Error, Failure::Torn, Failure::Full, Failure::Short];
            Op::PersistFailing(choices.below(8), choices.one_of(&failures))
        }
        _ => Op::Crash(choices.below(256)),
    }
}
