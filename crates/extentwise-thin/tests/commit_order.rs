//! What a crash shows at every device call of a `persist`, and that leaving out
//! a flush is noticed (C8).

mod support;

use std::cell::Cell as Counter;

use extentwise_core::geometry::{BlockSize, DiskByte, FileOffset, LenBytes};
use extentwise_device::{Device, DeviceError, DeviceGeometry, ErrorClass};
use extentwise_engine::{FileId, Mapping};
use extentwise_testkit::device::{
    Fault, FaultDevice, FaultPlan, FaultRule, MemoryDevice, VolatileDevice, When,
};
use extentwise_testkit::seed;
use extentwise_thin::{ThinError, ThinStore};
use support::{CELLS, State, geometry, range, state, write};

/// Unflushed writes of which every subset is tried.
const PIECES_MAX: usize = 10;
const ROUNDS: u64 = 40;

/// What crashes showed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Shown {
    old: u64,
    new: u64,
    /// Neither, or nothing at all.
    other: u64,
}

impl Shown {
    /// Crashes `device` in every way, and counts what is shown afterwards.
    fn look(&mut self, device: &VolatileDevice, old: &State, new: &State) {
        let images = device.crash_images(PIECES_MAX, 0, 0);
        assert!(images.is_exact(), "too many writes to try all subsets");
        for crashed in images {
            let device = MemoryDevice::from_image(geometry(), crashed.image);
            let shown = ThinStore::open(&device).map(|store| state(&store, &device));
            match shown {
                Ok(shown) if shown == *new => self.new += 1,
                Ok(shown) if shown == *old => self.old += 1,
                _ => self.other += 1,
            }
        }
    }
}

/// Crashes before each of its calls; flushes number `ignored` does nothing.
struct Crashing<'d> {
    device: &'d VolatileDevice,
    old: &'d State,
    new: &'d State,
    ignored: Option<u64>,
    flushes: Counter<u64>,
    shown: Counter<Shown>,
}

impl<'d> Crashing<'d> {
    fn new(
        device: &'d VolatileDevice,
        old: &'d State,
        new: &'d State,
        ignored: Option<u64>,
    ) -> Self {
        Self {
            device,
            old,
            new,
            ignored,
            flushes: Counter::new(0),
            shown: Counter::default(),
        }
    }

    fn crash(&self) {
        let mut shown = self.shown.get();
        shown.look(self.device, self.old, self.new);
        self.shown.set(shown);
    }
}

impl Device for Crashing<'_> {
    fn geometry(&self) -> DeviceGeometry {
        self.device.geometry()
    }

    fn read(&self, at: DiskByte, buffers: &mut [&mut [u8]]) -> Result<LenBytes, DeviceError> {
        self.device.read(at, buffers)
    }

    fn write(&self, at: DiskByte, buffers: &[&[u8]]) -> Result<LenBytes, DeviceError> {
        self.crash();
        self.device.write(at, buffers)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.crash();
        let nth = self.flushes.replace(self.flushes.get() + 1);
        if Some(nth) == self.ignored {
            return Ok(());
        }
        self.device.flush()
    }
}

/// A store with two files, and their state.
fn prepared() -> (VolatileDevice, ThinStore) {
    let device = VolatileDevice::new(geometry());
    let mut store = ThinStore::format(&device, BlockSize::MIN).unwrap();
    for file in [FileId(1), FileId(2)] {
        store.create(file).unwrap();
        store.preallocate(file, range(8, 12)).unwrap();
        write(&mut store, &device, file, (0, 6), 1);
    }
    store.persist(&device).unwrap();
    (device, store)
}

/// Some changes, of at most six blocks, nothing of which is flushed.
fn change(store: &mut ThinStore, device: &VolatileDevice, random: &mut u64, token: u64) {
    for file in [FileId(1), FileId(2)] {
        let mut below = |end| seed::next(random) % end;
        let start = below(CELLS - 3);
        match below(8) {
            0 => store.punch(file, range(start, start + 3)).unwrap(),
            1 => store.preallocate(file, range(start, start + 3)).unwrap(),
            2 => {
                store.remove(file).unwrap();
                store.create(file).unwrap();
            }
            _ => {}
        }
        let len = 1 + below(3);
        write(store, device, file, (start, start + len), token);
        let size = FileOffset::new(token);
        store.set_size(file, size).unwrap();
    }
}

