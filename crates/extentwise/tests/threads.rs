//! Handles that threads share.

// Offsets and lengths stay far below 2^32.
#![allow(clippy::cast_possible_truncation)]

mod support;

use std::io::{IoSlice, IoSliceMut};
use std::sync::Barrier;
use std::thread;

use extentwise::device::{DeviceGeometry, DiskByte};
use extentwise::engine::{CloseReason, FileOffset};
use extentwise::{
    BlockSize, Config, Durable, ErrorClass, FileId, FileRange, Host, Identity, LenBytes, PageCache,
    Patience, Refusal,
};
use extentwise_testkit::device::{CallKind, Fault, FaultPlan, FaultRule, MemoryDevice, When};

type Files = support::Files<MemoryDevice>;

fn cache(files: u64) -> PageCache<Identity, Files> {
    let mut config = Config::new(BlockSize::new(512).unwrap())
        .with_cache_bytes(LenBytes::new(64 << 10))
        .with_dirty_bytes(LenBytes::new(32 << 10));
    config.folio_bytes_max = LenBytes::new(4096);
    support::cache(config, files, || {
        MemoryDevice::new(DeviceGeometry::new(1, 512).unwrap())
    })
}

fn numbers(mut seed: u64) -> impl FnMut(u64) -> u64 {
    seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move |limit| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % limit
    }
}

#[test]
fn threads_with_a_file_each_see_what_they_wrote() {
    let cache = cache(4);
    thread::scope(|scope| {
        for id in 0..4 {
            let cache = cache.clone();
            scope.spawn(move || {
                let file = cache.open(FileId(id), FileOffset::ZERO).unwrap();
                let (mut number, mut model) = (numbers(id + 1), Vec::<u8>::new());
                for step in 0..600 {
                    let (start, len) = (number(40_000), number(3_000) as usize + 1);
                    let end = start as usize + len;
                    match number(8) {
                        0..=2 => {
                            let byte = number(255) as u8 + 1;
                            file.write_at(start, &vec![byte; len]).unwrap();
                            model.resize(model.len().max(end), 0);
                            model[start as usize..end].fill(byte);
                        }
                        3 | 4 => {
                            let mut bytes = vec![0; len];
                            let read = file.read_at(start, &mut bytes).unwrap();
                            let from = model.get(start as usize..).unwrap_or_default();
                            assert!(bytes[..read] == from[..read], "file {id} step {step}");
                            assert_eq!(read, from.len().min(len));
                        }
                        5 => file.sync().unwrap(),
                        6 => {
                            file.resize(start).unwrap();
                            model.resize(start as usize, 0);
                        }
                        _ => {
                            file.punch(start, end as u64).unwrap();
                            let end = end.min(model.len());
                            model[(start as usize).min(end)..end].fill(0);
                        }
                    }
                    assert_eq!(file.size().unwrap(), model.len() as u64);
                }
                file.close().unwrap();
                let disk = &cache.host().disks[&FileId(id)];
                let bytes = disk.inner().snapshot().bytes(DiskByte::ZERO, model.len());
                assert!(bytes == model, "file {id}: the device differs");
            });
        }
    });
    assert_eq!(*cache.host().lost.lock().unwrap(), []);
}

#[test]
fn c5_two_writers_of_different_folios_copy_at_the_same_time() {
    let cache = cache(1);
    let file = cache.open(FileId(0), FileOffset::ZERO).unwrap();
    // Who makes a file longer waits for those who write in between.
    file.resize(16_384).unwrap();
    let both_copy = Barrier::new(2);
    // Were one copied after the other, the first would wait for ever.
    thread::scope(|scope| {
        for place in [0, 8192] {
            let (file, both_copy) = (&file, &both_copy);
            scope.spawn(move || {
                let put = |into: &mut [u8]| {
                    both_copy.wait();
                    into.fill(7);
                    into.len()
                };
                assert_eq!(file.write_with(place, 4096, Patience::Wait, put), Ok(4096));
            });
        }
    });
    assert_eq!(file.size(), Ok(16_384));
}

#[test]
fn many_threads_in_one_file_lose_nothing() {
    let cache = cache(1);
    let file = cache.open(FileId(0), FileOffset::ZERO).unwrap();
    thread::scope(|scope| {
        for own in 0..4_u64 {
            let file = &file;
            scope.spawn(move || {
                for record in 0..300 {
                    let at = (record * 4 + own) * 100;
                    file.write_at(at, &[own as u8 + 1; 100]).unwrap();
                    if record % 50 == own {
                        file.sync().unwrap();
                    }
                }
            });
        }
    });
    file.close().unwrap();
    let disk = &cache.host().disks[&FileId(0)];
    let bytes = disk.inner().snapshot().bytes(DiskByte::ZERO, 120_000);
    for (nth, record) in bytes.chunks(100).enumerate() {
        assert!(record == [nth as u8 % 4 + 1; 100], "record {nth}");
    }
}

#[test]
fn c6_a_close_that_fails_gives_the_file_back_and_nothing_is_lost() {
    let cache = cache(1);
    let disk = &cache.host().disks[&FileId(0)];
    let file = cache.open(FileId(0), FileOffset::ZERO).unwrap();
    file.write_at(0, &[5; 2000]).unwrap();
    let rule = FaultRule::new(When::From(0), Fault::Error(ErrorClass::NoSpace));
    disk.set_plan(FaultPlan::new().with(rule.on(CallKind::Write)));
    let error = file.close().unwrap_err();
    assert_eq!(error.reason, CloseReason::Failed(ErrorClass::NoSpace));
    disk.set_plan(FaultPlan::new());
    error.file.close().unwrap();
    let bytes = disk.inner().snapshot().bytes(DiskByte::ZERO, 2000);
    assert!(bytes == [5; 2000]);
    assert_eq!(*cache.host().lost.lock().unwrap(), []);
}

