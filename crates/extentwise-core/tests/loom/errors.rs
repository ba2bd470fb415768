//! Models of the errors of a file, `ErrSeq`.

use std::sync::Arc;

use extentwise_core::errseq::{ErrSeq, ErrSeqCursor, ErrorClass};
use loom::sync::atomic::{AtomicU32, Ordering};

use crate::explore::{Model, Variant};
use crate::scene::{join, spawn};

pub(crate) const MODELS: &[Model] = &[
    Model {
        name: "errseq_two_handles_check",
        rules: "E1, E3",
        floor: 25_000,
        symptom: "each error once",
        scene: |variant| match variant {
            Variant::Core => two_handles_check(ErrSeq::new()),
            Variant::Twin => two_handles_check(Seeded::with(Bug::SeenWithoutSwap)),
        },
    },
    Model {
        name: "errseq_two_records_and_a_check",
        rules: "E1",
        floor: 410,
        symptom: "an error was missed",
        scene: |variant| match variant {
            Variant::Core => two_records_and_a_check(ErrSeq::new()),
            Variant::Twin => two_records_and_a_check(Seeded::with(Bug::RecordWithoutSwap)),
        },
    },
    Model {
        name: "errseq_open_against_record",
        rules: "E1",
        floor: 10_500,
        symptom: "nobody saw the error",
        scene: |variant| match variant {
            Variant::Core => open_against_record(ErrSeq::new()),
            Variant::Twin => open_against_record(Seeded::with(Bug::OpenReadsTwice)),
        },
    },
    Model {
        name: "errseq_peek_eats_nothing",
        rules: "E1",
        floor: 4000,
        symptom: "was eaten",
        scene: |variant| match variant {
            Variant::Core => peek_eats_nothing(ErrSeq::new()),
            Variant::Twin => peek_eats_nothing(Seeded::with(Bug::PeekMarksSeen)),
        },
    },
    Model {
        name: "errseq_report_publishes_what_failed",
        rules: "E1",
        floor: 1420,
        symptom: "before its cause",
        scene: |variant| match variant {
            Variant::Core => report_publishes_what_failed(ErrSeq::new()),
            Variant::Twin => report_publishes_what_failed(Seeded::with(Bug::Relaxed)),
        },
    },
];

/// What a file's errors are asked, so that a scene plays over the core and over
/// a copy with a mistake.
trait Errors: Send + Sync + 'static {
    type Cursor: Copy + Send + 'static;

    fn record(&self, class: ErrorClass);
    fn open(&self) -> Self::Cursor;
    fn peek(&self, cursor: &Self::Cursor) -> Option<ErrorClass>;
    fn check(&self, cursor: &mut Self::Cursor) -> Result<(), ErrorClass>;

    /// The errors that so many checks report.
    fn reports(&self, cursor: &mut Self::Cursor, checks: usize) -> Vec<ErrorClass> {
        (0..checks)
            .filter_map(|_| self.check(cursor).err())
            .collect()
    }
}

impl Errors for ErrSeq {
    type Cursor = ErrSeqCursor;

    fn record(&self, class: ErrorClass) {
        self.record(class);
    }
    fn open(&self) -> ErrSeqCursor {
        self.open()
    }
    fn peek(&self, cursor: &ErrSeqCursor) -> Option<ErrorClass> {
        self.peek(cursor)
    }
    fn check(&self, cursor: &mut ErrSeqCursor) -> Result<(), ErrorClass> {
        self.check(cursor)
    }
}

/// Two handles check while two errors are recorded. An error that nobody has
/// seen when the next one comes is joined with it. Twin: the mark "seen" is
/// stored, not swapped in.
fn two_handles_check<E: Errors>(errors: E) {
    let errors = Arc::new(errors);
    let handles = [errors.open(), errors.open()];
    let record = spawn(&errors, |errors| {
        errors.record(ErrorClass::Io);
        errors.record(ErrorClass::NoSpace);
    });
    let checks = handles.map(|mut handle| {
        spawn(&errors, move |errors| {
            (errors.reports(&mut handle, 1), handle)
        })
    });

    join(record);
    for (mut reports, mut handle) in checks.map(join) {
        reports.extend(errors.reports(&mut handle, 2));
        let each_once = [
            &[ErrorClass::NoSpace][..],
            &[ErrorClass::Io, ErrorClass::NoSpace],
        ];
        assert!(
            each_once.contains(&&reports[..]),
            "a handle sees each error once, not {reports:?}"
        );
    }
}

/// One thread records twice, another one checks, records and checks: what it
/// recorded itself it must be told. Twin: an error is stored, not swapped in.
fn two_records_and_a_check<E: Errors>(errors: E) {
    let errors = Arc::new(errors);
    let mut handle = errors.open();
    let other = spawn(&errors, |errors| {
        errors.record(ErrorClass::Io);
        errors.record(ErrorClass::Io);
    });
    let own = spawn(&errors, move |errors| {
        let before = errors.reports(&mut handle, 1);
        errors.record(ErrorClass::Io);
        let after = errors.reports(&mut handle, 1);
        (before, after, handle)
    });

    join(other);
    let (before, after, mut handle) = join(own);
    assert_eq!(after.len(), 1, "an error was missed");
    let late = errors.reports(&mut handle, 2);
    assert!(before.len() + after.len() + late.len() <= 3);
    assert!(late.len() <= 1, "an error is seen once");
}

