//! One suite for every store, and a plain model searched exhaustively.

use super::*;
use crate::geometry::{BlockSize, DiskByte, FileOffset, FileRange, LenBytes};

const B: u64 = 512;

fn blocks(start: u64, end: u64) -> FileRange {
    FileRange::new(FileOffset::new(start * B), FileOffset::new(end * B)).unwrap()
}

fn at(block: u64) -> FileOffset {
    FileOffset::new(block * B)
}

/// An extent of `[start, end)` blocks whose disk blocks begin at `1000 + start`.
fn plain(start: u64, end: u64) -> NewOrdered {
    let disk = DiskByte::new((1000 + start) * B);
    NewOrdered::plain(at(start), LenBytes::new((end - start) * B), disk)
}

const WRITTEN: IoOutcome = IoOutcome::Written {
    valid_end: FileOffset::MAX,
};

/// Notes what it is told, in blocks.
#[derive(Default)]
struct Notes {
    completed: heapless::Vec<OrderedId, 16>,
    doubles: heapless::Vec<(u64, u64), 16>,
}

impl FinishObserver for Notes {
    fn completed(&mut self, extent: &OrderedExtent) {
        self.completed.push(extent.id()).unwrap();
    }
    fn double_finish(&mut self, range: FileRange) {
        let (start, end) = (range.start().get() / B, range.end().get() / B);
        self.doubles.push((start, end)).unwrap();
    }
}

fn table<S: ExtentStore>() -> OrderedTable<S> {
    OrderedTable::new(BlockSize::new(B).unwrap())
}

fn o1_overlap_misalignment_and_overflow_are_refused<S: ExtentStore>() {
    let mut table = table::<S>();
    table.insert(plain(4, 8)).unwrap();
    for (start, end) in [(4, 8), (0, 5), (7, 9), (5, 6), (0, 20)] {
        assert_eq!(
            table.insert(plain(start, end)),
            Err(InsertError::Overlap(blocks(4, 8)))
        );
    }
    let mut odd = plain(0, 1);
    odd.disk_bytenr = DiskByte::new(7);
    let error = OrderedError::Unaligned("disk_bytenr", 7);
    assert_eq!(table.insert(odd), Err(InsertError::Invalid(error)));
    let empty = plain(0, 0);
    assert_eq!(
        table.insert(empty),
        Err(InsertError::Invalid(OrderedError::Empty))
    );
    let mut far = plain(0, 1);
    far.file_offset = FileOffset::new(u64::MAX - B + 1);
    let error = OrderedError::Overflow("file_offset + num_bytes");
    assert_eq!(table.insert(far), Err(InsertError::Invalid(error)));
    let mut far = plain(0, 1);
    far.disk_bytenr = DiskByte::new(u64::MAX - B + 1);
    let error = OrderedError::Overflow("disk_bytenr + disk_num_bytes");
    assert_eq!(table.insert(far), Err(InsertError::Invalid(error)));
    let mut huge = plain(0, 1);
    huge.offset = LenBytes::new(u64::MAX - B + 1);
    let error = OrderedError::Overflow("offset + num_bytes");
    assert_eq!(table.insert(huge), Err(InsertError::Invalid(error)));
    let mut small = plain(0, 2);
    small.disk_num_bytes = LenBytes::new(B);
    let error = OrderedError::DiskTooSmall(LenBytes::new(B));
    assert_eq!(table.insert(small), Err(InsertError::Invalid(error)));
    assert_eq!(table.len(), 1);
    table.insert(plain(0, 4)).unwrap();
    table.insert(plain(8, 9)).unwrap();
    assert_eq!(table.len(), 3);
}