#[test]
fn c6_a_handle_that_is_dropped_with_data_that_cannot_be_written_tells_the_loss() {
    let cache = cache(1);
    let disk = &cache.host().disks[&FileId(0)];
    let rule = FaultRule::new(When::From(0), Fault::Error(ErrorClass::Io));
    disk.set_plan(FaultPlan::new().with(rule.on(CallKind::Write)));
    let file = cache.open(FileId(0), FileOffset::ZERO).unwrap();
    file.write_at(512, &[5; 512]).unwrap();
    drop(file);
    // The thread that tells it is not this one.
    let started = std::time::Instant::now();
    while cache.host().lost.lock().unwrap().is_empty() {
        assert!(started.elapsed().as_secs() < 10, "the loss is never told");
        thread::yield_now();
    }
    let lost = cache.host().lost.lock().unwrap();
    let range = FileRange::clamped(FileOffset::new(512), FileOffset::new(1024));
    assert_eq!(*lost, [range]);
}

#[test]
fn c5_a_writer_that_will_not_wait_is_refused_while_too_much_is_dirty() {
    let cache = cache(1);
    let disk = &cache.host().disks[&FileId(0)];
    let file = cache.open(FileId(0), FileOffset::ZERO).unwrap();
    let rule = FaultRule::new(When::From(0), Fault::Error(ErrorClass::Io));
    disk.set_plan(FaultPlan::new().with(rule.on(CallKind::Write)));
    let mut refused = None;
    for block in 0..200 {
        if let Err(refusal) = file.write_part(block * 512, &[1; 512], Patience::Try) {
            refused = Some(refusal);
            break;
        }
    }
    let refusals = [Refusal::Busy, Refusal::Failed(ErrorClass::Io)];
    assert!(refused.is_some_and(|refusal| refusals.contains(&refusal)));
    disk.set_plan(FaultPlan::new());
    while file.sync().is_err() {}
    file.write_at(200 * 512, &[1; 512]).unwrap();
}

#[test]
fn a_cursor_reads_writes_and_seeks_as_the_standard_library_does() {
    use std::io::{Read, Seek, SeekFrom, Write};
    let cache = cache(1);
    let file = cache.open(FileId(0), FileOffset::ZERO).unwrap();
    let mut cursor = file.cursor();
    cursor.write_all(b"one two three").unwrap();
    cursor.seek(SeekFrom::Start(4)).unwrap();
    cursor.write_all(b"2wo").unwrap();
    cursor.seek(SeekFrom::End(-13)).unwrap();
    let mut text = String::new();
    cursor.read_to_string(&mut text).unwrap();
    assert_eq!(text, "one 2wo three");
    let error = cursor.seek(SeekFrom::Current(-100)).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    cursor.flush().unwrap();
}

#[test]
fn parts_are_written_and_read_one_behind_the_other() {
    let cache = cache(1);
    let file = cache.open(FileId(0), FileOffset::ZERO).unwrap();
    let parts = [&[1; 700][..], &[], &[2; 5000]].map(IoSlice::new);
    file.write_vectored_at(300, &parts).unwrap();
    assert_eq!(file.size(), Ok(6000));
    let (mut front, mut back) = ([9; 1000], [9; 9000]);
    let mut parts = [&mut front[..], &mut [], &mut back[..]].map(IoSliceMut::new);
    assert_eq!(file.read_vectored_at(0, &mut parts), Ok(6000));
    assert_eq!((front[299], front[300], front[999]), (0, 1, 1));
    assert_eq!((back[0], back[4999], back[5000]), (2, 2, 9));
    let (done, _) = file
        .write_vectored_at(u64::MAX - 1, &[IoSlice::new(&[3; 8])])
        .unwrap_err();
    assert_eq!(done, 0);
}

#[test]
fn a_write_through_is_on_the_device_when_it_ends_and_says_what_stands_if_it_is_not() {
    let cache = cache(1);
    let disk = cache.host().device(FileId(0)).unwrap();
    let file = cache.open(FileId(0), FileOffset::ZERO).unwrap();
    file.write_at(4096, &[4; 512]).unwrap();
    file.write_through_at(100, &[5; 300], Durable::Data)
        .unwrap();
    let on_disk = |at, len| disk.inner().snapshot().bytes(DiskByte::new(at), len);
    assert_eq!(on_disk(100, 300), [5; 300]);
    assert_eq!(cache.snapshot().dirty.get(), 512);
    file.write_through_at(400, &[6; 100], Durable::File)
        .unwrap();
    assert_eq!(on_disk(4096, 512), [4; 512]);
    assert_eq!(cache.snapshot().dirty.get(), 0);

    let rule = FaultRule::new(When::From(0), Fault::Error(ErrorClass::Io));
    disk.set_plan(FaultPlan::new().with(rule.on(CallKind::Write)));
    let through = file.write_through_at(100, &[7; 300], Durable::Data);
    assert_eq!(through, Err((300, Refusal::Failed(ErrorClass::Io))));
    let mut seen = [0; 300];
    assert_eq!(file.read_at(100, &mut seen), Ok(300));
    assert_eq!(seen, [7; 300]);
    disk.set_plan(FaultPlan::new());
    file.close().unwrap();
}
