//! What becomes of data that cannot be written: policies (C2), closing (C6), errors
//! told once (E1) and by their class (E3), allocation that fails part-way (W14).

mod support;

use extentwise_engine::{
    BioLimits, CloseReason, Config, Effect, ErrorClass, ErrorPolicy, FileOffset, LenBytes, Loss,
    Refusal,
};
use support::{
    BLOCK, CountingMap, FILE, Stage, assert_same, at, config, io_of, pattern, range, writes_of,
};

/// Every bio holds one block, so that an ordered extent takes several.
fn single_block_bios(policy: ErrorPolicy) -> Config {
    let base = config();
    let block = LenBytes::new(BLOCK);
    Config {
        bio_limits: BioLimits::new(Some(block), None, base.block_size).unwrap(),
        policy,
        ..base
    }
}

/// Four blocks in one ordered extent; the write of the third fails.
fn fail_third_of_four(stage: &mut Stage, data: &[u8], mut between: impl FnMut(&mut Stage)) {
    stage.write(0, data);
    stage.engine.write_back_all();
    let sent = stage.take();
    assert_eq!(sent.len(), 4);
    for (nth, effect) in (0..).zip(sent) {
        if nth == 2 {
            stage.answer(effect, Err(ErrorClass::NoSpace));
        } else {
            stage.carry_out(effect);
        }
        between(stage);
    }
    stage.run();
}

#[test]
fn c2_keep_dirty_makes_the_whole_extent_dirty_also_the_pieces_that_were_written() {
    let mut stage = Stage::new(single_block_bios(ErrorPolicy::KeepDirty));
    let data = pattern(4 * BLOCK, 1);
    fail_third_of_four(&mut stage, &data, |stage| {
        // At no instant is a piece of it clean and evictable.
        stage.drop_caches();
        assert_eq!(stage.engine.cached_bytes().get(), 4 * BLOCK);
        assert_eq!(stage.engine.blocks().clean.get(), 0);
    });
    assert_eq!(stage.dirty(), 4 * BLOCK);
    assert_eq!(stage.engine.blocks().failed.get(), 4 * BLOCK);
    assert_eq!(stage.engine.mapping().used(), 0, "nothing is on record");
    stage.seen.clear();
    assert_eq!(stage.sync(), Err(ErrorClass::NoSpace), "told once (E1)");
    assert_eq!(stage.sync(), Ok(()));
    let places: Vec<u64> = stage.writes().iter().map(|(disk, ..)| *disk).collect();
    assert_eq!(
        places,
        [4, 5, 6, 7].map(|block| block * BLOCK),
        "a new extent"
    );
    stage.drop_caches();
    assert_same(&stage.read(0, 4 * BLOCK), &data);
    assert_eq!(stage.lost(), []);
}

#[test]
fn c2_drop_tells_the_whole_extent_as_lost_and_leaves_nothing_dirty() {
    let mut stage = Stage::new(single_block_bios(ErrorPolicy::Drop));
    fail_third_of_four(&mut stage, &pattern(4 * BLOCK, 1), |_| {});
    let lost = (range(0, 4 * BLOCK), Loss::Failed(ErrorClass::NoSpace));
    assert_eq!(stage.lost(), [lost]);
    assert_eq!(stage.dirty(), 0);
    assert_eq!(stage.engine.mapping().promised(), 0);
    assert_eq!(stage.sync(), Err(ErrorClass::NoSpace));
    assert_eq!(stage.sync(), Ok(()));
}

#[test]
fn c2_latch_refuses_every_change_until_the_file_is_opened_again() {
    let mut stage = Stage::new(single_block_bios(ErrorPolicy::Latch));
    let data = pattern(4 * BLOCK, 1);
    fail_third_of_four(&mut stage, &data, |_| {});
    let latched = Refusal::Latched(ErrorClass::NoSpace);
    assert_eq!(stage.try_write(0, b"x"), Err(latched));
    assert_eq!(stage.engine.resize(stage.handle, at(1)), Err(latched));
    let hole = range(0, BLOCK);
    assert_eq!(stage.engine.punch(stage.handle, hole), Err(latched));
    assert_same(&stage.read(0, 4 * BLOCK), &data);

    let old = stage.handle;
    stage.handle = stage.engine.open(FILE, FileOffset::ZERO).unwrap();
    stage.write(0, b"x");
    // Its handle was opened after the error was known, but before anybody was told (E1).
    assert_eq!(stage.sync(), Err(ErrorClass::NoSpace));
    assert_eq!(stage.sync(), Ok(()));
    assert_eq!(stage.dirty(), 0);
    stage.handle = old;
    assert_eq!(stage.try_write(0, b"y"), Err(latched));
}

