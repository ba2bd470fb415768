//! Readers and writers that hold a ticket: reads past the end (C1), copies that stop
//! short and writes that are given up (V8, V16), who waits for whom.

mod support;

use extentwise_engine::{Effect, ErrorClass, LenBytes, Refusal, TicketState};
use support::{
    BLOCK, Stage, assert_same, at, config, config_of_folios, index, pattern, range, writes_of,
};

#[test]
fn c1_reads_stop_at_the_end_of_the_file() {
    let mut stage = Stage::new(config());
    assert_eq!(stage.read(0, 10), []);
    let data = pattern(5000, 1);
    stage.write(0, &data);
    for (start, len, found) in [
        (4990, 100, 10),
        (0, u64::MAX, 5000),
        (4999, 1, 1),
        (5000, 1, 0),
        (u64::MAX - 1, 1, 0),
        (100, 0, 0),
    ] {
        let bytes = stage.read(start, len);
        assert_eq!(bytes.len(), found, "{len} at {start}");
        assert!(bytes.is_empty() || data[index(start)..].starts_with(&bytes));
    }
}

#[test]
fn a_write_of_nothing_or_past_the_longest_file_is_refused_by_its_range() {
    let mut stage = Stage::new(config());
    let end = 1 << 63;
    for asked in [range(7, 7), range(end - 1, end), range(end, u64::MAX)] {
        let refused = stage.engine.prepare_write(stage.handle, asked);
        assert_eq!(refused.unwrap_err(), Refusal::Range(asked));
    }
    let refused = stage.engine.resize(stage.handle, at(u64::MAX));
    assert!(matches!(refused, Err(Refusal::Range(_))));
    assert_eq!(stage.size(), 0);
    // The last byte that there can be.
    let ticket = stage.prepare(end - 2, 1).unwrap();
    stage.copy(&ticket, b"z");
    stage.engine.commit_write(ticket, LenBytes::new(1)).unwrap();
    assert_eq!(stage.read(end - 2, 10), b"z");
    assert_eq!(stage.sync(), Ok(()));
}

#[test]
fn v16_a_dropped_ticket_changes_neither_size_nor_data_and_keeps_no_promise() {
    let mut stage = Stage::new(config());
    let data = pattern(BLOCK + 100, 1);
    stage.write(0, &data);
    for (start, len) in [(0, 10), (BLOCK, BLOCK), (40 * BLOCK, 3 * BLOCK)] {
        drop(stage.prepare(start, len).unwrap());
        assert_same(&stage.read(0, u64::MAX), &data);
        assert_eq!(stage.size(), BLOCK + 100);
        stage.engine.check().unwrap();
    }
    assert_eq!(stage.sync(), Ok(()));
    assert_eq!(stage.engine.mapping().promised(), 0);
    stage.drop_caches();
    assert_same(&stage.read(0, u64::MAX), &data);
}

#[test]
fn v16_a_ticket_dropped_before_its_read_came_in_is_given_up_afterwards() {
    let disk = pattern(BLOCK, 1);
    let mut stage = Stage::holding(config(), BLOCK, disk.clone());
    let asked = range(10, 20);
    let ticket = stage.engine.prepare_write(stage.handle, asked).unwrap();
    assert_eq!(stage.engine.write_state(&ticket), TicketState::Pending);
    assert!(stage.engine.write_target(&ticket).is_none());
    drop(ticket);
    let reads = stage.take();
    assert!(matches!(reads[..], [Effect::Read { .. }]), "{reads:?}");
    // Its folio is held until then.
    let second = stage.engine.prepare_write(stage.handle, asked);
    assert_eq!(second.unwrap_err(), Refusal::Busy);
    stage.carry_out_all(&reads);
    assert!(stage.take().contains(&Effect::Wake));
    stage.write(10, b"now");
    let expected = [&disk[..10], b"now", &disk[13..]].concat();
    assert_same(&stage.read(0, BLOCK), &expected);
}

#[test]
fn v5_a_failed_read_fails_its_write_and_changes_nothing() {
    let disk = pattern(BLOCK, 1);
    let mut stage = Stage::holding(config(), BLOCK, disk.clone());
    let ticket = stage
        .engine
        .prepare_write(stage.handle, range(10, 20))
        .unwrap();
    for effect in stage.take() {
        stage.answer(effect, Err(ErrorClass::Io));
    }
    let failed = TicketState::Failed(ErrorClass::Io);
    assert_eq!(stage.engine.write_state(&ticket), failed);
    let refused = stage.engine.commit_write(ticket, LenBytes::new(10));
    assert_eq!(refused, Err(Refusal::Failed(ErrorClass::Io)));
    assert_eq!(stage.engine.mapping().promised(), stage.dirty() / BLOCK);
    stage.run();
    assert_same(&stage.read(0, BLOCK), &disk);
}

#[test]
fn v8_of_a_short_copy_stands_what_was_copied_where_the_rest_was_known() {
    let mut stage = Stage::new(config());
    let mut data = pattern(BLOCK, 1);
    stage.write(0, &data);
    let ticket = stage.prepare(100, 1000).unwrap();
    stage.copy(&ticket, &[7; 400]);
    let stands = stage.engine.commit_write(ticket, LenBytes::new(400));
    assert_eq!(stands, Ok(LenBytes::new(400)));
    data[100..500].fill(7);
    assert_same(&stage.read(0, BLOCK), &data);
    // More than was prepared is never committed.
    let ticket = stage.prepare(100, 10).unwrap();
    stage.copy(&ticket, &[7; 10]);
    let stands = stage.engine.commit_write(ticket, LenBytes::MAX).unwrap();
    assert!(stands <= LenBytes::new(10));
    assert_same(&stage.read(0, u64::MAX), &data);
}

