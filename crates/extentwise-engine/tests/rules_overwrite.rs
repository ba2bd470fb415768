//! Cached bytes that are lent to a writer: what is lent, who waits meanwhile,
//! and what is dirty afterwards (C3, C4, C5).

mod support;

use extentwise_engine::{Config, ErrorClass, ErrorPolicy, LenBytes, OverwriteTicket, Refusal};
use support::{BLOCK, Stage, at, config_of_folios, index, pattern, range};

/// A file of `blocks` blocks that are cached and clean.
fn cached(config: Config, blocks: u64) -> Stage {
    let mut stage = Stage::new(config);
    stage.write(0, &pattern(blocks * BLOCK, 1));
    assert_eq!(stage.sync(), Ok(()));
    assert_eq!(stage.dirty(), 0);
    stage
}

fn lend(stage: &mut Stage, place: u64) -> Option<OverwriteTicket> {
    let everything = range(0, u64::MAX);
    let ticket = stage
        .engine
        .prepare_overwrite(stage.handle, at(place), everything);
    stage.engine.check().unwrap();
    ticket
}

fn put(stage: &mut Stage, ticket: &OverwriteTicket, start: u64, bytes: &[u8]) {
    let first = ticket.range().start().get();
    let (memory, place) = stage.engine.overwrite_target(ticket).unwrap();
    let from = place.start + index(start - first);
    memory[from..from + bytes.len()].copy_from_slice(bytes);
}

#[test]
fn what_was_written_to_lent_bytes_is_seen_at_once_and_dirty_when_they_come_back() {
    let mut stage = cached(config_of_folios(16 * BLOCK), 16);
    let ticket = lend(&mut stage, 5 * BLOCK).unwrap();
    assert_eq!(ticket.range(), range(0, 16 * BLOCK));
    put(&mut stage, &ticket, 3 * BLOCK + 7, b"abc");
    put(&mut stage, &ticket, 9 * BLOCK - 1, b"de");
    assert_eq!(stage.read(3 * BLOCK + 7, 3), b"abc");
    assert_eq!(stage.dirty(), 0);
    let written = [
        range(3 * BLOCK + 7, 3 * BLOCK + 10),
        range(9 * BLOCK - 1, 9 * BLOCK + 1),
        range(16 * BLOCK, u64::MAX),
    ];
    assert_eq!(stage.engine.commit_overwrite(ticket, written), Ok(()));
    stage.engine.check().unwrap();
    let dirty = stage.engine.dirty_ranges(stage.handle).unwrap();
    let blocks = [range(3 * BLOCK, 4 * BLOCK), range(8 * BLOCK, 10 * BLOCK)];
    assert_eq!(dirty, blocks);
    assert_eq!(stage.sync(), Ok(()));
    stage.drop_caches();
    assert_eq!(stage.read(9 * BLOCK - 1, 2), b"de");
    assert_eq!(stage.size(), 16 * BLOCK);
}

#[test]
fn only_uptodate_bytes_below_the_size_are_lent() {
    let mut stage = cached(config_of_folios(16 * BLOCK), 4);
    stage.write(4 * BLOCK, b"tail");
    let size = 4 * BLOCK + 4;
    let ticket = lend(&mut stage, size - 1).unwrap();
    assert_eq!(ticket.range().end(), at(size));
    stage.engine.commit_overwrite(ticket, []).unwrap();
    for place in [size, size + 1, 16 * BLOCK, u64::MAX] {
        assert!(lend(&mut stage, place).is_none(), "{place}");
    }
    let outside = range(0, BLOCK);
    let asked = stage
        .engine
        .prepare_overwrite(stage.handle, at(BLOCK), outside);
    assert!(asked.is_none());
    assert_eq!(stage.sync(), Ok(()));
    stage.drop_caches();
    assert!(lend(&mut stage, 0).is_none(), "nothing is cached");
    // A folio of which one block came in.
    while stage.engine.resize(stage.handle, at(64 * BLOCK)).is_err() {
        stage.run();
    }
    stage.write(33 * BLOCK, &pattern(BLOCK, 2));
    stage.write(34 * BLOCK, &pattern(BLOCK, 3));
    let ticket = lend(&mut stage, 33 * BLOCK).unwrap();
    assert!(range(33 * BLOCK, 35 * BLOCK).covers(ticket.range()));
}

#[test]
fn a_folio_that_is_lent_has_no_other_writer_and_is_neither_cut_nor_punched() {
    let mut stage = cached(config_of_folios(16 * BLOCK), 16);
    let ticket = lend(&mut stage, 0).unwrap();
    assert!(lend(&mut stage, 8 * BLOCK).is_none());
    let refused = stage.prepare(8 * BLOCK, 1).unwrap_err();
    assert_eq!(refused, Refusal::Busy);
    let cut = stage.engine.resize(stage.handle, at(BLOCK));
    assert_eq!(cut, Err(Refusal::Busy));
    let punched = stage
        .engine
        .punch(stage.handle, range(2 * BLOCK, 4 * BLOCK));
    assert_eq!(punched, Err(Refusal::Busy));
    assert_eq!(stage.engine.drop_clean(), LenBytes::ZERO);
    stage.engine.commit_overwrite(ticket, []).unwrap();
    assert_eq!(stage.dirty(), 0);
    stage.engine.resize(stage.handle, at(BLOCK)).unwrap();
    assert_eq!(stage.size(), BLOCK);
}

