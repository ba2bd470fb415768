//! Models of the table of ordered extents, `SharedTable`.

use std::sync::Arc;

use extentwise_core::geometry::FileRange;
use extentwise_core::ordered::{
    Finished, IoOutcome, OrderedExtent, OrderedFlags, OrderedWait, WaitState,
};

use crate::explore::{Model, Variant};
use crate::scene::{BLOCK, Extents, Told, block, bytes, extent, extents, join, spawn, written};

pub(crate) const MODELS: &[Model] = &[
    Model {
        name: "truncate_against_completion",
        rules: "O8",
        floor: 1650,
        symptom: "the completer saw",
        scene: truncate_against_completion,
    },
    Model {
        name: "parts_finished_by_three_threads",
        rules: "O4",
        floor: 7400,
        symptom: "handed out",
        scene: parts_finished_by_three_threads,
    },
    Model {
        name: "overlapping_finishes",
        rules: "O4",
        floor: 1180,
        symptom: "counted as new",
        scene: overlapping_finishes,
    },
    Model {
        name: "insert_against_lookup",
        rules: "O1",
        floor: 780,
        symptom: "seen in part",
        scene: insert_against_lookup,
    },
    Model {
        name: "split_against_finish",
        rules: "O7",
        floor: 780,
        symptom: "fell into a hole",
        scene: split_against_finish,
    },
    Model {
        name: "wait_against_removal_of_failed",
        rules: "O6",
        floor: 1370,
        symptom: "the failure was missed",
        scene: wait_against_removal_of_failed,
    },
    Model {
        name: "late_finish_against_reinsertion",
        rules: "O4",
        floor: 4400,
        symptom: "the successor was finished",
        scene: late_finish_against_reinsertion,
    },
];

/// One thread cuts the tail twice, two finish a half each. Twin: the completer
/// believes the copy that it was handed, not what `remove` answers.
fn truncate_against_completion(variant: Variant) {
    let table = Arc::new(extents(&[(0, 4)]));
    let truncate = spawn(&table, |table| {
        [3, 1].map(|at| (at, table.truncate(bytes(at, 4)).extents))
    });
    let finish = |range: FileRange| {
        spawn(&table, move |table| {
            let mut told = Told::default();
            table.finish(range, written(range), &mut told);
            let removed = told.completed.iter().map(|handed_out| {
                let now = table.remove(handed_out.id(), handed_out.file_offset());
                match variant {
                    Variant::Core => now.expect("handed out once, so nobody removed it before"),
                    Variant::Twin => *handed_out,
                }
            });
            removed.collect::<Vec<_>>()
        })
    };
    let (front, tail) = (finish(bytes(0, 2)), finish(bytes(2, 4)));

    let cuts = join(truncate);
    let completed = [join(front), join(tail)].concat();
    assert_eq!(completed.len(), 1, "IO_DONE fires once");
    let met = cuts.iter().filter(|(_, met)| *met == 1);
    let smallest = met.map(|(at, _)| at * BLOCK).min().unwrap_or(4 * BLOCK);
    let seen = completed[0].truncated_len().get();
    assert_eq!(seen, smallest, "the completer saw another truncated_len");
}

/// Three threads finish two blocks each of one extent. Twin: each looks
/// whether the extent is done after its part, instead of being told.
fn parts_finished_by_three_threads(variant: Variant) {
    let table = Arc::new(extents(&[(0, 6)]));
    let threads = [0, 2, 4].map(|start| {
        spawn(&table, move |table| {
            let mut told = Told::default();
            for at in start..start + 2 {
                table.finish(bytes(at, at + 1), written(bytes(at, at + 1)), &mut told);
            }
            match variant {
                Variant::Core => told.completed.len(),
                Variant::Twin => usize::from(table.lookup(block(0)).is_some_and(|e| is_done(&e))),
            }
        })
    });
    let handed_out: usize = threads.map(join).iter().sum();
    assert_eq!(handed_out, 1, "the extent is handed out once");
    assert!(is_done(&table.lookup(block(0)).expect("nobody removed it")));
}