#[test]
fn two_writers_are_in_two_folios_at_once_and_one_in_each() {
    let mut stage = Stage::new(config_of_folios(BLOCK));
    stage.engine.resize(stage.handle, at(2 * BLOCK)).unwrap();
    let first = stage.prepare(0, BLOCK).unwrap();
    let second = stage.prepare(BLOCK, BLOCK).unwrap();
    let third = stage.engine.prepare_write(stage.handle, range(5, 6));
    assert_eq!(third.unwrap_err(), Refusal::Busy);
    stage.copy(&second, &[2; 4096]);
    stage.copy(&first, &[1; 4096]);
    let len = LenBytes::new(BLOCK);
    assert_eq!(stage.engine.commit_write(second, len), Ok(len));
    assert_eq!(stage.engine.commit_write(first, len), Ok(len));
    assert!(stage.take().contains(&Effect::Wake));
    stage.write(5, &[3]);
    let mut expected = [vec![1; 4096], vec![2; 4096]].concat();
    expected[5] = 3;
    assert_same(&stage.read(0, u64::MAX), &expected);
}

#[test]
fn v15_a_write_past_the_end_waits_for_the_writer_in_the_gap() {
    let mut stage = Stage::new(config_of_folios(BLOCK));
    let first = stage.prepare(0, BLOCK).unwrap();
    // What lies between reads as zero from then on; the first writer may still be copying there.
    let second = stage
        .engine
        .prepare_write(stage.handle, range(2 * BLOCK, 3 * BLOCK));
    assert_eq!(second.unwrap_err(), Refusal::Busy);
    drop(first);
    stage.write(2 * BLOCK, &[3; 4096]);
    let expected = [vec![0; 8192], vec![3; 4096]].concat();
    assert_same(&stage.read(0, u64::MAX), &expected);
}

#[test]
fn writeback_waits_for_the_writer_and_goes_before_the_next_one() {
    let mut stage = Stage::new(config());
    stage.write(0, &pattern(BLOCK, 1));
    let first = stage.prepare(0, 10).unwrap();
    stage.engine.write_back_all();
    assert_eq!(writes_of(&stage.take()), []);
    // No stream of writers keeps writeback out.
    let second = stage.engine.prepare_write(stage.handle, range(0, 10));
    assert_eq!(second.unwrap_err(), Refusal::Busy);
    stage.copy(&first, &[1; 10]);
    stage.engine.commit_write(first, LenBytes::new(10)).unwrap();
    let sent = stage.take();
    assert_eq!(writes_of(&sent), [(0, BLOCK, BLOCK)]);
    // During the device's write, another writer may be there.
    stage.write(0, &[2; 10]);
    stage.carry_out_all(&sent);
    assert_eq!(stage.dirty(), BLOCK);
    assert_eq!(stage.sync(), Ok(()));
    stage.drop_caches();
    assert_eq!(stage.read(0, 10), [2; 10]);
}

#[test]
fn a_writer_that_gives_up_lets_writeback_go_on() {
    let mut stage = Stage::new(config());
    stage.write(0, &pattern(BLOCK, 1));
    let ticket = stage.prepare(0, 10).unwrap();
    let sync = stage.begin_sync();
    assert_eq!(writes_of(&stage.take()), []);
    drop(ticket);
    stage.run();
    assert_eq!(stage.sync_result(sync), Some(Ok(())));
    assert_eq!(stage.dirty(), 0);
}

#[test]
fn a_reader_keeps_its_folio_and_its_bytes_from_being_cut_off() {
    let mut stage = Stage::new(config());
    stage.write(0, &pattern(2 * BLOCK, 1));
    assert_eq!(stage.sync(), Ok(()));
    let asked = range(0, 2 * BLOCK);
    let ticket = stage.engine.prepare_read(stage.handle, asked).unwrap();
    let ticket = ticket.unwrap();
    assert_eq!(stage.engine.read_state(&ticket), TicketState::Ready);
    stage.drop_caches();
    assert!(stage.engine.read_source(&ticket).is_some());
    assert_eq!(stage.engine.resize(stage.handle, at(0)), Err(Refusal::Busy));
    stage.engine.end_read(ticket);
    assert!(stage.take().contains(&Effect::Wake));
    assert_eq!(stage.engine.resize(stage.handle, at(0)), Ok(()));
    assert_eq!(stage.read(0, 10), []);
}

#[test]
fn a_ticket_of_another_engine_is_refused_and_does_it_no_harm() {
    let mut stage = Stage::new(config());
    let mut other = Stage::new(config());
    let (data, theirs) = (pattern(BLOCK, 1), pattern(BLOCK, 2));
    stage.write(0, &data);
    other.write(0, &theirs);
    let own = other.prepare(0, 10).unwrap();
    let foreign = stage.prepare(0, 10).unwrap();
    assert_eq!(
        other.engine.write_state(&foreign),
        TicketState::Failed(ErrorClass::Io)
    );
    assert!(other.engine.write_target(&foreign).is_none());
    let refused = other.engine.commit_write(foreign, LenBytes::new(10));
    assert_eq!(refused, Err(Refusal::NotOpen));
    assert_eq!(other.engine.write_state(&own), TicketState::Ready);
    drop(own);

    let asked = range(0, 10);
    let foreign = stage
        .engine
        .prepare_read(stage.handle, asked)
        .unwrap()
        .unwrap();
    assert_eq!(
        other.engine.read_state(&foreign),
        TicketState::Failed(ErrorClass::Io)
    );
    assert!(other.engine.read_source(&foreign).is_none());
    other.engine.end_read(foreign);
    assert_eq!((stage.sync(), other.sync()), (Ok(()), Ok(())));
    assert_same(&stage.read(0, BLOCK), &data);
    assert_same(&other.read(0, BLOCK), &theirs);
}