#[test]
fn c3_what_is_written_to_lent_bytes_in_writeback_is_written_again() {
    let mut stage = cached(config_of_folios(4 * BLOCK), 4);
    stage.write(0, &pattern(BLOCK, 2));
    let sync = stage.begin_sync();
    let sent = stage.take();
    let ticket = lend(&mut stage, 0).unwrap();
    stage.carry_out_all(&sent);
    put(&mut stage, &ticket, 0, b"newest");
    let front = range(0, 6);
    stage.engine.commit_overwrite(ticket, [front]).unwrap();
    assert_eq!(stage.dirty(), BLOCK);
    stage.run();
    assert_eq!(stage.sync_result(sync), Some(Ok(())));
    assert_eq!(stage.sync(), Ok(()));
    stage.drop_caches();
    assert_eq!(stage.read(0, 6), b"newest");
}

#[test]
fn a_ticket_that_is_dropped_counts_as_written_everywhere() {
    let mut stage = cached(config_of_folios(4 * BLOCK), 4);
    let ticket = lend(&mut stage, 0).unwrap();
    put(&mut stage, &ticket, 2 * BLOCK, b"seen");
    drop(ticket);
    assert_eq!(stage.read(2 * BLOCK, 4), b"seen");
    assert_eq!(stage.dirty(), 4 * BLOCK);
    stage.engine.check().unwrap();
    assert_eq!(stage.sync(), Ok(()));
    stage.drop_caches();
    assert_eq!(stage.read(2 * BLOCK, 4), b"seen");
}

#[test]
fn c5_what_is_lent_counts_where_dirty_memory_is_bounded() {
    let config = config_of_folios(64 * BLOCK).with_dirty_bytes(LenBytes::new(128 * BLOCK));
    let mut stage = cached(config, 64);
    // A thirty-second part of what may be dirty.
    let ticket = lend(&mut stage, 7 * BLOCK + 9).unwrap();
    assert_eq!(ticket.range(), range(7 * BLOCK, 11 * BLOCK));
    // The file may have 96 dirty blocks.
    stage.write(128 * BLOCK, &pattern(92 * BLOCK, 1));
    assert!(lend(&mut stage, 130 * BLOCK).is_none());
    let refused = stage.prepare(512 * BLOCK, 1).unwrap_err();
    assert_eq!(refused, Refusal::Busy);
    let everything = ticket.range();
    stage.engine.commit_overwrite(ticket, [everything]).unwrap();
    assert!(stage.dirty() <= 96 * BLOCK);
    stage.engine.check().unwrap();
    assert_eq!(stage.sync(), Ok(()));
    assert_eq!(stage.engine.mapping().promised(), 0);
}

#[test]
fn space_that_was_promised_for_lent_bytes_is_given_back_unless_they_are_dirty() {
    let mut stage = cached(config_of_folios(8 * BLOCK), 8);
    assert_eq!(stage.engine.mapping().promised(), 0);
    let ticket = lend(&mut stage, 0).unwrap();
    assert!(stage.engine.mapping().promised() > 0);
    let one = range(BLOCK, BLOCK + 1);
    stage.engine.commit_overwrite(ticket, [one]).unwrap();
    let kept = stage.engine.mapping().promised();
    assert_eq!(stage.sync(), Ok(()));
    assert!(kept > 0);
    assert_eq!(stage.engine.mapping().promised(), 0);
}

#[test]
fn c2_lent_bytes_come_back_to_a_handle_that_was_latched_and_are_kept() {
    let mut config = config_of_folios(4 * BLOCK);
    config.policy = ErrorPolicy::Latch;
    let mut stage = cached(config, 8);
    let ticket = lend(&mut stage, 0).unwrap();
    put(&mut stage, &ticket, 0, b"kept");
    stage.write(4 * BLOCK, &pattern(BLOCK, 5));
    assert_eq!(stage.sync_refused(ErrorClass::Io), Err(ErrorClass::Io));
    assert_eq!(stage.engine.counts().failures, 1);
    let front = range(0, 4);
    assert_eq!(stage.engine.commit_overwrite(ticket, [front]), Ok(()));
    assert!(lend(&mut stage, 0).is_none());
    let again = stage.engine.open(support::FILE, at(0)).unwrap();
    stage.handle = again;
    let lent = lend(&mut stage, 0);
    stage.engine.commit_overwrite(lent.unwrap(), []).unwrap();
    let _ = stage.sync();
    assert_eq!(stage.sync(), Ok(()));
    stage.drop_caches();
    assert_eq!(stage.read(0, 4), b"kept");
}
