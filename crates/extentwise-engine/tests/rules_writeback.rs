//! Writeback and syncs: what a completion cleans (C3), what a sync covers (C4), how
//! dirty memory is bounded (C5), what comes before what (C8), what is counted (C10).

mod support;

use extentwise_engine::{
    Config, Effect, ErrorClass, FileId, FileOffset, LenBytes, Refusal, WriteCache,
};
use support::{
    BLOCK, Cache, KIB, Stage, assert_same, config, config_of_folios, index, pattern, range,
    writes_of,
};

fn is_write(effect: &Effect) -> bool {
    matches!(effect, Effect::Write { .. })
}

#[test]
fn c3_a_block_has_one_write_under_way_and_only_the_newest_cleans_it() {
    let mut stage = Stage::new(config());
    for round in 0..4 {
        let older = pattern(BLOCK, round);
        let newer = pattern(BLOCK, round + 100);
        stage.write(0, &older);
        stage.engine.write_back_all();
        let sent = stage.take();
        assert_eq!(writes_of(&sent).len(), 1);
        stage.write(0, &newer);
        stage.engine.write_back_all();
        assert_eq!(writes_of(&stage.take()), [], "the first is under way");
        stage.carry_out_all(&sent);
        assert_eq!(stage.dirty(), BLOCK, "the newer bytes may not be there");
        stage.engine.write_back_all();
        assert_eq!(writes_of(&stage.take_and_carry_out()).len(), 1);
        assert_eq!(stage.dirty(), 0);
        stage.drop_caches();
        assert_same(&stage.read(0, BLOCK), &newer);
    }
}

#[test]
fn c4_a_sync_ends_although_a_writer_goes_on_and_on() {
    let mut stage = Stage::new(config_of_folios(BLOCK));
    stage.write(0, &pattern(4 * BLOCK, 1));
    let sync = stage.begin_sync();
    let mut rounds = 0;
    while stage.sync_result(sync).is_none() {
        stage.write(rounds % 8 * BLOCK, &pattern(BLOCK, 2));
        stage.take_and_carry_out();
        rounds += 1;
        assert!(rounds < 16, "the sync chases the writer");
    }
    assert_eq!(stage.sync_result(sync), Some(Ok(())));
    assert!(stage.dirty() > 0, "later writes are not covered");
}

#[test]
fn c4_a_sync_covers_a_block_that_was_dirty_and_in_writeback_when_it_began() {
    let mut stage = Stage::new(config());
    stage.write(0, &pattern(BLOCK, 1));
    stage.engine.write_back_all();
    let older = stage.take();
    let newer = pattern(BLOCK, 2);
    stage.write(0, &newer);
    let sync = stage.begin_sync();
    stage.carry_out_all(&older);
    stage.run();
    assert_eq!(stage.sync_result(sync), Some(Ok(())));
    assert_eq!(stage.dirty(), 0);
    assert_eq!(stage.writes().len(), 2);
}

#[test]
fn c4_a_sync_waits_for_the_writer_that_held_a_dirty_folio() {
    let mut stage = Stage::new(config());
    stage.write(0, &pattern(BLOCK, 1));
    let ticket = stage.prepare(10, 20).unwrap();
    let sync = stage.begin_sync();
    stage.run();
    assert_eq!(stage.sync_result(sync), None);
    stage.copy(&ticket, &[9; 20]);
    let len = ticket.range().len();
    stage.engine.commit_write(ticket, len).unwrap();
    stage.run();
    assert_eq!(stage.sync_result(sync), Some(Ok(())));
    assert_eq!(stage.disk[10..30], [9; 20]);
}

#[test]
fn c4_a_sync_of_a_range_leaves_other_folios_dirty() {
    let mut stage = Stage::new(config_of_folios(BLOCK));
    stage.write(0, &pattern(4 * BLOCK, 1));
    let asked = range(BLOCK + 5, BLOCK + 6);
    let sync = stage.engine.sync_range(stage.handle, asked).unwrap();
    stage.run();
    assert_eq!(stage.sync_result(sync), Some(Ok(())));
    let dirty = stage.engine.dirty_ranges(stage.handle).unwrap();
    assert_eq!(dirty, [range(0, BLOCK), range(2 * BLOCK, 4 * BLOCK)]);
}

