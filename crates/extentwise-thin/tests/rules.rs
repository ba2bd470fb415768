//! What the store answers, a rule a test.

mod support;

use extentwise_core::errseq::ErrorClass;
use extentwise_core::geometry::{BlockSize, FileOffset, FileRange, LenBytes};
use extentwise_core::ordered::OrderedKind;
use extentwise_device::DeviceGeometry;
use extentwise_engine::{Config, Engine, ExtentKind, FileId, HeapMemory, Mapping};
use extentwise_testkit::device::MemoryDevice;
use extentwise_testkit::property;
use extentwise_testkit::seed;
use extentwise_thin::{ThinError, ThinStore};
use support::{BLOCK, Cell, Fate, done, geometry, range, state, submit, write};

const A: FileId = FileId(1);

fn store() -> (MemoryDevice, ThinStore) {
    let device = MemoryDevice::new(geometry());
    let mut store = ThinStore::format(&device, BlockSize::MIN).unwrap();
    store.create(A).unwrap();
    (device, store)
}

#[test]
fn a_cache_of_other_blocks_is_refused() {
    for (block, fits) in [(512, true), (1024, false)] {
        let config = Config::new(BlockSize::new(block).unwrap());
        let engine = Engine::new(config, HeapMemory, store().1);
        let refused = engine.err().map(|error| error.to_string());
        let wanted = "block_size 1024: must be the block size of the map";
        assert_eq!(refused.as_deref(), (!fits).then_some(wanted));
    }
}

/// Random operations against a model, with faults and crashes between them.
#[test]
fn a_hundred_thousand_operations_are_those_of_a_model() {
    let Some(target) = property::target("thin_store") else {
        panic!("the property has another name");
    };
    let mut ops = 0;
    for seed in 1_000_000.. {
        if ops >= 100_000 {
            break;
        }
        let mut bytes = seed::bytes(seed, 224);
        // Not the images with bytes changed, which are no operations.
        bytes[0] %= 224;
        (target.run)(&bytes);
        ops += (target.describe)(&bytes).lines().count() - 1;
    }
}

#[test]
fn written_again_goes_elsewhere_and_the_old_place_is_pinned_until_that_is_durable() {
    let (device, mut store) = store();
    write(&mut store, &device, A, (0, 4), 1);
    store.persist(&device).unwrap();
    let old = store.map(A, range(0, 4)).unwrap();
    write(&mut store, &device, A, (1, 3), 2);
    let new = store.map(A, range(1, 3)).unwrap();
    assert_eq!(new.range, range(1, 3));
    let (ExtentKind::Data(old), ExtentKind::Data(new)) = (old.kind, new.kind) else {
        panic!("both are data");
    };
    assert!(new.get() < old.get() || new.get() >= old.get() + 4 * BLOCK);
    assert_eq!(store.usage().pinned, 2);
    store.persist(&device).unwrap();
    assert_eq!(store.usage().pinned, 0);
}

#[test]
fn blocks_that_no_durable_map_has_are_free_at_once() {
    let (device, mut store) = store();
    let free = store.usage().free;
    for token in 0..1000 {
        write(&mut store, &device, A, (0, 4), token);
    }
    assert_eq!((store.usage().pinned, store.usage().free), (0, free - 4));
    store.preallocate(A, range(10, 20)).unwrap();
    store.persist(&device).unwrap();
    let free = store.usage().free;
    store.punch(A, range(10, 20)).unwrap();
    assert_eq!((store.usage().pinned, store.usage().free), (0, free + 10));
}

#[test]
fn unwritten_extents_are_filled_where_they_are_and_need_no_promise_of_space() {
    let (device, mut store) = store();
    store.preallocate(A, range(2, 6)).unwrap();
    let place = store.map(A, range(2, 3)).unwrap().kind;
    store.reserve(A, range(0, 8)).unwrap();
    assert_eq!(store.usage().promised, 4, "only the holes");
    let spec = submit(&mut store, &device, A, range(0, 8), 1);
    assert_eq!(
        (spec.kind, spec.num_bytes.get()),
        (OrderedKind::Plain, 2 * BLOCK)
    );
    let spec = submit(&mut store, &device, A, range(2, 8), 2);
    assert_eq!(
        (spec.kind, spec.num_bytes.get()),
        (OrderedKind::Prealloc, 4 * BLOCK)
    );
    assert_eq!(place, ExtentKind::Unwritten(spec.disk_bytenr));
    let (extent, outcome) = done(spec, Fate::Cut(3));
    store.complete(A, &extent, outcome).unwrap();
    let (_, cells) = &state(&store, &device)[&A];
    let (w, u) = (Cell::Data(2), Cell::Unwritten);
    assert_eq!(
        cells[..8],
        [Cell::Hole, Cell::Hole, w, w, w, u, Cell::Hole, Cell::Hole]
    );
    store.check().unwrap();
}

