//! Writes to bytes that a handle has borrowed: they are seen, counted, synced,
//! cut and kept as any others.

// Offsets and lengths stay far below 2^32.
#![allow(clippy::cast_possible_truncation)]

mod support;

use std::thread;
use std::time::{Duration, Instant};

use extentwise::device::{DeviceGeometry, DiskByte};
use extentwise::{
    BlockSize, Config, ErrorClass, ErrorPolicy, FileId, FileOffset, FileRange, Identity, LenBytes,
    PageCache, Patience, Refusal,
};
use extentwise_testkit::device::{CallKind, Fault, FaultPlan, FaultRule, VolatileDevice, When};

const KIB: u64 = 1024;

/// Its devices lose at a crash what was not flushed.
type Files = support::Files<VolatileDevice>;
type File = extentwise::File<Identity, Files>;

/// Blocks of 512 bytes in folios of 16 KiB at the most; 512 KiB may be dirty.
fn config() -> Config {
    let mut config = Config::new(BlockSize::new(512).unwrap())
        .with_cache_bytes(LenBytes::new(1024 * KIB))
        .with_dirty_bytes(LenBytes::new(512 * KIB));
    config.folio_bytes_max = LenBytes::new(16 * KIB);
    config
}

fn cache(config: Config) -> PageCache<Identity, Files> {
    support::cache(config, 2, || {
        VolatileDevice::new(DeviceGeometry::new(1, 512).unwrap())
    })
}

/// Opens a file with so many bytes that are cached and clean.
fn cached(cache: &PageCache<Identity, Files>, len: u64) -> File {
    let file = cache.open(FileId(0), FileOffset::ZERO).unwrap();
    file.write_at(0, &vec![1; len as usize]).unwrap();
    file.sync().unwrap();
    file
}

fn durable(cache: &PageCache<Identity, Files>, start: u64, len: u64) -> Vec<u8> {
    let disk = &cache.host().disks[&FileId(0)];
    let image = disk.inner().durable();
    image.bytes(DiskByte::new(start), len as usize)
}

fn read(file: &File, start: u64, len: u64) -> Vec<u8> {
    let mut bytes = vec![0; len as usize];
    let read = file.read_at(start, &mut bytes).unwrap();
    bytes.truncate(read);
    bytes
}

fn refuse_writes(cache: &PageCache<Identity, Files>, class: ErrorClass) {
    let rule = FaultRule::new(When::From(0), Fault::Error(class)).on(CallKind::Write);
    let plan = FaultPlan::new().with(rule);
    cache.host().disks[&FileId(0)].set_plan(plan);
}

fn heal(cache: &PageCache<Identity, Files>) {
    cache.host().disks[&FileId(0)].set_plan(FaultPlan::new());
}

#[test]
fn writes_in_any_order_within_and_across_folios_are_seen_and_synced() {
    let cache = cache(config());
    let file = cached(&cache, 64 * KIB);
    let mut model = vec![1; 64 << 10];
    let places = [
        (100, 50),
        (100, 50),
        (150, 400),
        (20, 30),
        (5000, 1),
        (16 * KIB - 10, 20),
        (0, 40 * KIB),
        (16 * KIB - 1, 1),
        (16 * KIB, 1),
    ];
    for (nth, (start, len)) in (2..).zip(places) {
        file.write_at(start, &vec![nth; len as usize]).unwrap();
        model[start as usize..(start + len) as usize].fill(nth);
        assert!(read(&file, 0, 64 * KIB) == model, "after write {nth}");
    }
    file.sync().unwrap();
    assert!(durable(&cache, 0, 64 * KIB) == model);
    assert_eq!(file.size(), Ok(64 * KIB));
}

#[test]
fn appends_make_the_file_longer_whatever_is_borrowed() {
    let cache = cache(config());
    let file = cached(&cache, 1000);
    let mut model = vec![1; 1000];
    for nth in 0..100_u8 {
        let start = model.len() - usize::from(nth);
        file.write_at(start as u64, &[nth; 150]).unwrap();
        model.resize(start + 150, 0);
        model[start..].fill(nth);
        file.write_at(7, &[nth; 9]).unwrap();
        model[7..16].fill(nth);
        assert_eq!(file.size(), Ok(model.len() as u64));
    }
    assert!(read(&file, 0, u64::from(u16::MAX)) == model);
    file.close().unwrap();
    assert!(durable(&cache, 0, model.len() as u64) == model);
}