fn lookup_and_first_in_range_agree_with_the_layout<S: ExtentStore>() {
    let mut table = table::<S>();
    assert!(table.is_empty());
    table.insert(plain(6, 8)).unwrap();
    table.insert(plain(2, 4)).unwrap();
    let start = |extent: &OrderedExtent| extent.file_offset().get() / B;
    for block in 0..10 {
        let expected = match block {
            2 | 3 => Some(2),
            6 | 7 => Some(6),
            _ => None,
        };
        assert_eq!(table.lookup(at(block)).map(start), expected);
        assert_eq!(
            table.lookup(FileOffset::new(block * B + B - 1)).map(start),
            expected
        );
    }
    assert_eq!(table.first_in(blocks(0, 2)).map(start), None);
    assert_eq!(table.first_in(blocks(0, 3)).map(start), Some(2));
    assert_eq!(table.first_in(blocks(3, 9)).map(start), Some(2));
    assert_eq!(table.first_in(blocks(4, 9)).map(start), Some(6));
    assert_eq!(table.first_in(blocks(3, 3)).map(start), None);
    assert_eq!(table.iter_in(blocks(3, 7)).count(), 2);
    let disk = table.lookup(at(7)).unwrap().disk_of(at(7));
    assert_eq!(disk, Some(DiskByte::new(1007 * B)));
    assert_eq!(table.lookup(at(7)).unwrap().disk_of(at(8)), None);
}

fn o2_o3_truncation_never_grows_and_skips_holes<S: ExtentStore>() {
    let mut table = table::<S>();
    table.insert(plain(0, 4)).unwrap();
    table.insert(plain(8, 12)).unwrap();
    let done = table.truncate(blocks(2, 20));
    assert_eq!((done.extents, done.hole_bytes.get()), (2, 12 * B));
    table.truncate(blocks(3, 4));
    let kept =
        |table: &OrderedTable<S>, block| table.lookup(at(block)).unwrap().truncated_len().get() / B;
    assert_eq!(kept(&table, 0), 2);
    assert_eq!(kept(&table, 8), 0);
    assert_eq!(table.truncate(blocks(4, 8)).hole_bytes.get(), 4 * B);
    assert_eq!(table.truncate(blocks(2, 2)).extents, 0);
}

fn o4_done_is_handed_out_once_and_a_double_finish_changes_nothing<S: ExtentStore>() {
    let mut table = table::<S>();
    let id = table.insert(plain(0, 4)).unwrap();
    let mut notes = Notes::default();
    table.finish(blocks(0, 2), WRITTEN, &mut notes);
    let again = table.finish(blocks(0, 2), IoOutcome::Failed, &mut notes);
    assert_eq!(again.double_bytes.get(), 2 * B);
    assert_eq!(notes.doubles, [(0, 2)]);
    assert!(notes.completed.is_empty());
    let extent = table.lookup(at(0)).unwrap();
    assert!(!extent.flags().contains(OrderedFlags::IO_ERROR));
    assert_eq!(extent.outcome(), None);
    let last = table.finish(blocks(1, 6), WRITTEN, &mut notes);
    assert_eq!((last.completed, last.hole_bytes.get()), (1, 2 * B));
    assert_eq!(notes.completed, [id]);
    table.finish(blocks(0, 4), WRITTEN, &mut notes);
    assert_eq!(notes.completed, [id]);
    assert_eq!(
        table.remove(id, at(0)).unwrap().bytes_left(),
        LenBytes::ZERO
    );
    assert_eq!(table.remove(id, at(0)), None);
    assert!(table.is_empty());
}