#[test]
fn o5_what_failed_or_was_cut_off_is_not_recorded_and_its_space_is_free() {
    for (fate, kept) in [(Fate::Failed, 0), (Fate::Cut(0), 0), (Fate::Cut(1), 1)] {
        let (device, mut store) = store();
        let free = store.usage().free;
        store.reserve(A, range(0, 4)).unwrap();
        let spec = submit(&mut store, &device, A, range(0, 4), 1);
        assert_eq!(store.usage().in_flight, 4);
        let (extent, outcome) = done(spec, fate);
        store.complete(A, &extent, outcome).unwrap();
        assert_eq!(store.usage().free, free - kept);
        assert_eq!(store.usage().data, kept);
        store.check().unwrap();
    }
}

#[test]
fn a_place_that_is_not_used_is_free_again_once() {
    let (device, mut store) = store();
    let free = store.usage().free;
    store.reserve(A, range(0, 4)).unwrap();
    let spec = submit(&mut store, &device, A, range(0, 4), 1);
    for _ in 0..2 {
        store.give_back(A, spec);
        assert_eq!((store.usage().free, store.usage().in_flight), (free, 0));
        store.check().unwrap();
    }
    store.reserve(A, range(0, 4)).unwrap();
}

#[test]
fn w14_what_was_promised_is_given_when_nothing_else_is_left() {
    let (device, mut store) = store();
    let mut promised = 0;
    while store.reserve(A, range(promised, promised + 1)).is_ok() {
        promised += 1;
    }
    assert!(promised > 60, "{promised}");
    let refused = store.preallocate(A, range(500, 520)).unwrap_err();
    assert!(matches!(refused, ThinError::NoSpace { .. }));
    assert!(matches!(
        store.reserve(A, range(900, 901)),
        Err(ErrorClass::NoSpace)
    ));
    // From the last to the first, so that each becomes an extent of its own.
    for at in (0..promised).rev() {
        let spec = submit(&mut store, &device, A, range(at, at + 1), at);
        let (extent, outcome) = done(spec, Fate::Failed);
        store.complete(A, &extent, outcome).unwrap();
        store.reserve(A, range(at, at + 1)).unwrap();
        let spec = submit(&mut store, &device, A, range(at, at + 1), at);
        let (extent, outcome) = done(spec, Fate::Written);
        store.complete(A, &extent, outcome).unwrap();
        store.check().unwrap();
        store.persist(&device).unwrap();
    }
    let shown = ThinStore::open(&device).unwrap();
    assert_eq!(shown.usage().data, promised);
    // A full store can be emptied, block by block from the middle.
    for at in (1..promised).step_by(2) {
        store.punch(A, range(at, at + 1)).unwrap();
        store.persist(&device).unwrap();
    }
    store.check().unwrap();
}

/// Filling unwritten extents takes no blocks but those of the map, which each
/// block written inside of one lets grow by two records.
#[test]
fn w14_the_map_may_grow_by_all_that_was_promised_and_be_made_durable_twice() {
    for left in 4..40 {
        let (device, mut store) = store();
        let taken = store.usage().free - left;
        if store.preallocate(A, range(0, taken)).is_err() {
            assert!(left < 8, "{left} blocks do not suffice for an empty map");
            continue;
        }
        store.persist(&device).unwrap();
        let blocks: Vec<u64> = (1..taken).step_by(2).collect();
        let promised = blocks
            .into_iter()
            .take_while(|at| store.reserve(A, range(*at, at + 1)).is_ok());
        let promised: Vec<u64> = promised.collect();
        for at in &promised {
            let spec = submit(&mut store, &device, A, range(*at, at + 1), 1);
            let (extent, outcome) = done(spec, Fate::Written);
            store.complete(A, &extent, outcome).unwrap();
        }
        for size in 0..4 {
            store.set_size(A, FileOffset::new(size)).unwrap();
            store.persist(&device).unwrap();
            store.check().unwrap();
        }
    }
}