/// Two blocks are finished twice, once as failed, and one more; which finish
/// comes first decides whether the extent fails. Twin: what is new is taken
/// from `bytes_left` before and after, with the lock dropped in between.
fn overlapping_finishes(variant: Variant) {
    let table = Arc::new(extents(&[(0, 4)]));
    let finish = move |table: &Extents, range, outcome, told: &mut Told| match variant {
        Variant::Core => table.finish(range, outcome, told).bytes.get(),
        Variant::Twin => {
            let left = || table.lookup(block(0)).map(|e| e.bytes_left().get());
            let before = left();
            table.finish(range, outcome, told);
            before.unwrap_or(0).saturating_sub(left().unwrap_or(0))
        }
    };
    let halves = spawn(&table, move |table| {
        let mut told = Told::default();
        let new =
            [bytes(0, 2), bytes(2, 4)].map(|half| finish(table, half, written(half), &mut told));
        (new[0] + new[1], told)
    });
    let alone = |range, outcome| {
        spawn(&table, move |table| {
            let mut told = Told::default();
            (finish(table, range, outcome, &mut told), told)
        })
    };
    let failed = alone(bytes(1, 3), IoOutcome::Failed);
    let again = alone(bytes(3, 4), written(bytes(3, 4)));

    let all = [halves, failed, again].map(join);
    let new: u64 = all.iter().map(|(new, _)| new).sum();
    assert_eq!(new, 4 * BLOCK, "each byte is counted as new once");
    let double: u64 = all.iter().map(|(_, told)| told.double_bytes).sum();
    assert_eq!(double, 3 * BLOCK, "each double finish is reported once");
    let completed: usize = all.iter().map(|(_, told)| told.completed.len()).sum();
    assert_eq!(completed, 1, "the extent is handed out once");
    let extent = table.lookup(block(0)).expect("nobody removed it");
    assert_eq!(
        extent.flags().contains(OrderedFlags::IO_ERROR),
        all[1].0 > 0,
        "only bytes that were not finished before can fail"
    );
}

/// Two threads insert extents that overlap, a third looks both blocks of the
/// first one up. Twin: the first one comes in two halves.
fn insert_against_lookup(variant: Variant) {
    let table = Arc::new(extents(&[]));
    let first = spawn(&table, move |table| match variant {
        Variant::Core => table.insert(extent(0, 2)).is_ok(),
        Variant::Twin => {
            let front = table.insert(extent(0, 1)).is_ok();
            front && table.insert(extent(1, 2)).is_ok()
        }
    });
    let second = spawn(&table, |table| table.insert(extent(1, 3)).is_ok());
    let look = spawn(&table, |table| [0, 1].map(|at| table.lookup(block(at))));

    let inserted = [join(first), join(second)];
    let [at_0, at_1] = join(look);
    if let Some(seen) = at_0 {
        let rest = at_1.expect("the extent was seen in part");
        assert!(variant == Variant::Twin || rest == seen);
    }
    let won = usize::from(inserted[0]) + usize::from(inserted[1]);
    assert_eq!(won, 1, "of two that overlap, one is inserted");
}

/// An extent is split while its blocks are finished, one finish lying across
/// the place. Twin: the extent is removed and its parts inserted, each under
/// the lock, but not all under one.
fn split_against_finish(variant: Variant) {
    let table = Arc::new(extents(&[(0, 4)]));
    let split = spawn(&table, move |table| match variant {
        Variant::Core => table.with(|table| table.split(block(2)).is_ok()),
        Variant::Twin => {
            let whole = table.lookup(block(0)).filter(is_untouched);
            whole.is_some_and(|whole| {
                let removed = table.remove(whole.id(), block(0)).is_some();
                removed && [(0, 2), (2, 4)].map(|(a, b)| table.insert(extent(a, b)).is_ok())[1]
            })
        }
    });
    let finish = |ranges: &'static [(u64, u64)]| {
        spawn(&table, move |table| {
            let finish = |(start, end): &(u64, u64)| {
                let range = bytes(*start, *end);
                table.finish(range, written(range), &mut ())
            };
            ranges.iter().map(finish).collect::<Vec<Finished>>()
        })
    };
    let (across, ends) = (finish(&[(1, 3)]), finish(&[(0, 1), (3, 4)]));

    let parts = if join(split) { 2 } else { 1 };
    let finished = [join(across), join(ends)].concat();
    let holes: u64 = finished.iter().map(|done| done.hole_bytes.get()).sum();
    assert_eq!(holes, 0, "a finish fell into a hole");
    let completed: usize = finished.iter().map(|done| done.completed).sum();
    assert_eq!(completed, parts, "each part is handed out once");
    table.with(|table| {
        let parts: Vec<_> = table.iter_in(bytes(0, 4)).collect();
        assert!(parts.iter().all(|part| is_done(part)));
        let covered: u64 = parts.iter().map(|part| part.num_bytes().get()).sum();
        assert_eq!(covered, 4 * BLOCK, "the parts cover the extent");
    });
}

