//! Mistakes that were reported in public against other page caches and block
//! caches, played on this engine: written data that is lost, or changed.

mod support;

use extentwise_engine::{CloseReason, Config, Effect, ErrorClass, LenBytes, Refusal};
use support::{
    BLOCK, KIB, Stage, assert_same, at, config, config_of_folios, index, pattern, range, writes_of,
};

/// The pages counted as clean although their write had failed. embedded-fatfs's
/// `BufStream` and the flush of Asterinas did the same.
#[test]
fn redb_450_data_of_a_failed_flush_is_still_dirty() {
    let mut stage = Stage::new(config());
    let data = pattern(3 * BLOCK, 1);
    stage.write(0, &data);
    assert_eq!(stage.sync_refused(ErrorClass::Io), Err(ErrorClass::Io));
    assert_eq!(stage.dirty(), 3 * BLOCK);
    stage.drop_caches();
    assert_same(&stage.read(0, 3 * BLOCK), &data);
    assert_eq!(stage.sync(), Ok(()));
    stage.drop_caches();
    assert_same(&stage.read(0, 3 * BLOCK), &data);
}

/// The page was clean from the moment its write was sent: dropped before it had
/// arrived, it was read back as it had been before.
#[test]
fn osv_1398_a_page_whose_write_is_under_way_is_not_dropped() {
    let mut stage = Stage::new(config());
    let data = pattern(BLOCK, 1);
    stage.write(0, &data);
    let sync = stage.begin_sync();
    let sent = stage.take();
    assert_eq!(stage.dirty(), 0);
    stage.drop_caches();
    assert_same(&stage.read(0, BLOCK), &data);
    assert_eq!(writes_of(&stage.seen).len(), 1);
    stage.carry_out_all(&sent);
    stage.run();
    assert_eq!(stage.sync_result(sync), Some(Ok(())));
    stage.drop_caches();
    assert_same(&stage.read(0, BLOCK), &data);
}

/// Writeback came between the dirty page and the larger size, and passed the
/// page over as past the end of the file. DragonOS#1664 is the same.
#[test]
fn dragonos_2068_the_size_covers_an_append_before_writeback_can_see_it() {
    let mut stage = Stage::new(config_of_folios(2 * BLOCK));
    let data = pattern(2 * BLOCK, 1);
    // Both blocks are in one folio.
    let ticket = stage.prepare(0, 2 * BLOCK).unwrap();
    stage.copy(&ticket, &data[..index(BLOCK)]);
    drop(ticket);
    stage.write(0, &data[..index(BLOCK)]);
    let ticket = stage.prepare(BLOCK, BLOCK).unwrap();
    stage.copy(&ticket, &data[index(BLOCK)..]);
    // It wants the folio, and has it in the very call that commits the append.
    stage.engine.write_back_all();
    assert_eq!(stage.take(), []);
    let len = ticket.range().len();
    assert_eq!(stage.engine.commit_write(ticket, len), Ok(len));
    let sent = stage.take();
    assert_eq!(writes_of(&sent), [(0, 2 * BLOCK, 2 * BLOCK)]);
    stage.carry_out_all(&sent);
    assert_eq!(stage.sync(), Ok(()));
    stage.drop_caches();
    assert_same(&stage.read(0, 2 * BLOCK), &data);
}

/// Each page was a device write of its own.
#[test]
fn asterinas_444_pages_that_lie_side_by_side_are_one_device_write() {
    let mut stage = Stage::new(config_of_folios(BLOCK));
    for nth in 0..256 {
        stage.write(nth * BLOCK, &pattern(BLOCK, 1));
    }
    assert_eq!(stage.sync(), Ok(()));
    assert_eq!(stage.writes(), [(0, KIB * KIB, KIB * KIB)]);
    assert_eq!(stage.engine.writes_per_dirtied_mib_milli(), 1000);
}

/// Pages past the end of the file were written, and the last page whole.
#[test]
fn dragonos_1662_nothing_behind_the_end_of_the_file_is_written() {
    let mut stage = Stage::new(config_of_folios(64 * KIB));
    stage.write(0, &pattern(20_000, 1));
    // An append that stopped short leaves dirty blocks past the end.
    let ticket = stage.prepare(20_000, 12_768).unwrap();
    drop(ticket);
    stage.engine.resize(stage.handle, at(5000)).unwrap();
    assert_eq!(stage.sync(), Ok(()));
    assert_eq!(stage.writes(), [(0, 2 * BLOCK, 5000)]);
    assert_eq!(stage.lost(), []);
    assert!(stage.disk[5000..].iter().all(|byte| *byte == 0));
    assert_eq!(stage.engine.mapping().promised(), 0);
}