/// The block of the map that is kept for punching is used up: what failed can be
/// promised again nevertheless.
#[test]
fn w14_what_a_failed_write_gave_back_can_be_promised_again_in_a_full_store() {
    let (device, mut store) = store();
    let b = FileId(2);
    store.create(b).unwrap();
    write(&mut store, &device, b, (0, 60), 1);
    store.persist(&device).unwrap();
    let mut promised = 0;
    while store.reserve(A, range(promised, promised + 1)).is_ok() {
        promised += 1;
    }
    let spec = submit(&mut store, &device, A, range(0, 1), 2);
    let punched = (1..59).step_by(2);
    let punched = punched.take_while(|at| store.punch(b, range(*at, at + 1)).is_ok());
    let punched = punched.count();
    assert!((1..29).contains(&punched), "{punched}");
    let (extent, outcome) = done(spec, Fate::Failed);
    store.complete(A, &extent, outcome).unwrap();
    store.reserve(A, range(0, 1)).unwrap();
    store.check().unwrap();
    store.persist(&device).unwrap();
}

#[test]
fn promises_are_counted_once_and_taken_back() {
    let (_, mut store) = store();
    for _ in 0..3 {
        store.reserve(A, range(0, 8)).unwrap();
    }
    assert_eq!(store.usage().promised, 8);
    store.unreserve(A, range(2, 4));
    store.unreserve(A, range(2, 4));
    assert_eq!(store.usage().promised, 6);
    assert_eq!(store.allocate(A, range(0, 8)), Err(ErrorClass::Denied));
    store.remove(A).unwrap();
    assert_eq!(store.usage().promised, 0);
    store.check().unwrap();
}

#[test]
fn a_write_for_a_removed_file_is_recorded_in_no_other_of_its_name() {
    let (device, mut store) = store();
    store.preallocate(A, range(4, 6)).unwrap();
    store.reserve(A, range(0, 6)).unwrap();
    let new = submit(&mut store, &device, A, range(0, 6), 1);
    let in_place = submit(&mut store, &device, A, range(4, 6), 1);
    store.remove(A).unwrap();
    store.create(A).unwrap();
    store.preallocate(A, range(4, 6)).unwrap();
    for spec in [new, in_place] {
        let (extent, outcome) = done(spec, Fate::Written);
        let completed = store.complete(A, &extent, outcome);
        assert_eq!(completed, Err(ErrorClass::Gone));
        store.check().unwrap();
    }
    assert_eq!((store.usage().data, store.usage().in_flight), (2, 0));
}

#[test]
fn a_hole_punched_under_a_write_in_place_stays_a_hole() {
    let (device, mut store) = store();
    store.preallocate(A, range(0, 4)).unwrap();
    store.reserve(A, range(0, 4)).unwrap();
    let spec = submit(&mut store, &device, A, range(0, 4), 1);
    store.punch(A, range(1, 3)).unwrap();
    // Its blocks are not given to others while they are written.
    assert_eq!(store.usage().in_flight, 2);
    let (extent, outcome) = done(spec, Fate::Written);
    store.complete(A, &extent, outcome).unwrap();
    let (_, cells) = &state(&store, &device)[&A];
    let w = Cell::Data(1);
    assert_eq!(cells[..4], [w, Cell::Hole, Cell::Hole, w]);
    assert_eq!(store.usage().in_flight, 0);
    store.check().unwrap();
}

#[test]
fn a_place_given_anew_under_a_write_in_place_holds_nothing_of_it() {
    let (device, mut store) = store();
    store.preallocate(A, range(0, 4)).unwrap();
    store.reserve(A, range(0, 4)).unwrap();
    let spec = submit(&mut store, &device, A, range(0, 4), 1);
    store.punch(A, range(1, 3)).unwrap();
    store.preallocate(A, range(1, 3)).unwrap();
    let (extent, outcome) = done(spec, Fate::Written);
    store.complete(A, &extent, outcome).unwrap();
    let (_, cells) = &state(&store, &device)[&A];
    let (w, u) = (Cell::Data(1), Cell::Unwritten);
    assert_eq!(cells[..4], [w, u, u, w]);
    store.check().unwrap();
}