/// Handles are opened while an error is recorded behind one that was seen.
/// Whoever opens after somebody saw the error need not see it. Twin: `open`
/// looks at the state, and takes its cursor from a second look.
fn open_against_record<E: Errors>(errors: E) {
    errors.record(ErrorClass::NoSpace);
    let _ = errors.check(&mut errors.open());
    let errors = Arc::new(errors);
    let record = spawn(&errors, |errors| errors.record(ErrorClass::Io));
    let openers = [(); 2].map(|()| {
        spawn(&errors, |errors| {
            let mut handle = errors.open();
            (errors.reports(&mut handle, 1), handle)
        })
    });

    join(record);
    let handles = openers.map(join);
    let early = handles.iter().any(|(reports, _)| !reports.is_empty());
    let mut seen = 0;
    for (mut reports, mut handle) in handles {
        reports.extend(errors.reports(&mut handle, 2));
        assert!(reports.iter().all(|class| *class == ErrorClass::Io));
        assert!(reports.len() <= 1, "a handle sees an error once");
        assert!(early || reports.len() == 1, "nobody saw the error before");
        seen += reports.len();
    }
    assert!(seen > 0, "nobody saw the error");
}

/// Two internal flushes look while an error is recorded; a handle opened
/// afterwards must still see it. Twin: they look by checking with a cursor of
/// their own.
fn peek_eats_nothing<E: Errors>(errors: E) {
    let errors = Arc::new(errors);
    let cursor = errors.open();
    let record = spawn(&errors, |errors| errors.record(ErrorClass::Io));
    let flushes = [(); 2].map(|()| {
        spawn(&errors, move |errors| {
            [(); 2].map(|()| errors.peek(&cursor).is_some())
        })
    });

    join(record);
    for [first, second] in flushes.map(join) {
        assert!(second || !first, "an error does not go by looking at it");
    }
    let reports = errors.reports(&mut errors.open(), 2);
    assert_eq!(reports, [ErrorClass::Io], "the error was eaten by a flush");
}

/// Two handles check while an error is recorded whose cause was noted before,
/// with no ordering of its own. Twin: the state is swapped in with `Relaxed`.
fn report_publishes_what_failed<E: Errors>(errors: E) {
    let scene = Arc::new((errors, AtomicU32::new(0)));
    let handles = [scene.0.open(), scene.0.open()];
    let record = spawn(&scene, |(errors, cause)| {
        cause.store(1, Ordering::Relaxed);
        errors.record(ErrorClass::Io);
    });
    let checks = handles.map(|mut handle| {
        spawn(&scene, move |(errors, cause)| {
            let reported = errors.check(&mut handle).is_err();
            !reported || cause.load(Ordering::Relaxed) == 1
        })
    });

    join(record);
    let explained = checks.map(join);
    assert_eq!(
        explained, [true; 2],
        "an error was reported before its cause"
    );
}

/// A mistake in keeping errors.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bug {
    SeenWithoutSwap,
    RecordWithoutSwap,
    OpenReadsTwice,
    PeekMarksSeen,
    Relaxed,
}

/// Keeps errors as the core does, with a mistake: class, seen, count.
struct Seeded {
    state: AtomicU32,
    bug: Bug,
}

const CLASS: u32 = 0xff;
const SEEN: u32 = 0x100;
const COUNT: u32 = 0x200;

impl Seeded {
    fn with(bug: Bug) -> Self {
        Self {
            state: AtomicU32::new(0),
            bug,
        }
    }

    fn load(&self) -> u32 {
        self.state.load(Ordering::Acquire)
    }

    /// Changes the state as a whole, or, with `mistaken`, in two halves.
    fn change(&self, mistaken: Bug, change: impl Fn(u32) -> u32) -> u32 {
        if self.bug == mistaken {
            let old = self.load();
            self.state.store(change(old), Ordering::Release);
            return old;
        }
        let ordering = match self.bug {
            Bug::Relaxed => Ordering::Relaxed,
            _ => Ordering::AcqRel,
        };
        let mut old = self.load();
        while let Err(now) =
            self.state
                .compare_exchange(old, change(old), ordering, Ordering::Acquire)
        {
            old = now;
        }
        old
    }
}

fn class_of(state: u32) -> ErrorClass {
    if state & CLASS == ErrorClass::NoSpace as u32 {
        ErrorClass::NoSpace
    } else {
        ErrorClass::Io
    }
}

impl Errors for Seeded {
    type Cursor = u32;

    fn record(&self, class: ErrorClass) {
        self.change(Bug::RecordWithoutSwap, |old| {
            let count = if old & SEEN == 0 { 0 } else { COUNT };
            (old & !(CLASS | SEEN)).wrapping_add(count) | class as u32
        });
    }

    fn open(&self) -> u32 {
        let state = self.load();
        if state & SEEN == 0 {
            return 0;
        }
        if self.bug == Bug::OpenReadsTwice {
            return self.load() | SEEN;
        }
        state
    }

    fn peek(&self, cursor: &u32) -> Option<ErrorClass> {
        if self.bug == Bug::PeekMarksSeen {
            return self.check(&mut { *cursor }).err();
        }
        let state = self.load();
        (state & CLASS != 0 && state | SEEN != *cursor).then(|| class_of(state))
    }

    fn check(&self, cursor: &mut u32) -> Result<(), ErrorClass> {
        let state = self.load();
        if state & CLASS == 0 || state | SEEN == *cursor {
            return Ok(());
        }
        let state = self.change(Bug::SeenWithoutSwap, |old| old | SEEN);
        *cursor = state | SEEN;
        Err(class_of(state))
    }
}