/// Rounds of changes and persists; what crashes showed during each persist, and
/// after it.
fn rounds(ignored: Option<u64>) -> (Shown, Shown) {
    let (mut during, mut after) = (Shown::default(), Shown::default());
    let (device, mut store) = prepared();
    let mut random = 7;
    for round in 0..ROUNDS {
        let old = state(&store, &device);
        change(&mut store, &device, &mut random, 100 + round);
        store.check().unwrap();
        let new = state(&store, &device);
        let crashing = Crashing::new(&device, &old, &new, ignored);
        store.persist(&crashing).unwrap();
        assert!(crashing.flushes.get() >= 2);
        let shown = crashing.shown.get();
        during.old += shown.old;
        during.new += shown.new;
        during.other += shown.other;
        after.look(&device, &old, &new);
        // Whatever was left out before, the next round begins flushed.
        device.flush().unwrap();
    }
    (during, after)
}

#[test]
fn c8_every_crash_in_a_persist_shows_the_old_state_or_the_new_one() {
    let (during, after) = rounds(None);
    assert_eq!(during.other, 0);
    assert_eq!((after.old, after.other), (0, 0), "what is durable stays");
    assert!(after.new >= ROUNDS);
    assert!(during.old > 1000 && during.new >= ROUNDS, "{during:?}");
}

#[test]
fn c8_leaving_the_flush_before_the_superblock_out_is_noticed() {
    let (during, _) = rounds(Some(0));
    assert!(during.other > 0, "{during:?}");
}

#[test]
fn c8_leaving_the_flush_behind_the_superblock_out_is_noticed() {
    let (during, after) = rounds(Some(1));
    assert_eq!(during.other, 0, "the order held");
    assert!(after.old > 0, "{after:?}");
}

#[test]
fn the_flush_of_a_persist_covers_data_that_nobody_flushed() {
    let (device, mut store) = prepared();
    write(&mut store, &device, FileId(1), (0, 3), 5);
    assert!(!device.unflushed().is_empty());
    store.persist(&device).unwrap();
    let new = state(&store, &device);
    let mut shown = Shown::default();
    shown.look(&device, &State::new(), &new);
    assert_eq!((shown.old, shown.other), (0, 0));
}

/// Every call of a persist fails in each way, once; then the power is cut, or
/// it is tried again.
#[test]
fn a_persist_that_fails_loses_nothing_and_goes_on() {
    let faults = [
        Fault::Error(ErrorClass::Io),
        Fault::Torn,
        Fault::Full,
        Fault::Short,
    ];
    let mut struck = 0;
    for (fault, call) in faults.into_iter().flat_map(|f| (0..6).map(move |c| (f, c))) {
        let (device, mut store) = prepared();
        let device = FaultDevice::new(device, FaultPlan::new());
        let old = state(&store, device.inner());
        change(&mut store, device.inner(), &mut 3, 9);
        let new = state(&store, device.inner());
        device.set_plan(FaultRule::new(When::Nth(call), fault));
        let persisted = store.persist(&device);
        struck += u64::from(device.struck() > 0);
        device.set_plan(FaultPlan::new());
        store.check().unwrap();
        assert_eq!(state(&store, device.inner()), new);
        let mut shown = Shown::default();
        shown.look(device.inner(), &old, &new);
        assert_eq!(shown.other, 0, "{fault:?} of call {call}");
        match persisted {
            Ok(()) => assert_eq!(shown.old, 0),
            Err(ThinError::Device(_)) => {}
            Err(error) => panic!("{error}"),
        }
        // More is changed before it is tried again: still nothing is mixed.
        change(&mut store, device.inner(), &mut 4, 11);
        store.check().unwrap();
        let newest = state(&store, device.inner());
        store.persist(&device).unwrap();
        store.check().unwrap();
        assert!(!store.in_doubt());
        let mut shown = Shown::default();
        shown.look(device.inner(), &new, &newest);
        assert_eq!((shown.old, shown.other), (0, 0), "{fault:?} of call {call}");
    }
    assert!(struck >= 10, "{struck} faults are too few");
}

/// A disk whose superblock cannot be written never becomes full of maps.
#[test]
fn failing_for_ever_uses_no_space_up() {
    let (device, mut store) = prepared();
    let device = FaultDevice::new(device, FaultPlan::new());
    let slots = [0, 65_536].map(|slot| {
        FaultRule::new(When::From(0), Fault::Torn).within(DiskByte::new(slot), LenBytes::new(512))
    });
    device.set_plan(FaultPlan::new().with(slots[0]).with(slots[1]));
    for round in 1..200 {
        store.set_size(FileId(1), FileOffset::new(round)).unwrap();
        let error = store.persist(&device).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Io);
        assert!(store.in_doubt());
        store.check().unwrap();
    }
    device.set_plan(FaultPlan::new());
    store.persist(&device).unwrap();
    let shown = ThinStore::open(&device).unwrap();
    assert_eq!(state(&shown, &device), state(&store, &device));
}
