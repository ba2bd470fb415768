//! The errors of a file against a plain log of them.

use extentwise_core::errseq::{ErrSeq, ErrSeqCursor, ErrorClass};

use super::choice::Choices;

const OPS_MAX: usize = 64;
const HANDLES_MAX: usize = 6;

const CLASSES: [ErrorClass; 9] = [
    ErrorClass::Io,
    ErrorClass::NoSpace,
    ErrorClass::Quota,
    ErrorClass::TooLarge,
    ErrorClass::ReadOnly,
    ErrorClass::NoMemory,
    ErrorClass::Unsupported,
    ErrorClass::Denied,
    ErrorClass::Gone,
];

#[derive(Clone, Copy, Debug)]
enum Op {
    Record(ErrorClass),
    Open,
    /// A second handle that has seen what the first has.
    Duplicate(usize),
    Close(usize),
    Peek(usize),
    Check(usize),
}

/// Several handles on one file, against a log of every error and the place in
/// it up to which each handle has looked (E1–E3).
///
/// # Panics
///
/// Where a handle is told something else than the log says.
pub fn errseq(data: &[u8]) {
    let file = ErrSeq::new();
    let mut log = Log::default();
    let mut handles: Vec<(ErrSeqCursor, usize)> = vec![(file.open(), 0)];
    for op in decode(data) {
        match op {
            Op::Record(class) => {
                file.record(class);
                log.errors.push(class);
            }
            Op::Open if handles.len() < HANDLES_MAX => handles.push((file.open(), log.seen)),
            Op::Duplicate(index) if handles.len() < HANDLES_MAX => {
                handles.extend(handles.get(index).copied());
            }
            Op::Open | Op::Duplicate(_) => {}
            Op::Close(index) => {
                if index < handles.len() {
                    handles.swap_remove(index);
                }
            }
            Op::Peek(index) => {
                if let Some((cursor, looked)) = handles.get(index) {
                    assert_eq!(file.peek(cursor), log.unseen_by(*looked), "peek {index}");
                }
            }
            Op::Check(index) => {
                if let Some((cursor, looked)) = handles.get_mut(index) {
                    let expected = log.unseen_by(*looked).map_or(Ok(()), Err);
                    assert_eq!(file.check(cursor), expected, "check {index}");
                    if expected.is_err() {
                        *looked = log.errors.len();
                        log.seen = *looked;
                    }
                }
            }
        }
    }
    for (cursor, looked) in &mut handles {
        let expected = log.unseen_by(*looked).map_or(Ok(()), Err);
        assert_eq!(file.check(cursor), expected, "last check");
        assert_eq!(file.check(cursor), Ok(()), "each error is told once");
    }
}

pub(super) fn describe(data: &[u8]) -> String {
    super::list(decode(data))
}

#[derive(Default)]
struct Log {
    errors: Vec<ErrorClass>,
    /// How many of them some handle was told of.
    seen: usize,
}

impl Log {
    fn unseen_by(&self, looked: usize) -> Option<ErrorClass> {
        self.errors.get(looked..)?.last().copied()
    }
}

fn decode(data: &[u8]) -> impl Iterator<Item = Op> {
    let mut choices = Choices::new(data);
    std::iter::from_fn(move || {
        if choices.is_empty() {
            return None;
        }
        Some(match choices.below(8) {
            0 | 1 => Op::Record(choices.one_of(&CLASSES)),
            2 => Op::Open,
            3 => Op::Duplicate(choices.index(HANDLES_MAX)),
            4 => Op::Close(choices.index(HANDLES_MAX)),
            5 => Op::Peek(choices.index(HANDLES_MAX)),
            _ => Op::Check(choices.index(HANDLES_MAX)),
        })
    })
    .take(OPS_MAX)
}
