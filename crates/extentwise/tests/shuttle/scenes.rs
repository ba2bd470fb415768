//! What the threads do, and what must hold in whatever order they run.
//!
//! Whoever opens a scope does nothing else in it: shuttle wakes that thread when
//! the others end, whatever it waits for.

use extentwise::{ErrorClass, ErrorPolicy, FileOffset, FileRange, LenBytes, Refusal};
use shuttle::thread;

use crate::stage::{BLOCK, FOLIO, Stage, config, read, sized};

/// One play for several threads.
pub(crate) struct Scene {
    pub(crate) name: &'static str,
    pub(crate) rules: &'static str,
    pub(crate) play: fn(),
}

macro_rules! scenes {
    ($($name:ident: $rules:literal,)*) => {
        pub(crate) const SCENES: &[Scene] = &[$(Scene {
            name: stringify!($name),
            rules: $rules,
            play: $name,
        }),*];
    };
}

scenes! {
    writers_of_two_folios_sync: "C4",
    writers_and_readers_of_one_folio: "C1",
    truncate_against_writeback: "C12",
    eviction_against_writers: "C5, C12",
    sync_against_completion: "C3, C4, C12",
    read_of_a_folio_that_is_borrowed: "C1",
    writers_who_are_held_back: "C5",
    close_of_two_handles: "C6",
    drop_with_data_that_cannot_be_written: "C6",
    latch_against_writers: "C2",
}

fn writers_of_two_folios_sync() {
    let stage = Stage::new(config());
    let file = stage.filled(2 * FOLIO);
    thread::scope(|scope| {
        scope.spawn(|| {
            file.write_at(100, &[2; 8]).unwrap();
            file.write_at(104, &[3; 8]).unwrap();
            file.sync().unwrap();
            assert_eq!(stage.durable(100, 12), [[2; 4], [3; 4], [3; 4]].concat());
            file.write_at(108, &[4; 4]).unwrap();
        });
        scope.spawn(|| {
            file.write_at(FOLIO + 8, &[5; 8]).unwrap();
            file.write_at(FOLIO + 4, &[6; 8]).unwrap();
            file.sync_range(FOLIO, 2 * FOLIO).unwrap();
            assert_eq!(
                stage.durable(FOLIO + 4, 12),
                [[6; 4], [6; 4], [5; 4]].concat()
            );
        });
    });
    file.close().unwrap();
    assert_eq!(stage.durable(104, 8), [[3; 4], [4; 4]].concat());
}

fn writers_and_readers_of_one_folio() {
    let stage = Stage::new(config());
    let (one, two) = (stage.filled(FOLIO), stage.open());
    thread::scope(|scope| {
        scope.spawn(|| {
            one.write_at(40, &[2; 16]).unwrap();
            one.write_at(40, &[3; 16]).unwrap();
        });
        scope.spawn(|| {
            two.write_at(40, &[4; 16]).unwrap();
            two.write_at(BLOCK, &[5; 1]).unwrap();
        });
        scope.spawn(|| {
            for _ in 0..2 {
                let bytes = read(&one, 40, 16);
                assert!(bytes.iter().all(|byte| *byte == bytes[0]));
            }
        });
    });
    assert!([3, 4].contains(&read(&two, 40, 1)[0]));
    assert_eq!(read(&one, BLOCK, 1), [5]);
    let last = read(&one, 40, 16);
    one.close().unwrap();
    two.close().unwrap();
    assert_eq!(stage.durable(40, 16), last);
}

fn truncate_against_writeback() {
    let stage = Stage::new(config());
    let file = stage.filled(2 * FOLIO);
    thread::scope(|scope| {
        scope.spawn(|| {
            file.write_at(90, &[2; 20]).unwrap();
            file.sync().unwrap();
            file.write_at(90, &[3; 5]).unwrap();
        });
        scope.spawn(|| {
            file.resize(100).unwrap();
            file.resize(FOLIO).unwrap();
        });
    });
    let bytes = read(&file, 90, 20);
    assert_eq!(bytes[..10], [[3; 5], [2; 5]].concat());
    // Written before it was cut off, or after.
    assert!(
        bytes[10..] == [0; 10] || bytes[10..] == [2; 10],
        "{bytes:?}"
    );
    assert_eq!(read(&file, 200, 10), [0; 10]);
    file.close().unwrap();
    assert_eq!(stage.durable(90, 20), bytes);
}

fn eviction_against_writers() {
    let stage = Stage::new(sized(16, 8));
    let file = stage.filled(8 * FOLIO);
    thread::scope(|scope| {
        for own in 0..2 {
            let file = &file;
            scope.spawn(move || {
                for nth in 0..3 {
                    let at = (nth * 2 + own) * FOLIO + 10;
                    file.write_at(at, &[7; 10]).unwrap();
                    file.write_at(at + 5, &[8; 10]).unwrap();
                    assert_eq!(read(file, at, 15), [[7; 5], [8; 5], [8; 5]].concat());
                }
            });
        }
    });
    for folio in 0..6 {
        let found = read(&file, folio * FOLIO + 9, 17);
        let written = [&[1][..], &[7; 5], &[8; 10], &[1]].concat();
        assert_eq!(found, written, "folio {folio}");
    }
    file.close().unwrap();
}