fn o5_outcomes<S: ExtentStore>() {
    let outcome = |kind, result, truncated: Option<FileRange>| {
        let mut table = table::<S>();
        let spec = NewOrdered {
            offset: LenBytes::new(B),
            disk_num_bytes: LenBytes::new(8 * B),
            kind,
            ..plain(2, 6)
        };
        table.insert(spec).unwrap();
        if let Some(range) = truncated {
            table.truncate(range);
        }
        table.finish(blocks(2, 6), result, &mut ());
        table.lookup(at(2)).unwrap().outcome().unwrap()
    };
    let released = Some((DiskByte::new(1002 * B), LenBytes::new(8 * B)));
    let disk = DiskByte::new(1003 * B);
    let file = blocks(2, 6);
    let plain = outcome(OrderedKind::Plain, WRITTEN, None);
    assert_eq!(
        plain,
        Outcome {
            record: Record::Insert { file, disk },
            release: None
        }
    );
    let cut = outcome(OrderedKind::Plain, WRITTEN, Some(blocks(5, 9)));
    let file = blocks(2, 5);
    assert_eq!(
        cut,
        Outcome {
            record: Record::Insert { file, disk },
            release: None
        }
    );
    let converted = outcome(OrderedKind::Prealloc, WRITTEN, Some(blocks(5, 9)));
    assert_eq!(
        converted,
        Outcome {
            record: Record::Convert { file, disk },
            release: None
        }
    );
    let nothing = Outcome {
        record: Record::Nothing,
        release: None,
    };
    assert_eq!(outcome(OrderedKind::Nocow, WRITTEN, None), nothing);
    for kind in [OrderedKind::Nocow, OrderedKind::Prealloc] {
        assert_eq!(outcome(kind, IoOutcome::Failed, None), nothing);
        assert_eq!(
            outcome(kind, IoOutcome::Skipped, Some(blocks(0, 9))),
            nothing
        );
    }
    let gone = Outcome {
        record: Record::Nothing,
        release: released,
    };
    assert_eq!(outcome(OrderedKind::Plain, IoOutcome::Failed, None), gone);
    assert_eq!(
        outcome(OrderedKind::Plain, IoOutcome::Skipped, Some(blocks(0, 9))),
        gone
    );
}

fn o6_a_wait_sees_a_failure_that_left_the_table<S: ExtentStore>() {
    let mut table = table::<S>();
    let id = table.insert(plain(0, 2)).unwrap();
    table.insert(plain(4, 6)).unwrap();
    let since = table.failure_seq();
    let wait = table.begin_wait(blocks(0, 5), since);
    assert_eq!(table.poll_wait(&wait), WaitState::Pending);
    table.finish(blocks(0, 2), IoOutcome::Failed, &mut ());
    table.remove(id, at(0)).unwrap();
    assert_eq!(table.poll_wait(&wait), WaitState::Pending);
    table.finish(blocks(4, 6), WRITTEN, &mut ());
    assert_eq!(table.poll_wait(&wait), WaitState::Failed(blocks(0, 2)));
    let beside = table.begin_wait(blocks(3, 9), since);
    assert_eq!(table.poll_wait(&beside), WaitState::Done);
    let later = table.begin_wait(blocks(0, 5), table.failure_seq());
    assert_eq!(table.poll_wait(&later), WaitState::Done);
}

fn o7_a_split_covers_exactly_or_changes_nothing<S: ExtentStore>() {
    let mut table = table::<S>();
    let spec = NewOrdered {
        offset: LenBytes::new(B),
        disk_num_bytes: LenBytes::new(9 * B),
        ..plain(0, 6)
    };
    table.insert(spec).unwrap();
    table.truncate(blocks(5, 6));
    assert_eq!(table.split(at(0)), Err(SplitError::NoExtent));
    assert_eq!(table.split(at(6)), Err(SplitError::NoExtent));
    let odd = FileOffset::new(B + 1);
    assert_eq!(table.split(odd), Err(SplitError::Unaligned(odd)));
    let (front, back) = table.split(at(2)).unwrap();
    assert_ne!(front, back);
    let (a, b) = (*table.lookup(at(0)).unwrap(), *table.lookup(at(2)).unwrap());
    assert_eq!((a.range(), b.range()), (blocks(0, 2), blocks(2, 6)));
    assert_eq!(b.disk_of(at(2)), Some(DiskByte::new(1003 * B)));
    assert_eq!(
        (a.truncated_len().get(), b.truncated_len().get()),
        (2 * B, 3 * B)
    );
    assert!(!a.flags().contains(OrderedFlags::TRUNCATED));
    assert!(b.flags().contains(OrderedFlags::TRUNCATED));
    // Space on the device is divided, so that a failed part releases its own.
    assert_eq!(
        a.spec().disk_num_bytes.get() + b.spec().disk_num_bytes.get(),
        9 * B
    );
    assert_eq!(
        a.spec().disk_bytenr.get() + 3 * B,
        b.spec().disk_bytenr.get()
    );
    table.finish(blocks(2, 4), IoOutcome::Failed, &mut ());
    assert_eq!(table.split(at(3)), Err(SplitError::Ended));
    assert_eq!(table.len(), 2);
}