#[test]
fn c5_writeback_begins_by_itself_at_the_background_limit() {
    let limit = LenBytes::new(16 * BLOCK);
    let mut stage = Stage::new(config_of_folios(BLOCK).with_dirty_bytes(limit));
    let background = stage.engine.config().dirty_bytes_background.get();
    let mut written = 0;
    while written < background {
        stage.write(written, &pattern(BLOCK, 1));
        written += BLOCK;
    }
    assert_eq!(stage.take(), []);
    stage.write(written, &pattern(BLOCK, 1));
    assert!(stage.take().iter().any(is_write));
}

/// Extents of four blocks; writeback begins behind eight dirty ones.
fn config_of_short_extents() -> Config {
    Config {
        extent_bytes_max: LenBytes::new(4 * BLOCK),
        dirty_bytes_background: LenBytes::new(8 * BLOCK),
        ..config_of_folios(BLOCK)
    }
}

#[test]
fn a_background_round_leaves_the_extent_that_is_not_full_yet() {
    let mut stage = Stage::new(config_of_short_extents());
    for block in 0..9 {
        stage.write(block * BLOCK, &pattern(BLOCK, 1));
    }
    stage.run();
    let dirty = stage.engine.dirty_ranges(stage.handle).unwrap();
    assert_eq!(dirty, [range(8 * BLOCK, 9 * BLOCK)]);
}

#[test]
fn c5_a_background_round_leaves_nothing_where_other_files_are_dirty() {
    let mut stage = Stage::new(config_of_short_extents());
    let first = stage.handle;
    stage.write(0, &pattern(7 * BLOCK, 1));
    stage.handle = stage.engine.open(FileId(2), FileOffset::ZERO).unwrap();
    stage.write(0, &pattern(2 * BLOCK, 2));
    stage.run();
    assert_eq!(stage.engine.dirty_ranges(first), Ok(vec![]));
}

#[test]
fn c5_data_that_has_been_dirty_for_too_long_is_written_without_being_asked_for() {
    let mut stage = Stage::new(config());
    stage.engine.tick(1000);
    stage.write(0, b"x");
    let age = stage.engine.config().dirty_age_max_nanos;
    stage.engine.tick(1000 + age - 1);
    assert_eq!(stage.take(), []);
    stage.engine.tick(1000 + age);
    assert!(stage.take().iter().any(is_write));
}

/// Sixteen blocks may be dirty, four of a file.
fn config_of_small_shares() -> Config {
    Config {
        dirty_bytes_max: LenBytes::new(16 * BLOCK),
        dirty_bytes_background: LenBytes::new(16 * BLOCK),
        file_dirty_bytes_max: LenBytes::new(4 * BLOCK),
        ..config_of_folios(BLOCK)
    }
}

#[test]
fn c5_a_file_at_its_own_limit_leaves_room_for_the_others() {
    let mut stage = Stage::new(config_of_small_shares());
    let other = stage.engine.open(FileId(2), FileOffset::ZERO).unwrap();
    stage.write(0, &pattern(4 * BLOCK, 1));
    let refused = stage.try_write(4 * BLOCK, b"x");
    assert_eq!(refused, Err(Refusal::Busy));
    let first = std::mem::replace(&mut stage.handle, other);
    stage.write(0, &pattern(4 * BLOCK, 2));
    stage.handle = first;
    stage.run();
    assert!(stage.seen.contains(&Effect::Wake));
    stage.write(4 * BLOCK, b"x");
}

#[test]
fn c5_a_punch_that_would_make_a_block_dirty_past_the_limit_waits() {
    let mut stage = Stage::new(config_of_small_shares());
    stage.write(0, &pattern(4 * BLOCK, 1));
    assert_eq!(stage.sync(), Ok(()));
    stage.write(4 * BLOCK, &pattern(4 * BLOCK, 2));
    let edge = range(BLOCK + 1, BLOCK + 9);
    let punched = stage.engine.punch(stage.handle, edge);
    assert_eq!(punched, Err(Refusal::Busy));
    stage.run();
    assert!(stage.seen.contains(&Effect::Wake));
    assert_eq!(stage.engine.punch(stage.handle, edge), Ok(()));
}