fn sync_against_completion() {
    let stage = Stage::new(config());
    let (one, two) = (stage.filled(FOLIO), stage.open());
    thread::scope(|scope| {
        for (file, at) in [(&one, 0), (&two, 64)] {
            let stage = &stage;
            scope.spawn(move || {
                for byte in 2..4 {
                    file.write_at(at, &[byte; 4]).unwrap();
                    file.sync().unwrap();
                    assert_eq!(stage.durable(at, 4), [byte; 4]);
                }
            });
        }
    });
    let blocks = stage.cache.blocks();
    assert_eq!(
        (blocks.dirty, blocks.writeback),
        (LenBytes::ZERO, LenBytes::ZERO)
    );
}

fn read_of_a_folio_that_is_borrowed() {
    let stage = Stage::new(config());
    let file = stage.filled(FOLIO);
    // A part of the folio is not uptodate: a reader brings it in again.
    file.punch(2 * BLOCK, 4 * BLOCK).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            for byte in 3..6 {
                file.write_at(8, &[byte; 4]).unwrap();
            }
        });
        scope.spawn(|| assert_eq!(read(&file, 3 * BLOCK, 4), [0; 4]));
        scope.spawn(|| assert_eq!(read(&file, 0, 4), [1; 4]));
    });
    assert_eq!(read(&file, 4, 8), [[1; 4], [5; 4]].concat());
    file.close().unwrap();
    assert_eq!(stage.durable(2 * BLOCK, 4), [0; 4]);
}

fn writers_who_are_held_back() {
    let stage = Stage::new(sized(64, 2));
    let file = stage.filled(4 * FOLIO);
    thread::scope(|scope| {
        for own in 0..2 {
            let file = &file;
            scope.spawn(move || {
                for nth in 0..4 {
                    let at = own * 2 * FOLIO + nth * 2 * BLOCK;
                    file.write_at(at, &[9; 700]).unwrap();
                    file.write_at(at, &[8; 10]).unwrap();
                }
            });
        }
        // Each of them may be let in before the other one is done.
        scope.spawn(|| {
            let dirty = stage.cache.blocks().dirty;
            assert!(dirty <= LenBytes::new(4 << 10), "{dirty}");
        });
    });
    assert_eq!(read(&file, 2 * FOLIO, 12), [&[8; 10][..], &[9; 2]].concat());
    file.close().unwrap();
    assert_eq!(stage.durable(6 * BLOCK, 11), [&[8; 10][..], &[9]].concat());
}

fn close_of_two_handles() {
    let stage = Stage::new(config());
    let (one, two) = (stage.filled(FOLIO), stage.open());
    thread::scope(|scope| {
        for (file, at) in [(one, 0), (two, BLOCK)] {
            scope.spawn(move || {
                file.write_at(at, &[2; 8]).unwrap();
                file.write_at(at + 4, &[3; 8]).unwrap();
                let mut open = Some(file);
                // The other one may write behind this one's sync.
                while let Some(file) = open.take() {
                    open = file.close().err().map(|error| error.file);
                }
            });
        }
    });
    for at in [0, BLOCK] {
        assert_eq!(stage.durable(at, 12), [[2; 4], [3; 4], [3; 4]].concat());
    }
    assert_eq!(*stage.lost.lock().unwrap(), []);
}

fn drop_with_data_that_cannot_be_written() {
    let stage = Stage::new(config());
    let file = stage.filled(2 * FOLIO);
    stage.refuse_writes();
    thread::scope(|scope| {
        let file = &file;
        for at in [0, FOLIO] {
            scope.spawn(move || file.write_at(at, &[2; 8]).unwrap());
        }
    });
    drop(file);
    let Stage { cache, lost } = stage;
    // Its threads end; then everything was told.
    drop(cache);
    let block = |at| FileRange::clamped(FileOffset::new(at), FileOffset::new(at + BLOCK));
    assert_eq!(*lost.lock().unwrap(), [block(0), block(FOLIO)]);
}

fn latch_against_writers() {
    let mut config = config();
    config.policy = ErrorPolicy::Latch;
    let stage = Stage::new(config);
    let (one, two) = (stage.filled(2 * FOLIO), stage.open());
    stage.refuse_writes();
    let last = thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut last = 1;
            for byte in 2..6 {
                match one.write_at(0, &[byte; 4]) {
                    Ok(()) => last = byte,
                    Err(refused) => {
                        assert_eq!(refused, (0, Refusal::Latched(ErrorClass::Io)));
                        break;
                    }
                }
            }
            last
        });
        scope.spawn(|| {
            two.write_at(FOLIO, &[7; 4]).unwrap();
            assert_eq!(two.sync(), Err(Refusal::Failed(ErrorClass::Io)));
            // The failure is known: nothing is written through old handles.
            let latched = Err((0, Refusal::Latched(ErrorClass::Io)));
            assert_eq!(one.write_at(4, &[9; 1]), latched);
        });
        writer.join().unwrap()
    });
    stage.heal();
    let again = stage.open();
    assert_eq!(read(&again, 0, 5), [&[last; 4][..], &[1]].concat());
    while again.sync().is_err() {}
    assert_eq!(stage.durable(0, 4), [last; 4]);
    for file in [one, two, again] {
        while file.sync().is_err() {}
    }
}