#[test]
fn e1_every_handle_is_told_once_and_one_opened_later_only_what_nobody_was_told() {
    let mut stage = Stage::new(config());
    let open = |stage: &mut Stage| stage.engine.open(FILE, FileOffset::ZERO).unwrap();
    let second = open(&mut stage);
    stage.write(0, b"x");
    stage.engine.write_back_all();
    stage.run_refusing(ErrorClass::Quota);
    let unseen = open(&mut stage);
    let first = stage.handle;
    for handle in [first, second, unseen] {
        let failed = Err(Refusal::Failed(ErrorClass::Quota));
        assert_eq!(stage.engine.check_errors(handle), failed);
        assert_eq!(stage.engine.check_errors(handle), Ok(()));
    }
    let later = open(&mut stage);
    assert_eq!(stage.engine.check_errors(later), Ok(()));
}

#[test]
fn e3_the_class_that_the_device_answers_is_the_one_that_the_sync_tells() {
    for class in [
        ErrorClass::Io,
        ErrorClass::NoSpace,
        ErrorClass::Quota,
        ErrorClass::ReadOnly,
        ErrorClass::Gone,
    ] {
        let mut stage = Stage::new(config());
        stage.write(0, b"x");
        assert_eq!(stage.sync_refused(class), Err(class));
        stage.handle = stage.engine.open(FILE, FileOffset::ZERO).unwrap();
        assert_eq!(stage.sync(), Ok(()));
    }
}

#[test]
fn e3_a_map_that_cannot_record_an_extent_fails_it() {
    let mut stage = Stage::new(config());
    let data = pattern(BLOCK, 1);
    stage.write(0, &data);
    stage.engine.mapping_mut().not_recorded = Some(ErrorClass::Quota);
    assert_eq!(stage.sync(), Err(ErrorClass::Quota));
    assert_eq!(stage.dirty(), BLOCK);
    assert_eq!(stage.sync(), Ok(()));
    stage.drop_caches();
    assert_same(&stage.read(0, BLOCK), &data);
}

#[test]
fn w14_what_got_a_place_is_written_and_the_rest_stays_promised() {
    let mut stage = Stage::new(config());
    let data = pattern(4 * BLOCK, 1);
    stage.write(0, &data);
    let map = stage.engine.mapping_mut();
    map.extent_blocks_max = 2;
    map.refusal = Some((1, ErrorClass::NoSpace));
    assert_eq!(stage.sync(), Err(ErrorClass::NoSpace));
    assert_eq!(stage.writes(), [(0, 2 * BLOCK, 2 * BLOCK)]);
    assert_eq!(stage.dirty(), 2 * BLOCK);
    let map = stage.engine.mapping_mut();
    assert_eq!((map.used(), map.promised()), (2, 2));
    assert_eq!((map.calls.reserved, map.calls.unreserved), (4, 0));
    map.refusal = None;
    assert_eq!(stage.sync(), Ok(()));
    let map = stage.engine.mapping();
    assert_eq!((map.used(), map.promised()), (4, 0));
    assert_eq!((map.calls.allocated, map.calls.completed), (4, 2));
    stage.drop_caches();
    assert_same(&stage.read(0, 4 * BLOCK), &data);
}

#[test]
fn w14_the_drop_policy_gives_the_promises_of_the_rest_back() {
    let policy = ErrorPolicy::Drop;
    let mut stage = Stage::new(Config { policy, ..config() });
    stage.write(0, &pattern(4 * BLOCK, 1));
    let map = stage.engine.mapping_mut();
    map.extent_blocks_max = 2;
    map.refusal = Some((1, ErrorClass::Quota));
    assert_eq!(stage.sync(), Err(ErrorClass::Quota));
    let lost = (range(2 * BLOCK, 4 * BLOCK), Loss::Failed(ErrorClass::Quota));
    assert_eq!(stage.lost(), [lost]);
    let map = stage.engine.mapping();
    assert_eq!((map.used(), map.promised()), (2, 0));
    assert_eq!(
        map.calls.reserved,
        map.calls.unreserved + map.calls.allocated
    );
}