/// An append that was given up, past the end: a pass over its blocks writes
/// nothing and asks for no place.
#[test]
fn dragonos_1662_blocks_of_an_abandoned_append_get_no_place() {
    let mut stage = Stage::new(config_of_folios(64 * KIB));
    stage.write(0, &pattern(5000, 1));
    let ticket = stage.prepare(4 * BLOCK, BLOCK).unwrap();
    drop(ticket);
    assert_eq!(stage.sync(), Ok(()));
    assert_eq!(stage.writes(), [(0, 2 * BLOCK, 5000)]);
    assert_eq!(stage.engine.mapping().allocated_end, 2 * BLOCK);
    assert_eq!((stage.engine.mapping().promised(), stage.dirty()), (0, 0));
}

/// The end of writeback cleaned the page, with what was written since.
#[test]
fn tgoskits_2427_data_written_during_writeback_is_written_again() {
    let mut stage = Stage::new(config());
    stage.write(0, &pattern(BLOCK, 1));
    let sync = stage.begin_sync();
    let sent = stage.take();
    let newer = pattern(BLOCK, 9);
    // The device has taken the older bytes before the newer ones are written.
    let [Effect::Write { io, .. }] = sent[..] else {
        panic!("one write: {sent:?}");
    };
    stage.write(0, &newer);
    stage.engine.complete(io, Ok(()));
    stage.run();
    assert_eq!(stage.sync_result(sync), Some(Ok(())));
    assert_eq!(stage.dirty(), BLOCK);
    stage.drop_caches();
    assert_same(&stage.read(0, BLOCK), &newer);
    assert_eq!(stage.sync(), Ok(()));
    stage.drop_caches();
    assert_same(&stage.read(0, BLOCK), &newer);
}

/// Writers dirtied memory until there was none left. bcachefs#1113 is the same.
#[test]
fn asterinas_1046_writers_are_held_back_at_the_limit_of_dirty_memory() {
    let limit = 64 * KIB;
    let config = Config {
        // Only the limit of all files together.
        file_dirty_bytes_max: LenBytes::MAX,
        ..config_of_folios(BLOCK).with_dirty_bytes(LenBytes::new(limit))
    };
    let mut stage = Stage::new(config);
    let mut written = 0;
    // The device does not answer, and the writer does not wait to be woken.
    let mut refusal = None;
    for _ in 0..4 * limit / BLOCK {
        match stage.try_write(written, &pattern(BLOCK, 1)) {
            Ok(()) => written += BLOCK,
            Err(refused) => refusal = Some(refused),
        }
    }
    assert!(written <= limit, "{written} bytes are held in memory");
    assert_eq!(refusal, Some(Refusal::Busy));
    // The device answers: the writer goes on.
    stage.run();
    assert!(stage.seen.contains(&Effect::Wake));
    stage.write(written, &pattern(BLOCK, 1));
}

/// A close whose flush failed threw the dirty data away.
#[test]
fn open_cas_662_a_failed_close_keeps_the_dirty_data() {
    let mut stage = Stage::new(config());
    let data = pattern(2 * BLOCK, 1);
    stage.write(0, &data);
    stage.engine.write_back_all();
    stage.run_refusing(ErrorClass::Io);
    let refused = |stage: &mut Stage| stage.engine.close(stage.handle).unwrap_err().reason;
    assert_eq!(
        refused(&mut stage),
        CloseReason::Failed(ErrorClass::Io),
        "the error is told first"
    );
    let CloseReason::Dirty(len) = refused(&mut stage) else {
        panic!("the data is dirty");
    };
    assert_eq!(len.get(), 2 * BLOCK);
    let handed_back = stage.engine.dirty_ranges(stage.handle).unwrap();
    assert_eq!(handed_back, [range(0, 2 * BLOCK)]);
    assert_same(&stage.read(0, 2 * BLOCK), &data);
    assert_eq!(stage.sync(), Ok(()));
    assert_eq!(stage.engine.close(stage.handle), Ok(()));
    assert_eq!(stage.lost(), []);
}