#[test]
fn c4_a_sync_covers_all_that_was_written_before_it() {
    let cache = cache(config());
    let file = cached(&cache, 32 * KIB);
    for byte in 2..100 {
        let place = u64::from(byte) * 300;
        file.write_at(place, &[byte; 300]).unwrap();
        file.write_at(20, &[byte; 10]).unwrap();
        if byte % 2 == 0 {
            file.sync().unwrap();
        } else {
            file.sync_range(0, place + 300).unwrap();
        }
        assert!(durable(&cache, place, 300) == [byte; 300]);
        assert!(durable(&cache, 20, 10) == [byte; 10]);
    }
}

#[test]
fn c10_what_is_borrowed_is_counted_once_it_was_written_to() {
    let cache = cache(config());
    let file = cached(&cache, 32 * KIB);
    assert_eq!(cache.blocks().dirty, LenBytes::ZERO);
    file.write_at(600, &[2; 10]).unwrap();
    file.write_at(2000, &[2; 100]).unwrap();
    assert_eq!(cache.blocks().dirty, LenBytes::new(3 * 512));
    let dirtied = cache.counts().dirtied_bytes;
    file.write_at(5000, &[2; 1]).unwrap();
    assert_eq!(cache.counts().dirtied_bytes, dirtied + 512);
    // Nothing that can be dropped is dirty.
    file.write_at(9000, b"kept").unwrap();
    cache.drop_clean();
    assert_eq!(read(&file, 9000, 4), b"kept");
}

#[test]
fn truncate_and_punch_take_what_was_written_before_them() {
    let cache = cache(config());
    let file = cached(&cache, 32 * KIB);
    file.write_at(3000, &[2; 100]).unwrap();
    file.punch(3050, 8000).unwrap();
    assert!(read(&file, 3000, 100) == [[2; 50], [0; 50]].concat());
    file.write_at(3060, &[3; 10]).unwrap();
    file.resize(3065).unwrap();
    assert_eq!(read(&file, 3060, 100), [3; 5]);
    file.resize(4000).unwrap();
    assert!(read(&file, 3060, 100)[5..] == [0; 95]);
    file.write_at(3066, &[4; 2]).unwrap();
    file.close().unwrap();
    assert_eq!(durable(&cache, 3064, 6), [3, 0, 4, 4, 0, 0]);
}

#[test]
fn two_handles_of_a_file_write_and_read_the_same_bytes() {
    let cache = cache(config());
    let one = cached(&cache, 32 * KIB);
    let two = cache.open(FileId(0), FileOffset::ZERO).unwrap();
    for round in 2..50_u8 {
        one.write_at(1000, &[round; 20]).unwrap();
        two.write_at(1010, &[round + 1; 20]).unwrap();
        assert_eq!(read(&one, 1000, 30)[9..11], [round, round + 1]);
        two.write_at(40 * u64::from(round), &[round; 5]).unwrap();
        assert_eq!(read(&one, 40 * u64::from(round), 5), [round; 5]);
    }
    one.close().unwrap();
    two.write_at(0, b"after").unwrap();
    two.close().unwrap();
    assert_eq!(durable(&cache, 0, 5), b"after");
}

#[test]
fn c5_a_cache_that_is_smaller_than_what_is_written_drops_nothing() {
    let small = config()
        .with_cache_bytes(LenBytes::new(64 * KIB))
        .with_dirty_bytes(LenBytes::new(8 * KIB));
    let cache = cache(small);
    let file = cached(&cache, 256 * KIB);
    thread::scope(|scope| {
        for own in 0..2 {
            let file = &file;
            scope.spawn(move || {
                for nth in 0..2000_u64 {
                    let at = (nth * 7919 % 256) * KIB + own * 512;
                    file.write_at(at + nth % 400, &[nth as u8; 100]).unwrap();
                    assert_eq!(read(file, at + nth % 400, 100), [nth as u8; 100]);
                }
            });
        }
    });
    let dirty = cache.blocks().dirty;
    assert!(dirty <= LenBytes::new(8 * KIB), "{dirty}");
    file.close().unwrap();
}