fn s4_the_recorded_size_follows_valid_bytes_of_good_extents<S: ExtentStore>() {
    let mut table = table::<S>();
    table.insert(plain(0, 4)).unwrap();
    let valid = |end| IoOutcome::Written {
        valid_end: FileOffset::new(end),
    };
    table.finish(blocks(0, 2), valid(1000), &mut ());
    let (zero, large) = (FileOffset::ZERO, FileOffset::MAX);
    assert_eq!(
        table.lookup(at(0)).unwrap().recorded_size(zero, large),
        zero
    );
    table.finish(blocks(2, 4), valid(1500), &mut ());
    let extent = *table.lookup(at(0)).unwrap();
    assert_eq!(extent.recorded_size(zero, large), FileOffset::new(1500));
    assert_eq!(
        extent.recorded_size(zero, FileOffset::new(700)),
        FileOffset::new(700)
    );
    let before = FileOffset::new(9999);
    assert_eq!(extent.recorded_size(before, large), before);
    table.insert(plain(4, 5)).unwrap();
    table.finish(blocks(4, 5), IoOutcome::Failed, &mut ());
    assert_eq!(
        table.lookup(at(4)).unwrap().recorded_size(zero, large),
        zero
    );
}

macro_rules! suite {
    ($name:ident, $store:ty: $($test:ident)*) => {
        mod $name {
            use super::*;
            $(
                #[test]
                fn $test() {
                    super::$test::<$store>();
                }
            )*
        }
    };
}

suite! { fixed_store, FixedStore<8>:
    o1_overlap_misalignment_and_overflow_are_refused
    lookup_and_first_in_range_agree_with_the_layout
    o2_o3_truncation_never_grows_and_skips_holes
    o4_done_is_handed_out_once_and_a_double_finish_changes_nothing
    o5_outcomes
    o6_a_wait_sees_a_failure_that_left_the_table
    o7_a_split_covers_exactly_or_changes_nothing
    s4_the_recorded_size_follows_valid_bytes_of_good_extents
    every_small_history_agrees_with_the_model
}

#[cfg(feature = "alloc")]
suite! { tree_store, TreeStore:
    o1_overlap_misalignment_and_overflow_are_refused
    lookup_and_first_in_range_agree_with_the_layout
    o2_o3_truncation_never_grows_and_skips_holes
    o4_done_is_handed_out_once_and_a_double_finish_changes_nothing
    o5_outcomes
    o6_a_wait_sees_a_failure_that_left_the_table
    o7_a_split_covers_exactly_or_changes_nothing
    s4_the_recorded_size_follows_valid_bytes_of_good_extents
    every_small_history_agrees_with_the_model
}

#[test]
fn a_full_fixed_store_says_so_and_keeps_what_it_has() {
    let mut table = table::<FixedStore<1>>();
    table.insert(plain(0, 4)).unwrap();
    assert_eq!(table.insert(plain(8, 9)), Err(InsertError::Full));
    assert_eq!(table.split(at(2)), Err(SplitError::Full));
    assert_eq!(table.lookup(at(3)).unwrap().range(), blocks(0, 4));
}

#[test]
fn without_a_finished_map_a_table_counts_and_refuses_to_guess() {
    let mut table = table::<FixedStore<4, NoFinishedMap>>();
    table.insert(plain(0, 4)).unwrap();
    let mut notes = Notes::default();
    table.finish(blocks(0, 1), WRITTEN, &mut notes);
    assert_eq!(table.split(at(2)), Err(SplitError::Unknown));
    table.finish(blocks(1, 4), WRITTEN, &mut notes);
    let over = table.finish(blocks(0, 4), WRITTEN, &mut notes);
    assert_eq!(over.double_bytes.get(), 4 * B);
    assert_eq!(notes.completed.len(), 1);
}

