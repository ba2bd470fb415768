//! What a sync that succeeded has promised, where several are under way and the
//! file grows meanwhile. Each was found by a simulated schedule.

mod support;

use extentwise_engine::{Effect, Engine, ErrorClass, HeapMemory, Identity, LenBytes};

use support::{BLOCK, FILE, Stage, assert_same, at, config, config_of_folios, pattern};

fn flushes(effects: &[Effect]) -> usize {
    let flushes = effects
        .iter()
        .filter(|effect| matches!(effect, Effect::Flush { .. }));
    flushes.count()
}

fn told_size(stage: &Stage) -> Option<u64> {
    stage.engine.mapping().size.get(&FILE).copied()
}

#[test]
fn a_sync_does_not_lean_on_a_flush_that_is_still_under_way() {
    let mut stage = Stage::new(config());
    stage.write(0, &pattern(BLOCK, 1));
    let first = stage.begin_sync();
    let writes = stage.take();
    stage.carry_out_all(&writes);
    let flush = stage.take();
    assert_eq!(flushes(&flush), 1);
    let second = stage.begin_sync();
    assert_eq!(flushes(&stage.take()), 1, "the first one may fail");
    stage.answer(flush[0], Err(ErrorClass::Io));
    assert_eq!(stage.sync_result(second), None);
    stage.take();
    assert_eq!(stage.sync_result(first), Some(Err(ErrorClass::Io)));
}

#[test]
fn what_is_answered_after_a_flush_began_is_flushed_again() {
    let mut stage = Stage::new(config());
    stage.write(0, &pattern(BLOCK, 1));
    let first = stage.begin_sync();
    let writes = stage.take();
    stage.carry_out_all(&writes);
    let flush = stage.take();
    stage.write(BLOCK, &pattern(BLOCK, 2));
    stage.engine.write_back_all();
    let later = stage.take();
    stage.carry_out_all(&later);
    stage.carry_out_all(&flush);
    stage.run();
    assert_eq!(stage.sync_result(first), Some(Ok(())));
    stage.begin_sync();
    assert_eq!(flushes(&stage.take()), 1);
}

#[test]
fn the_map_learns_of_a_size_that_was_held_back() {
    let mut stage = Stage::new(config());
    stage.write(0, &pattern(100, 1));
    stage.engine.resize(stage.handle, at(3 * BLOCK)).unwrap();
    stage.write(5 * BLOCK, &pattern(BLOCK, 2));
    assert_eq!(stage.sync(), Ok(()));
    assert_eq!(stage.recorded(), 6 * BLOCK);
    assert_eq!(told_size(&stage), Some(6 * BLOCK));
}

#[test]
fn growth_during_a_sync_does_not_hold_back_the_size_that_it_promised() {
    let mut stage = Stage::new(config_of_folios(BLOCK));
    stage.write(0, &pattern(BLOCK + 100, 1));
    let sync = stage.begin_sync();
    let writes = stage.take();
    // The old last block is dirty again, and no part of the sync.
    stage.engine.resize(stage.handle, at(4 * BLOCK)).unwrap();
    stage.carry_out_all(&writes);
    while stage.sync_result(sync).is_none() {
        let next = stage.take();
        stage.carry_out_all(&next);
    }
    assert_eq!(stage.sync_result(sync), Some(Ok(())));
    assert!(told_size(&stage).is_some_and(|size| size > BLOCK + 99));
}

#[test]
fn a_sync_does_not_record_a_size_that_was_cut_off_and_grown_over_meanwhile() {
    let mut stage = Stage::new(config_of_folios(BLOCK));
    stage.write(0, &pattern(4 * BLOCK, 1));
    let sync = stage.begin_sync();
    let writes = stage.take();
    stage.carry_out_all(&writes);
    stage.engine.resize(stage.handle, at(BLOCK)).unwrap();
    stage.write(BLOCK, &pattern(4 * BLOCK, 2));
    while stage.sync_result(sync).is_none() {
        let next = stage.take();
        stage.carry_out_all(&next);
    }
    assert_eq!(
        told_size(&stage),
        Some(BLOCK),
        "the new bytes are not written"
    );
}

#[test]
fn a_hole_below_what_is_being_written_is_durable_when_a_sync_of_it_ends() {
    let mut map = Identity::new();
    map.add(FILE, at(4 * BLOCK));
    let mut engine = Engine::new(config_of_folios(BLOCK), HeapMemory, map).unwrap();
    let handle = engine.open(FILE, at(4 * BLOCK)).unwrap();
    let hole = support::range(0, BLOCK);
    engine.punch(handle, hole).unwrap();
    engine.sync(handle).unwrap();
    let Some(Effect::Persist { io: persist, .. }) = engine.next_effect() else {
        panic!("nothing is dirty");
    };
    let ticket = engine.prepare_write(handle, hole).unwrap();
    engine.commit_write(ticket, LenBytes::new(BLOCK)).unwrap();
    engine.write_back_all();
    let effects: Vec<Effect> = std::iter::from_fn(|| engine.next_effect()).collect();
    let [Effect::Write { io: write, .. }] = effects[..] else {
        panic!("{effects:?}");
    };
    let pending = engine.mapping_mut().take_pending(FILE).unwrap();
    assert_eq!(pending.punch, []);
    engine.complete(persist, Ok(()));
    assert_eq!(
        engine.next_effect(),
        None,
        "the old bytes may still be there"
    );
    engine.complete(write, Ok(()));
    let effects: Vec<Effect> = std::iter::from_fn(|| engine.next_effect()).collect();
    let [Effect::Flush { io: flush, .. }] = effects[..] else {
        panic!("{effects:?}");
    };
    engine.complete(flush, Ok(()));
    let Some(Effect::Persist { io: persist, .. }) = engine.next_effect() else {
        panic!("the map is persisted once more");
    };
    engine.complete(persist, Ok(()));
    assert!(matches!(
        engine.next_effect(),
        Some(Effect::SyncEnded { result: Ok(()), .. })
    ));
}

