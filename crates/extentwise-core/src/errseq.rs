//! Writeback errors of a file: every open handle sees each once (E1–E3).

use crate::sync::{AtomicU32, Ordering};
use core::fmt;

/// The class of a device or mapping error; it survives every hand-over, so that
/// no-space stays no-space and I/O stays I/O (E3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum ErrorClass {
    /// The device failed (`EIO`).
    Io = 1,
    /// No space is left (`ENOSPC`).
    NoSpace = 2,
    /// The owner's quota is used up (`EDQUOT`).
    Quota = 3,
    /// The file would grow past its largest size (`EFBIG`).
    TooLarge = 4,
    /// The device or file system is read-only (`EROFS`).
    ReadOnly = 5,
    /// No memory for the operation (`ENOMEM`).
    NoMemory = 6,
    /// The device has no such operation (`EOPNOTSUPP`).
    Unsupported = 7,
    /// The caller may not do this (`EACCES`, `EPERM`).
    Denied = 8,
    /// The device is gone (`ENODEV`, `ENXIO`).
    Gone = 9,
}

impl ErrorClass {
    const ALL: [Self; 9] = [
        Self::Io,
        Self::NoSpace,
        Self::Quota,
        Self::TooLarge,
        Self::ReadOnly,
        Self::NoMemory,
        Self::Unsupported,
        Self::Denied,
        Self::Gone,
    ];

    /// The class in the low byte of a state; an unknown byte counts as I/O.
    fn of_state(state: u32) -> Self {
        let index = (state & CLASS_MASK).saturating_sub(1) as usize;
        Self::ALL.get(index).copied().unwrap_or(Self::Io)
    }
}

impl fmt::Display for ErrorClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Io => "I/O error",
            Self::NoSpace => "no space left",
            Self::Quota => "quota used up",
            Self::TooLarge => "file too large",
            Self::ReadOnly => "read-only",
            Self::NoMemory => "no memory",
            Self::Unsupported => "not supported",
            Self::Denied => "permission denied",
            Self::Gone => "device gone",
        })
    }
}

impl core::error::Error for ErrorClass {}

const CLASS_MASK: u32 = 0xff;
const SEEN: u32 = 0x100;
const COUNT: u32 = 0x200;

/// What one open handle has seen so far; made by [`ErrSeq::open`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrSeqCursor(u32);

/// The writeback errors of one file, for any number of handles and threads.
///
/// A successful check says "nothing failed since this handle's last report",
/// no more (E2). The idea is that of the Linux kernel's `errseq_t` (public
/// discussion: "fs: introduce new writeback error tracking infrastructure",
/// 2017).
///
/// **Invariant**: a recorded error stays visible to every handle that has not
/// reported it, and to the next handle opened if no handle has (E1). Errors
/// that follow each other before anybody looks count as one report, which
/// carries the class of the last.
///
/// The counter has 23 bits and moves only when an error has been reported, so a
/// handle could miss one only if 2^23 reports were made between two checks.
#[derive(Debug)]
pub struct ErrSeq(AtomicU32);

impl Default for ErrSeq {
    fn default() -> Self {
        Self::new()
    }
}

impl ErrSeq {
    /// A file on which nothing failed yet.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// A file on which nothing failed yet.
    #[cfg(loom)]
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Records that writeback failed.
    pub fn record(&self, class: ErrorClass) {
        let mut old = self.0.load(Ordering::Acquire);
        loop {
            let base = if old & SEEN == 0 {
                old & !CLASS_MASK
            } else {
                (old & !(CLASS_MASK | SEEN)).wrapping_add(COUNT)
            };
            match self.swap(old, base | class as u32) {
                Ok(()) => return,
                Err(now) => old = now,
            }
        }
    }

    /// A cursor for a new handle. It will report the last error if nobody has
    /// seen that one yet (E1).
    #[must_use]
    pub fn open(&self) -> ErrSeqCursor {
        let state = self.0.load(Ordering::Acquire);
        ErrSeqCursor(if state & SEEN == 0 { 0 } else { state })
    }