#[test]
fn what_is_borrowed_is_given_back_before_long() {
    let mut config = config();
    config.dirty_age_max_nanos = 1;
    let cache = cache(config);
    let file = cached(&cache, 16 * KIB);
    file.write_at(100, b"first").unwrap();
    file.write_at(100, b"again").unwrap();
    let begun = Instant::now();
    let disk = &cache.host().disks[&FileId(0)];
    while disk.inner().snapshot().bytes(DiskByte::new(100), 5) != b"again" {
        assert!(begun.elapsed() < Duration::from_secs(20), "never written");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn c2_data_that_could_not_be_written_is_kept_and_written_later() {
    let cache = cache(config());
    let file = cached(&cache, 32 * KIB);
    file.write_at(1000, &[2; 600]).unwrap();
    refuse_writes(&cache, ErrorClass::Io);
    assert_eq!(file.sync(), Err(Refusal::Failed(ErrorClass::Io)));
    file.write_at(1200, &[3; 100]).unwrap();
    heal(&cache);
    file.close().unwrap();
    assert_eq!(durable(&cache, 1199, 3), [2, 3, 3]);
    assert_eq!(durable(&cache, 1299, 2), [3, 2]);
    assert_eq!(*cache.host().lost.lock().unwrap(), []);
}

#[test]
fn c2_data_that_is_dropped_by_the_policy_is_told_and_newer_data_is_written() {
    let mut config = config();
    config.policy = ErrorPolicy::Drop;
    let cache = cache(config);
    let file = cached(&cache, 32 * KIB);
    file.write_at(1024, &[2; 512]).unwrap();
    refuse_writes(&cache, ErrorClass::Io);
    assert_eq!(file.sync(), Err(Refusal::Failed(ErrorClass::Io)));
    heal(&cache);
    file.write_at(1024, &[3; 10]).unwrap();
    file.close().unwrap();
    assert_eq!(durable(&cache, 1024, 11)[..10], [3; 10]);
    let range = FileRange::clamped(FileOffset::new(1024), FileOffset::new(1536));
    assert_eq!(*cache.host().lost.lock().unwrap(), [range]);
}

#[test]
fn c2_a_latched_handle_refuses_writes_to_what_it_had_borrowed() {
    let mut config = config();
    config.policy = ErrorPolicy::Latch;
    let cache = cache(config);
    let file = cached(&cache, 64 * KIB);
    let other = cache.open(FileId(0), FileOffset::ZERO).unwrap();
    refuse_writes(&cache, ErrorClass::Io);
    thread::scope(|scope| {
        let sync = scope.spawn(|| {
            other.write_at(40 * KIB, &[9; 512]).unwrap();
            other.sync()
        });
        // Until the failure is known; what was answered Ok by then stands.
        let mut last = 1_u8;
        let refusal = loop {
            let next = last.wrapping_add(1);
            match file.write_at(100, &[next; 8]) {
                Ok(()) => last = next,
                Err((done, refusal)) => break (done, refusal),
            }
        };
        assert_eq!(refusal, (0, Refusal::Latched(ErrorClass::Io)));
        assert!(sync.join().unwrap().is_err());
        heal(&cache);
        let again = cache.open(FileId(0), FileOffset::ZERO).unwrap();
        assert_eq!(read(&again, 100, 8), [last; 8]);
        while again.sync().is_err() {}
        assert_eq!(durable(&cache, 100, 8), [last; 8]);
    });
    for handle in [file, other] {
        while handle.sync().is_err() {}
    }
}

#[test]
fn c6_a_close_that_fails_gives_back_what_was_written_last() {
    let cache = cache(config());
    let file = cached(&cache, 16 * KIB);
    file.write_at(700, b"last").unwrap();
    refuse_writes(&cache, ErrorClass::NoSpace);
    let error = file.close().unwrap_err();
    heal(&cache);
    assert_eq!(read(&error.file, 700, 4), b"last");
    error.file.write_at(704, b" one").unwrap();
    error.file.close().unwrap();
    assert_eq!(durable(&cache, 700, 8), b"last one");
}

#[test]
fn writers_syncers_and_truncaters_of_one_file_end() {
    let cache = cache(config());
    let file = cached(&cache, 64 * KIB);
    thread::scope(|scope| {
        let file = &file;
        for own in 0..2_u64 {
            scope.spawn(move || {
                for nth in 0..3000_u64 {
                    let at = own * 32 * KIB + nth * 37 % (30 * KIB);
                    file.write_at(at, &[own as u8 + 2; 64]).unwrap();
                }
            });
        }
        scope.spawn(move || {
            for nth in 0..30 {
                file.sync().unwrap();
                file.resize(64 * KIB - nth).unwrap();
                file.punch(31 * KIB, 31 * KIB + nth).unwrap();
            }
        });
        scope.spawn(move || {
            for nth in 0..300 {
                let byte = read(file, nth * 100, 1);
                assert!(byte == [1] || byte == [2] || byte == [3]);
                let refused = file.write_part(63 * KIB, &[9; 4], Patience::Try);
                assert!(matches!(refused, Ok(4) | Err(Refusal::Busy)));
            }
        });
    });
    file.close().unwrap();
    assert!(durable(&cache, 0, 64)[..] == [2; 64]);
}