/// Each block that a growth left behind with old bytes holds the size back, not
/// the first alone.
#[test]
fn a_size_waits_for_every_old_last_block_and_not_for_the_first_alone() {
    let mut stage = Stage::new(config_of_folios(BLOCK));
    let write_back = |stage: &mut Stage| {
        stage.engine.write_back_all();
        stage.run();
    };
    stage.write(0, &pattern(2 * BLOCK, 1));
    assert_eq!(stage.sync(), Ok(()));
    stage.engine.resize(stage.handle, at(100)).unwrap();
    stage.write(3 * BLOCK, &pattern(BLOCK, 2));
    let first = stage.prepare(0, 1).unwrap();
    write_back(&mut stage);
    assert_eq!(stage.recorded(), 100);
    let cut = 3 * BLOCK + 100;
    stage.engine.resize(stage.handle, at(cut)).unwrap();
    stage.write(5 * BLOCK, &pattern(BLOCK, 3));
    let second = stage.prepare(3 * BLOCK, 1).unwrap();
    write_back(&mut stage);
    drop(first);
    write_back(&mut stage);
    assert_eq!(
        stage.recorded(),
        3 * BLOCK,
        "the device holds what was cut off"
    );
    drop(second);
    write_back(&mut stage);
    assert_eq!(stage.recorded(), 6 * BLOCK);
}

/// The file grew again, and data behind its new old end is on the device before
/// the map is made durable: no shorter length hides what was cut off.
#[test]
fn what_was_cut_off_within_a_block_is_gone_when_a_sync_behind_it_ends() {
    let mut map = Identity::new();
    map.add(FILE, at(BLOCK));
    let mut engine = Engine::new(config_of_folios(BLOCK), HeapMemory, map).unwrap();
    let handle = engine.open(FILE, at(BLOCK)).unwrap();
    engine.resize(handle, at(100)).unwrap();
    engine.sync(handle).unwrap();
    let Some(Effect::Persist { .. }) = engine.next_effect() else {
        panic!("nothing is dirty");
    };
    let behind = support::range(2 * BLOCK, 3 * BLOCK);
    assert!(engine.prepare_write(handle, behind).is_err());
    let Some(Effect::Read { io, .. }) = engine.next_effect() else {
        panic!("the old last block is read");
    };
    engine.complete(io, Ok(()));
    let ticket = engine.prepare_write(handle, behind).unwrap();
    engine.commit_write(ticket, LenBytes::new(BLOCK)).unwrap();
    // The old last block cannot be written while somebody holds it.
    let holder = engine.prepare_write(handle, support::range(0, 1)).unwrap();
    engine.write_back_all();
    let effects: Vec<Effect> = std::iter::from_fn(|| engine.next_effect()).collect();
    let written = effects.iter().find_map(|effect| match effect {
        Effect::Write { io, disk, .. } => Some((*io, disk.get())),
        _ => None,
    });
    let (io, disk) = written.expect("a write");
    assert_eq!(disk, 2 * BLOCK);
    engine.complete(io, Ok(()));
    let pending = engine.mapping_mut().take_pending(FILE).unwrap();
    assert_eq!(pending.size, at(3 * BLOCK));
    assert_eq!(pending.punch, [support::range(100, BLOCK)]);
    drop(holder);
}

#[test]
fn a_copy_past_the_end_that_does_not_stand_is_not_seen_when_the_file_grows_over_it() {
    let mut stage = Stage::new(config_of_folios(BLOCK));
    stage.write(0, &pattern(100, 1));
    // Its gap reads as zero from now on.
    let beyond = stage.prepare(3 * BLOCK, 10).unwrap();
    let short = stage.prepare(50, 200).unwrap();
    stage.copy(&short, &[7; 200]);
    drop(short);
    stage.copy(&beyond, &[9; 10]);
    let stands = stage.engine.commit_write(beyond, LenBytes::new(10));
    assert_eq!(stands, Ok(LenBytes::new(10)));
    assert_eq!(stage.read(100, 150), vec![0; 150]);
}

#[test]
fn a_writer_does_not_wait_for_what_lies_past_the_end_and_needs_no_io() {
    let limited = config_of_folios(BLOCK).with_dirty_bytes(LenBytes::new(2 * BLOCK));
    let mut stage = Stage::new(limited);
    for block in 1..3 {
        // Given up: zeros, dirty, past the end (V16).
        drop(stage.prepare(block * BLOCK, 10).unwrap());
    }
    assert!(
        stage
            .engine
            .prepare_write(stage.handle, support::range(0, 10))
            .is_ok()
    );
}

#[test]
fn what_was_written_behind_the_size_that_a_discard_leaves_is_not_seen_again() {
    let mut stage = Stage::new(config_of_folios(BLOCK));
    stage.write(0, &pattern(100, 1));
    // The old last block holds the size back.
    stage.write(2 * BLOCK, &pattern(BLOCK, 2));
    stage.engine.write_back_all();
    let writes = stage.take();
    assert_eq!(writes.len(), 2);
    stage.answer(writes[0], Err(ErrorClass::Io));
    stage.carry_out(writes[1]);
    assert_eq!(stage.recorded(), 0);
    stage.engine.discard(stage.handle).unwrap();
    assert_eq!(stage.size(), 0);
    stage.engine.resize(stage.handle, at(3 * BLOCK)).unwrap();
    stage.drop_caches();
    assert_same(
        &stage.read(0, 3 * BLOCK),
        &vec![0; support::index(3 * BLOCK)],
    );
}