    /// Whether the handle has an error to report, without reporting it: for
    /// internal flushes, which must not eat errors (E1).
    #[must_use]
    pub fn peek(&self, cursor: &ErrSeqCursor) -> Option<ErrorClass> {
        let state = self.0.load(Ordering::Acquire);
        // An error is unknown to a cursor whatever SEEN says: a cursor holds
        // only reported states.
        (state & CLASS_MASK != 0 && state | SEEN != cursor.0).then(|| ErrorClass::of_state(state))
    }

    /// Reports to this handle whether anything failed since its last report,
    /// and moves the cursor, so that each error is reported to it once.
    pub fn check(&self, cursor: &mut ErrSeqCursor) -> Result<(), ErrorClass> {
        let mut state = self.0.load(Ordering::Acquire);
        loop {
            if state & CLASS_MASK == 0 || state | SEEN == cursor.0 {
                return Ok(());
            }
            if state & SEEN != 0 {
                break;
            }
            match self.swap(state, state | SEEN) {
                Ok(()) => break,
                Err(now) => state = now,
            }
        }
        cursor.0 = state | SEEN;
        Err(ErrorClass::of_state(state))
    }

    fn swap(&self, old: u32, new: u32) -> Result<(), u32> {
        self.0
            .compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
            .map(|_| ())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn e1_every_handle_sees_an_error_once() {
        let file = ErrSeq::new();
        let (mut a, mut b) = (file.open(), file.open());
        assert_eq!(file.check(&mut a), Ok(()));
        file.record(ErrorClass::NoSpace);
        assert_eq!(file.check(&mut a), Err(ErrorClass::NoSpace));
        assert_eq!(file.check(&mut a), Ok(()));
        assert_eq!(file.check(&mut b), Err(ErrorClass::NoSpace));
        assert_eq!(file.check(&mut b), Ok(()));
    }

    #[test]
    fn e1_a_handle_opened_after_an_unseen_error_sees_it() {
        let file = ErrSeq::new();
        file.record(ErrorClass::Io);
        let mut late = file.open();
        assert_eq!(file.check(&mut late), Err(ErrorClass::Io));
        let mut later = file.open();
        assert_eq!(file.check(&mut later), Ok(()));
    }

    #[test]
    fn e1_an_unseen_error_behind_a_seen_one_reaches_a_new_handle() {
        let file = ErrSeq::new();
        let mut first = file.open();
        file.record(ErrorClass::Io);
        assert!(file.check(&mut first).is_err());
        file.record(ErrorClass::Io);
        let mut late = file.open();
        assert_eq!(file.check(&mut late), Err(ErrorClass::Io));
        assert_eq!(file.check(&mut first), Err(ErrorClass::Io));
    }

    #[test]
    fn e1_an_internal_flush_does_not_eat_the_error() {
        let file = ErrSeq::new();
        let mut handle = file.open();
        file.record(ErrorClass::Io);
        assert_eq!(file.peek(&handle), Some(ErrorClass::Io));
        assert_eq!(file.peek(&handle), Some(ErrorClass::Io));
        assert_eq!(file.check(&mut handle), Err(ErrorClass::Io));
        assert_eq!(file.peek(&handle), None);
    }

    #[test]
    fn e3_the_class_of_an_error_survives() {
        for class in ErrorClass::ALL {
            let file = ErrSeq::new();
            let mut handle = file.open();
            file.record(class);
            assert_eq!(file.check(&mut handle), Err(class));
        }
    }

    #[test]
    fn the_same_class_again_after_a_report_is_a_new_error() {
        let file = ErrSeq::new();
        let mut handle = file.open();
        for _ in 0..1000 {
            file.record(ErrorClass::Io);
            assert_eq!(file.check(&mut handle), Err(ErrorClass::Io));
            assert_eq!(file.check(&mut handle), Ok(()));
        }
    }
}
