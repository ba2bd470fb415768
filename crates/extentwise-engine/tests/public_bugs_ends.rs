//! Mistakes that were reported in public around the end of a file: growing,
//! appending, zeroing, and the size on record.

mod support;

use extentwise_engine::{Effect, LenBytes};
use support::{
    BLOCK, KIB, Stage, assert_same, at, config, config_of_folios, index, pattern, range,
};

/// The size was rounded down to the block: the tail kept its old bytes.
#[test]
fn nbdkit_a0ae7b21_zeroing_a_size_of_100000_reaches_the_last_byte() {
    let size = 100_000;
    for start in [0, 1, 98_304, 99_999] {
        let mut stage = Stage::holding(config(), size, vec![0x5a; index(size)]);
        stage.engine.punch(stage.handle, range(start, size)).ok();
        stage.run();
        // Trying again after the reads that it took is no harm.
        stage
            .engine
            .punch(stage.handle, range(start, size))
            .unwrap();
        let mut expected = vec![0x5a; index(start)];
        expected.resize(index(size), 0);
        assert_same(&stage.read(0, size + 1), &expected);
        assert_eq!(stage.sync(), Ok(()));
        stage.drop_caches();
        assert_same(&stage.read(0, size + 1), &expected);
        assert_eq!(stage.size(), size);
    }
}

/// The copy into the page stopped at a fault; the retry appended behind the
/// whole of the first try, and left a hole.
#[test]
fn linux_939b656bc8ab_an_append_tried_again_after_a_fault_leaves_no_hole() {
    for cached in [0, BLOCK / 2] {
        let mut stage = Stage::new(config());
        let head = pattern(cached, 7);
        stage.write(0, &head);
        let data = pattern(3 * BLOCK, 1);
        let mut done = 0;
        // How far each copy comes before it faults.
        for reached in [1000, 0, u64::MAX] {
            let end = stage.size();
            let left = data.len() as u64 - done;
            let ticket = stage.prepare(end, left).unwrap();
            let len = ticket.range().len().get().min(reached);
            stage.copy(&ticket, &data[index(done)..index(done + len)]);
            let stands = stage.engine.commit_write(ticket, LenBytes::new(len));
            let stands = stands.unwrap().get();
            assert!(stands <= len);
            assert_eq!(stage.size(), end + stands, "the size follows what stands");
            done += stands;
        }
        let end = stage.size();
        stage.write(end, &data[index(done)..]);
        let expected = [head, data].concat();
        assert_same(&stage.read(0, u64::MAX), &expected);
        assert_eq!(stage.sync(), Ok(()));
        stage.drop_caches();
        assert_same(&stage.read(0, u64::MAX), &expected);
    }
}

/// Bytes that the device held behind the old end showed in the file. (btrfs,
/// reported in February 2025: size 90269, write at 90365.)
#[test]
fn btrfs_2025_02_bytes_from_behind_the_old_end_do_not_show() {
    let (size, start) = (90_269, 90_365);
    let old = pattern(size, 1);
    for read_first in [0, size] {
        let mut disk = old.clone();
        disk.resize(24 * index(BLOCK), 0xee);
        let mut stage = Stage::holding(config(), size, disk);
        assert_same(&stage.read(0, read_first), &old[..index(read_first)]);
        // The gap is zeroed first, which takes a read.
        while stage.try_write(start, b"new").is_err() {
            assert!(!stage.take_and_carry_out().is_empty());
        }
        let gap = vec![0; index(start - size)];
        let expected = [&old[..], &gap, b"new"].concat();
        assert_same(&stage.read(0, u64::MAX), &expected);
        assert_eq!(stage.sync(), Ok(()));
        stage.drop_caches();
        assert_same(&stage.read(0, u64::MAX), &expected);
    }
}

/// The end of the second write was zeros after the caches were dropped: its
/// part of the first page went missing.
#[test]
fn linux_5314454ea3ff_writes_across_a_sync_in_one_page_survive_dropped_caches() {
    let data = pattern(6000, 1);
    for synced in [false, true] {
        let mut stage = Stage::new(config());
        stage.write(0, &data[..2000]);
        stage.write(2000, &data[2000..4000]);
        assert_eq!(stage.sync(), Ok(()));
        stage.write(4000, &data[4000..]);
        if synced {
            assert_eq!(stage.sync(), Ok(()));
        }
        stage.drop_caches();
        assert_same(&stage.read(0, u64::MAX), &data);
    }
}

/// A range that ends inside a folio took the dirty block behind it along.
#[test]
fn linux_bcd77455d590_a_punch_inside_a_folio_keeps_the_block_behind_it() {
    let mut stage = Stage::new(config_of_folios(64 * KIB));
    stage.write(0, &pattern(64 * KIB, 1));
    assert_eq!(stage.engine.cached_bytes().get(), 64 * KIB);
    assert_eq!(stage.sync(), Ok(()));
    let (start, end) = (13 * BLOCK, 14 * BLOCK);
    let newer = pattern(BLOCK, 9);
    stage.write(start, &newer);
    stage.engine.punch(stage.handle, range(0, 53_248)).unwrap();
    assert_eq!(stage.dirty(), BLOCK);
    assert_eq!(stage.sync(), Ok(()));
    stage.drop_caches();
    let mut expected = vec![0; index(13 * BLOCK)];
    expected.extend_from_slice(&newer);
    expected.extend_from_slice(&pattern(64 * KIB, 1)[index(end)..]);
    assert_same(&stage.read(0, u64::MAX), &expected);
}

/// Data below the old end read as zero after the file grew inside a folio.
#[test]
fn btrfs_4c96d4521_growing_96k_to_104k_keeps_the_data_below() {
    let old = pattern(96 * KIB, 1);
    let grown = [&old[..], &[0; 8 * 1024]].concat();
    for synced in [false, true] {
        let mut stage = Stage::new(config_of_folios(128 * KIB));
        stage.write(0, &old);
        if synced {
            assert_eq!(stage.sync(), Ok(()));
        }
        stage.engine.resize(stage.handle, at(104 * KIB)).unwrap();
        assert_same(&stage.read(0, u64::MAX), &grown);
        let mut expected = grown.clone();
        expected[index(100 * KIB)..].fill(7);
        stage.write(100 * KIB, &expected[index(100 * KIB)..]);
        assert_eq!(stage.sync(), Ok(()));
        stage.drop_caches();
        assert_same(&stage.read(0, u64::MAX), &expected);
    }
}

/// The size at the time of completion went on record, with bytes below it that
/// nobody had written.
#[test]
fn xfs_5f700be3b_the_recorded_size_is_that_of_the_bytes_written() {
    let mut stage = Stage::new(config());
    stage.write(0, &pattern(1000, 1));
    let sync = stage.begin_sync();
    let sent = stage.take();
    assert!(matches!(sent[..], [Effect::Write { .. }]));
    stage.write(1000, &pattern(500, 2));
    stage.carry_out_all(&sent);
    assert_eq!((stage.size(), stage.recorded()), (1500, 1000));
    stage.run();
    assert_eq!(stage.sync_result(sync), Some(Ok(())));
    assert_eq!(stage.recorded(), 1000);
    assert_eq!(stage.engine.mapping().size.get(&support::FILE), Some(&1000));
    assert_eq!(stage.sync(), Ok(()));
    assert_eq!(stage.recorded(), 1500);
}