#[test]
fn w14_a_full_map_refuses_the_writer_and_nothing_leaks() {
    let mut stage = Stage::with(config(), CountingMap::with_blocks(3));
    stage.write(0, &pattern(2 * BLOCK, 1));
    let refused = stage.try_write(2 * BLOCK, &pattern(2 * BLOCK, 2));
    assert_eq!(refused, Err(Refusal::Failed(ErrorClass::NoSpace)));
    let map = stage.engine.mapping();
    assert_eq!((map.promised(), map.free()), (2, 1));
    assert_eq!(stage.size(), 2 * BLOCK);
    stage.write(2 * BLOCK, &pattern(BLOCK, 2));
    // Failed writes give their space back and get it promised again.
    for _ in 0..3 {
        assert_eq!(stage.sync_refused(ErrorClass::Io), Err(ErrorClass::Io));
        let map = stage.engine.mapping();
        assert_eq!((map.used(), map.promised(), map.free()), (0, 3, 0));
    }
    assert_eq!(stage.sync(), Ok(()));
    let map = stage.engine.mapping();
    assert_eq!((map.used(), map.promised(), map.free()), (3, 0, 0));
}

#[test]
fn c6_discarding_tells_every_dirty_range_and_the_size_is_the_recorded_one() {
    let mut stage = Stage::new(config());
    let old = pattern(BLOCK, 1);
    stage.write(0, &old);
    assert_eq!(stage.sync(), Ok(()));
    stage.write(0, b"newer");
    stage.write(3 * BLOCK, b"appended");
    stage.engine.discard(stage.handle).unwrap();
    stage.run();
    let lost = [range(0, BLOCK), range(3 * BLOCK, 4 * BLOCK)];
    assert_eq!(stage.lost(), lost.map(|range| (range, Loss::Discarded)));
    assert_eq!((stage.size(), stage.dirty()), (BLOCK, 0));
    assert_eq!(stage.engine.mapping().promised(), 0);
    assert_same(&stage.read(0, u64::MAX), &old);
    assert_eq!(stage.engine.close(stage.handle), Ok(()));
}

#[test]
fn c6_only_the_last_handle_answers_for_dirty_data() {
    let mut stage = Stage::new(config());
    let second = stage.engine.open(FILE, FileOffset::ZERO).unwrap();
    stage.write(0, b"x");
    assert_eq!(stage.engine.close(second), Ok(()));
    let error = stage.engine.close(stage.handle).unwrap_err();
    assert_eq!(error.handle, stage.handle);
    assert!(matches!(error.reason, CloseReason::Dirty(_)));
    let again = stage.engine.close(second).unwrap_err();
    assert_eq!(again.reason, CloseReason::NotOpen);
    // In writeback it is not dirty, and not safe either.
    stage.engine.write_back_all();
    let error = stage.engine.close(stage.handle).unwrap_err();
    assert_eq!(error.reason, CloseReason::Busy);
    stage.run();
    assert_eq!(stage.engine.close(stage.handle), Ok(()));
    assert_eq!(stage.engine.size(stage.handle), Err(Refusal::NotOpen));
}

#[test]
fn c3_an_effect_that_is_answered_twice_counts_once() {
    let mut stage = Stage::new(config());
    let data = pattern(BLOCK, 1);
    stage.write(0, &data);
    let sync = stage.begin_sync();
    let mut asked = Vec::new();
    loop {
        let effects = stage.take_and_carry_out();
        if effects.is_empty() {
            break;
        }
        // The answer that comes second is the opposite one.
        for io in effects.iter().copied().filter_map(io_of) {
            stage.engine.complete(io, Err(ErrorClass::Io));
        }
        asked.extend(effects);
    }
    assert_eq!(stage.sync_result(sync), Some(Ok(())));
    assert_eq!(writes_of(&asked).len(), 1);
    assert_eq!(stage.engine.check_errors(stage.handle), Ok(()));
    assert_eq!((stage.dirty(), stage.engine.mapping().used()), (0, 1));
    // One that failed first stays failed.
    stage.write(0, &data);
    stage.engine.write_back_all();
    let sent = stage.take();
    let [Effect::Write { io, .. }] = sent[..] else {
        panic!("one write: {sent:?}");
    };
    stage.engine.complete(io, Err(ErrorClass::Io));
    stage.engine.complete(io, Ok(()));
    assert_eq!(stage.dirty(), BLOCK);
    stage.engine.check().unwrap();
}