#[test]
fn a_split_may_not_leave_a_finished_half() {
    let mut table = table::<FixedStore<4>>();
    table.insert(plain(0, 4)).unwrap();
    table.finish(blocks(0, 2), WRITTEN, &mut ());
    assert_eq!(table.split(at(2)), Err(SplitError::PartDone));
    table.split(at(3)).unwrap();
    assert_eq!(table.lookup(at(0)).unwrap().bytes_left().get(), B);
    let again = table.finish(blocks(0, 2), WRITTEN, &mut ());
    assert_eq!(again.double_bytes.get(), 2 * B);
}

#[test]
fn a_shared_table_hands_out_what_it_holds() {
    let table = SharedTable::<FixedStore<4>>::new(BlockSize::new(B).unwrap());
    let id = table.insert(plain(0, 2)).unwrap();
    assert_eq!(table.truncate(blocks(1, 2)).extents, 1);
    assert_eq!(table.finish(blocks(0, 2), WRITTEN, &mut ()).completed, 1);
    assert_eq!(table.lookup(at(0)).unwrap().truncated_len().get(), B);
    assert_eq!(table.remove(id, at(0)).unwrap().truncated_len().get(), B);
    assert!(table.into_inner().is_empty());
}

/// An extent of the model: one entry a block, no arithmetic to speak of.
#[derive(Clone, Debug, PartialEq)]
struct Plain {
    start: u64,
    finished: heapless::Vec<bool, 8>,
    kept: u64,
    truncated: bool,
    failed: bool,
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Truncate(u64, u64),
    Finish(u64, u64, bool),
    Split(u64),
}

const SPAN: u64 = 4;

fn spans() -> impl Iterator<Item = (u64, u64)> + Clone {
    (0..SPAN).flat_map(|a| (a + 1..=SPAN).map(move |b| (a, b)))
}

fn ops() -> impl Iterator<Item = Op> + Clone {
    let ranged = spans().flat_map(|(a, b)| {
        [
            Op::Truncate(a, b),
            Op::Finish(a, b, true),
            Op::Finish(a, b, false),
        ]
    });
    ranged.chain((0..SPAN).map(Op::Split))
}

impl Plain {
    fn done(&self) -> bool {
        self.finished.iter().all(|done| *done)
    }

    fn blocks(&self) -> core::ops::Range<u64> {
        self.start..self.start + self.finished.len() as u64
    }
}

/// Applies an operation to the model; answers (completed, double-finished blocks).
fn apply(model: &mut heapless::Vec<Plain, 8>, op: Op) -> (usize, u64) {
    let (mut completed, mut doubles) = (0, 0);
    match op {
        Op::Truncate(a, b) => {
            for extent in model.iter_mut() {
                if let Some(first) = extent.blocks().find(|block| (a..b).contains(block)) {
                    extent.kept = extent.kept.min(first - extent.start);
                    extent.truncated = true;
                }
            }
        }
        Op::Finish(a, b, good) => {
            for extent in model.iter_mut() {
                let was_done = extent.done();
                for block in extent.blocks().filter(|block| (a..b).contains(block)) {
                    let slot = &mut extent.finished[usize::try_from(block - extent.start).unwrap()];
                    doubles += u64::from(*slot);
                    extent.failed |= !good && !*slot;
                    *slot = true;
                }
                completed += usize::from(!was_done && extent.done());
            }
        }
        Op::Split(block) => {
            let Some(index) = model
                .iter()
                .position(|e| e.blocks().contains(&block) && e.start < block)
            else {
                return (0, 0);
            };
            let whole = model[index].clone();
            let cut = usize::try_from(block - whole.start).unwrap();
            let part = |start, finished: &[bool], kept: u64| Plain {
                start,
                finished: heapless::Vec::from_slice(finished).unwrap(),
                kept,
                truncated: kept < finished.len() as u64,
                failed: whole.failed,
            };
            let (front, back) = whole.finished.split_at(cut);
            let any = whole.finished.iter().any(|done| *done);
            let part_done = front.iter().all(|d| *d) || back.iter().all(|d| *d);
            if whole.failed || whole.done() || (any && part_done) {
                return (0, 0);
            }
            model[index] = part(whole.start, front, whole.kept.min(cut as u64));
            let kept = whole.kept.saturating_sub(cut as u64);
            model.insert(index + 1, part(block, back, kept)).unwrap();
        }
    }
    (completed, doubles)
}