#[test]
fn what_makes_no_sense_is_refused_and_changes_nothing() {
    let (device, mut store) = store();
    write(&mut store, &device, A, (0, 2), 1);
    let before = (store.usage(), state(&store, &device));
    let odd = FileRange::new(FileOffset::new(0), FileOffset::new(100)).unwrap();
    let all = FileRange::new(FileOffset::ZERO, FileOffset::MAX).unwrap();
    let end = FileOffset::new(u64::MAX - 511);
    let whole = FileRange::new(FileOffset::ZERO, end).unwrap();
    for bad in [odd, all] {
        assert_eq!(store.reserve(A, bad), Err(ErrorClass::Denied));
        assert_eq!(store.allocate(A, bad), Err(ErrorClass::Denied));
        assert_eq!(store.punch(A, bad), Err(ErrorClass::Denied));
        let refused = store.preallocate(A, bad).unwrap_err();
        assert!(refused.to_string().contains(&bad.to_string()), "{refused}");
        store.unreserve(A, bad);
    }
    assert_eq!(store.reserve(A, whole), Err(ErrorClass::NoSpace));
    assert!(store.preallocate(A, whole).is_err());
    let last = FileRange::new(end, FileOffset::MAX).unwrap();
    assert_eq!(store.map(A, last), Err(ErrorClass::TooLarge));
    assert_eq!(store.map(A, whole).unwrap().range, range(0, 2));
    let last = FileRange::new(FileOffset::MAX, FileOffset::MAX).unwrap();
    assert_eq!(store.truncate(A, FileOffset::MAX, last), Ok(()));
    for nothing in [range(0, 0), range(7, 7)] {
        assert_eq!(store.reserve(A, nothing), Ok(()));
        assert_eq!(store.punch(A, nothing), Ok(()));
        assert_eq!(store.allocate(A, nothing), Err(ErrorClass::Denied));
        assert!(store.map(A, nothing).unwrap().range.len() >= LenBytes::new(BLOCK));
    }
    let nobody = FileId(77);
    assert_eq!(store.map(nobody, range(0, 1)), Err(ErrorClass::Gone));
    assert_eq!(store.reserve(nobody, range(0, 1)), Err(ErrorClass::Gone));
    assert_eq!(store.remove(nobody), Err(ThinError::NoFile(nobody)));
    assert_eq!(store.create(A), Err(ThinError::Exists(A)));
    // Completions of what was never allocated, or is another's.
    let spec = extentwise_core::ordered::NewOrdered::plain(
        FileOffset::new(0),
        LenBytes::new(BLOCK),
        extentwise_core::geometry::DiskByte::new(5 * BLOCK),
    );
    let (extent, outcome) = done(spec, Fate::Written);
    assert_eq!(store.complete(A, &extent, outcome), Err(ErrorClass::Denied));
    assert_eq!(before, (store.usage(), state(&store, &device)));
    store.check().unwrap();
}

#[test]
fn devices_that_cannot_hold_a_store_are_refused_by_name() {
    let format = |logical, physical, capacity: Option<u64>, block| {
        let mut geometry = DeviceGeometry::new(logical, physical).unwrap();
        if let Some(capacity) = capacity {
            geometry = geometry.with_capacity(LenBytes::new(capacity));
        }
        let device = MemoryDevice::new(geometry);
        let block = BlockSize::new(block).unwrap();
        ThinStore::format(&device, block).map(|_| ThinStore::open(&device).unwrap())
    };
    let device_block = |device| ThinError::DeviceBlock { block: 512, device };
    assert_eq!(
        format(4096, 4096, Some(1 << 20), 512).unwrap_err(),
        device_block(4096)
    );
    assert_eq!(
        format(512, 4096, Some(1 << 20), 512).unwrap_err(),
        device_block(4096)
    );
    assert_eq!(
        format(512, 512, None, 512).unwrap_err(),
        ThinError::NoCapacity
    );
    let small = format(512, 512, Some(128 * 512), 512).unwrap_err();
    assert_eq!(
        small,
        ThinError::TooSmall {
            blocks: 128,
            needed: 129
        }
    );
    for (block, capacity) in [(512, 66_048), (4096, 69_632), (65_536, 8 << 16)] {
        for logical in [1, 512] {
            let mut store = format(logical, 512, Some(capacity), block).unwrap();
            store.create(A).unwrap();
            store.check().unwrap();
        }
    }
    let mut large = format(65_536, 65_536, Some(8 << 16), 65_536).unwrap();
    large.create(A).unwrap();
}

#[test]
fn a_store_made_anew_shows_nothing_of_the_one_before() {
    let (device, mut store) = store();
    for round in 0..9 {
        write(&mut store, &device, A, (0, 4), round);
        store.persist(&device).unwrap();
    }
    ThinStore::format(&device, BlockSize::MIN).unwrap();
    let store = ThinStore::open(&device).unwrap();
    assert!(store.files().next().is_none());
    assert_eq!(store.generation(), 1);
}