/// Room for the zeros at the edge of a hole is made by writing back what is
/// dirty, and that is the hole itself: its old bytes are on their way.
#[test]
fn c5_a_punch_does_not_go_on_when_making_room_began_to_write_the_hole() {
    let mut stage = Stage::new(config_of_small_shares());
    stage.write(0, &pattern(4 * BLOCK, 1));
    assert_eq!(stage.sync(), Ok(()));
    // An append that is given up: one dirty block that needs no I/O to be clean.
    drop(stage.prepare(6 * BLOCK, 10).unwrap());
    stage.write(BLOCK, &pattern(3 * BLOCK, 2));
    let hole = range(BLOCK / 2, 3 * BLOCK);
    assert_eq!(stage.engine.punch(stage.handle, hole), Err(Refusal::Busy));
    stage.run();
    assert_eq!(stage.engine.punch(stage.handle, hole), Ok(()));
    assert_eq!(stage.sync(), Ok(()));
    stage.drop_caches();
    let len = 3 * BLOCK - BLOCK / 2;
    let left = stage.read(BLOCK / 2, len);
    assert_same(&left, &vec![0; index(len)]);
}

#[test]
fn c5_no_write_takes_dirty_memory_past_the_hard_limit() {
    let limit = 4 * BLOCK;
    let mut stage = Stage::new(config().with_dirty_bytes(LenBytes::new(limit)));
    let data = pattern(64 * BLOCK, 1);
    let mut done = 0;
    while done < data.len() {
        let left = (data.len() - done) as u64;
        let start = done as u64;
        match stage
            .engine
            .prepare_write(stage.handle, range(start, start + left))
        {
            Ok(ticket) => {
                let len = ticket.range().len();
                stage.copy(&ticket, &data[done..done + index(len.get())]);
                assert_eq!(stage.engine.commit_write(ticket, len), Ok(len));
                done += index(len.get());
            }
            Err(refusal) => {
                assert_eq!(refusal, Refusal::Busy);
                assert!(
                    !stage.take_and_carry_out().is_empty(),
                    "nothing to wait for"
                );
            }
        }
        assert!(stage.dirty() <= limit, "{} are dirty", stage.dirty());
    }
    assert_eq!(stage.sync(), Ok(()));
    stage.drop_caches();
    assert_same(&stage.read(0, u64::MAX), &data);
}

#[test]
fn c5_eviction_takes_clean_folios_and_leaves_dirty_ones_and_those_in_writeback() {
    let cache = LenBytes::new(16 * BLOCK);
    let config = config_of_folios(BLOCK).with_cache_bytes(cache);
    let mut stage = Stage::new(config);
    let data = pattern(4 * BLOCK, 1);
    stage.write(0, &data);
    stage.engine.write_back_all();
    let sent = stage.take();
    stage.write(0, &data[..index(BLOCK)]);
    stage
        .engine
        .resize(stage.handle, extentwise_engine::FileOffset::new(1 << 20))
        .unwrap();
    for nth in 16..200 {
        assert_same(&stage.read(nth * BLOCK, BLOCK), &[0; 4096]);
        assert!(stage.engine.cached_bytes() <= cache);
    }
    assert!(stage.engine.counts().evictions > 100);
    assert_eq!(stage.dirty(), BLOCK);
    let blocks = stage.engine.blocks();
    assert_eq!(blocks.writeback.get(), 4 * BLOCK);
    stage.carry_out_all(&sent);
    assert_eq!(stage.sync(), Ok(()));
    assert_same(&stage.read(0, 4 * BLOCK), &data);
}