fn apply_real<S: ExtentStore>(table: &mut OrderedTable<S>, op: Op) -> (usize, u64) {
    match op {
        Op::Truncate(a, b) => {
            table.truncate(blocks(a, b));
            (0, 0)
        }
        Op::Finish(a, b, good) => {
            let mut notes = Notes::default();
            let outcome = if good { WRITTEN } else { IoOutcome::Failed };
            let done = table.finish(blocks(a, b), outcome, &mut notes);
            let doubles = notes
                .doubles
                .iter()
                .map(|(start, end)| end - start)
                .sum::<u64>();
            assert_eq!(done.double_bytes.get(), doubles * B);
            assert_eq!(done.completed, notes.completed.len());
            (done.completed, doubles)
        }
        Op::Split(block) => {
            let before = table.len();
            let split = table.split(at(block));
            assert_eq!(table.len(), before + usize::from(split.is_ok()));
            (0, 0)
        }
    }
}

fn assert_same<S: ExtentStore>(table: &OrderedTable<S>, model: &[Plain]) {
    assert_eq!(table.len(), model.len());
    for (extent, plain) in table.iter_in(blocks(0, SPAN)).zip(model) {
        let range = plain.blocks();
        assert_eq!(extent.range(), blocks(range.start, range.end));
        let left = plain.finished.iter().filter(|done| !**done).count() as u64;
        assert_eq!(extent.bytes_left().get(), left * B);
        assert_eq!(extent.truncated_len().get(), plain.kept * B);
        let flags = extent.flags();
        assert_eq!(flags.contains(OrderedFlags::IO_DONE), plain.done());
        assert_eq!(flags.contains(OrderedFlags::IO_ERROR), plain.failed);
        assert_eq!(flags.contains(OrderedFlags::TRUNCATED), plain.truncated);
        let disk = DiskByte::new((1000 + range.start) * B);
        assert_eq!(extent.disk_of(at(range.start)), Some(disk));
    }
}

/// All placements of one or two extents in four blocks, all histories of three
/// operations.
fn every_small_history_agrees_with_the_model<S: ExtentStore>() {
    let singles = spans().map(|first| (first, None));
    let pairs = spans()
        .flat_map(|first| spans().map(move |second| (first, Some(second))))
        .filter(|(first, second)| second.is_some_and(|s| first.1 <= s.0));
    for (first, second) in singles.chain(pairs) {
        let mut model = heapless::Vec::<Plain, 8>::new();
        for (start, end) in [Some(first), second].into_iter().flatten() {
            let len = usize::try_from(end - start).unwrap();
            let finished = core::iter::repeat_n(false, len).collect();
            let plain = Plain {
                start,
                finished,
                kept: end - start,
                truncated: false,
                failed: false,
            };
            model.push(plain).unwrap();
        }
        for one in ops() {
            for two in ops() {
                for three in ops() {
                    let mut table = table::<S>();
                    let mut model = model.clone();
                    for (start, end) in [Some(first), second].into_iter().flatten() {
                        table.insert(plain(start, end)).unwrap();
                    }
                    for op in [one, two, three] {
                        let real = apply_real(&mut table, op);
                        assert_eq!(real, apply(&mut model, op), "{one:?} {two:?} {three:?}");
                        assert_same(&table, &model);
                    }
                }
            }
        }
    }
}