/// Two threads finish an extent, one with failure, and whoever is told takes
/// it out; a third waits. Twin: the wait asks for failures, drops the lock, and
/// then looks whether an extent is left.
fn wait_against_removal_of_failed(variant: Variant) {
    let table = Arc::new(extents(&[(0, 2)]));
    let wait = table.with(|table| table.begin_wait(bytes(0, 2), table.failure_seq()));
    let finish = |range, outcome| {
        spawn(&table, move |table| {
            let mut told = Told::default();
            table.finish(range, outcome, &mut told);
            for done in told.completed {
                table.remove(done.id(), done.file_offset());
            }
        })
    };
    let failed = finish(bytes(0, 1), IoOutcome::Failed);
    let fine = finish(bytes(1, 2), written(bytes(1, 2)));
    let waiter = spawn(&table, move |table| {
        [(); 2].map(|()| poll_wait(table, &wait, variant))
    });

    join(failed);
    join(fine);
    let [first, second] = join(waiter);
    let last = poll_wait(&table, &wait, variant);
    let failure = WaitState::Failed(bytes(0, 2));
    for seen in [first, second, last] {
        assert_ne!(seen, WaitState::Done, "the failure was missed");
    }
    assert!(
        first == WaitState::Pending || second == failure,
        "a wait that is over stays over"
    );
    assert_eq!(last, failure);
}

fn poll_wait(table: &Extents, wait: &OrderedWait, variant: Variant) -> WaitState {
    if variant == Variant::Core {
        return table.with(|table| table.poll_wait(wait));
    }
    let failed = table.with(|table| matches!(table.poll_wait(wait), WaitState::Failed(_)));
    let left = table.with(|table| table.first_in(bytes(0, 2)).is_some());
    match (failed, left) {
        (true, _) => WaitState::Failed(bytes(0, 2)),
        (false, true) => WaitState::Pending,
        (false, false) => WaitState::Done,
    }
}

/// An extent is finished, removed, and another one takes its place, while a
/// late cleanup finishes part of it and another one removes it. Both name the
/// extent they mean. Twin: the cleanup looks for the name, drops the lock, and
/// finishes what is there then.
fn late_finish_against_reinsertion(variant: Variant) {
    let table = Arc::new(extents(&[(0, 2)]));
    let old = table.lookup(block(0)).expect("just inserted").id();
    let owner = spawn(&table, move |table| {
        table.finish(bytes(0, 2), written(bytes(0, 2)), &mut ());
        let removed = table.remove(old, block(0)).is_some();
        let successor = table.insert(extent(0, 2)).expect("the place is free");
        (removed, successor)
    });
    let late = spawn(&table, move |table| {
        let part = bytes(0, 1);
        match variant {
            Variant::Core => table.with(|table| {
                if table.lookup(block(0)).is_some_and(|e| e.id() == old) {
                    table.finish(part, IoOutcome::Skipped, &mut ());
                }
            }),
            Variant::Twin => {
                if table.lookup(block(0)).is_some_and(|e| e.id() == old) {
                    table.finish(part, IoOutcome::Skipped, &mut ());
                }
            }
        }
    });
    let remover = spawn(&table, move |table| {
        let done = table.lookup(block(0)).is_some_and(|e| is_done(&e));
        done && table.remove(old, block(0)).is_some()
    });

    join(late);
    let (by_owner, successor) = join(owner);
    let by_remover = join(remover);
    assert!(by_owner != by_remover, "an extent is removed once");
    let there = table.lookup(block(0)).expect("the successor is there");
    assert_eq!(there.id(), successor);
    assert!(is_untouched(&there), "the successor was finished");
}

fn is_done(extent: &OrderedExtent) -> bool {
    extent.flags().contains(OrderedFlags::IO_DONE)
}

fn is_untouched(extent: &OrderedExtent) -> bool {
    extent.bytes_left() == extent.num_bytes()
}