/// The effects of a sync that are answered, in order, by their first letter.
fn order(config: Config) -> String {
    let mut stage = Stage::new(config);
    stage.write(0, &pattern(3 * BLOCK, 1));
    stage.write(8 * BLOCK, &pattern(BLOCK, 1));
    let _ = stage.begin_sync();
    let mut order = String::new();
    loop {
        let effects = stage.take();
        if effects.is_empty() {
            return order;
        }
        for effect in effects {
            order.push(match effect {
                Effect::Write { .. } => 'w',
                Effect::Flush { .. } => 'f',
                Effect::Persist { .. } => 'p',
                Effect::SyncEnded { .. } => 'e',
                _ => '?',
            });
            // One at a time: what waits for it must not have been asked for.
            stage.carry_out(effect);
        }
        order.push(' ');
    }
}

#[test]
fn c8_data_completes_then_a_flush_then_the_map_each_after_the_other_is_answered() {
    assert_eq!(order(config()), "ww f p e ");
    let write_cache = WriteCache::WriteThrough;
    assert_eq!(
        order(Config {
            write_cache,
            ..config()
        }),
        "ww p e "
    );
}

#[test]
fn c8_a_flush_that_fails_keeps_the_map_from_being_made_durable() {
    let mut stage = Stage::new(config());
    stage.write(0, b"x");
    let refuse = |stage: &mut Stage, wanted: fn(&Effect) -> bool| {
        let sync = stage.begin_sync();
        loop {
            for effect in stage.take() {
                if wanted(&effect) {
                    stage.answer(effect, Err(ErrorClass::Gone));
                } else {
                    stage.carry_out(effect);
                }
            }
            if let Some(result) = stage.sync_result(sync) {
                return result;
            }
        }
    };
    let flush = |effect: &Effect| matches!(effect, Effect::Flush { .. });
    let persist = |effect: &Effect| matches!(effect, Effect::Persist { .. });
    assert_eq!(refuse(&mut stage, flush), Err(ErrorClass::Gone));
    assert!(!stage.seen.iter().any(persist));
    // The next sync flushes again although nothing is dirty.
    stage.seen.clear();
    assert_eq!(refuse(&mut stage, persist), Err(ErrorClass::Gone));
    assert!(stage.seen.iter().any(flush));
    assert_eq!(stage.sync(), Ok(()));
}

fn kib(engine: &Cache) -> [u64; 4] {
    let blocks = engine.blocks();
    assert_eq!(blocks.total(), engine.cached_bytes());
    [blocks.clean, blocks.dirty, blocks.writeback, blocks.failed].map(|len| len.get() / KIB)
}

#[test]
fn c10_every_block_is_counted_once_and_the_sum_is_the_capacity_in_use() {
    let mut stage = Stage::new(config_of_folios(BLOCK));
    assert_eq!(kib(&stage.engine), [0, 0, 0, 0]);
    stage.write(0, &pattern(4 * BLOCK, 1));
    assert_eq!(kib(&stage.engine), [0, 16, 0, 0]);
    stage.engine.write_back_all();
    let sent = stage.take();
    assert_eq!(kib(&stage.engine), [0, 0, 16, 0]);
    // Dirty again in writeback: counted as in writeback.
    stage.write(0, b"x");
    assert_eq!(kib(&stage.engine), [0, 0, 16, 0]);
    stage.engine.tick(5000);
    stage.carry_out_all(&sent);
    assert_eq!(kib(&stage.engine), [12, 4, 0, 0]);
    stage.engine.write_back_all();
    stage.run_refusing(ErrorClass::Io);
    assert_eq!(kib(&stage.engine), [12, 0, 0, 4]);
    stage.drop_caches();
    assert_eq!(kib(&stage.engine), [0, 0, 0, 4]);

    let counts = stage.engine.counts();
    assert_eq!((counts.bios, counts.bio_bytes), (2, 5 * BLOCK));
    assert_eq!(counts.ordered_extents, 2);
    let times: Vec<_> = counts.writeback.rows().collect();
    assert_eq!(times, [(1, 1), (4096, 1)], "0 and 5000 nanoseconds");
    assert_eq!(stage.engine.mapping().calls.completed, 2);
}
