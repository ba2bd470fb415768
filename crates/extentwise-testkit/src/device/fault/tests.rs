//! Each fault happens, to the calls it is planned for and to no others.

use super::super::MemoryDevice;
use super::*;

const BLOCK: usize = 1024;

fn device(plan: impl Into<FaultPlan>) -> FaultDevice<MemoryDevice> {
    let geometry = DeviceGeometry::new(1024, 1024).unwrap();
    FaultDevice::new(MemoryDevice::new(geometry), plan)
}

fn write(device: &FaultDevice<MemoryDevice>, block: u64, blocks: usize) -> Result<u64, ErrorClass> {
    let at = DiskByte::new(block * BLOCK as u64);
    let taken = device.write(at, &[&vec![1; blocks * BLOCK]]);
    taken.map(LenBytes::get).map_err(DeviceError::class)
}

fn blocks_held(device: &FaultDevice<MemoryDevice>) -> Vec<u64> {
    let image = device.inner().snapshot();
    let held = (0..16_u64).filter(|block| {
        let at = DiskByte::new(block * BLOCK as u64);
        image.bytes(at, BLOCK) == [1; BLOCK]
    });
    held.collect()
}

#[test]
fn an_error_strikes_the_nth_call_once_or_from_then_on() {
    let error = Fault::Error(ErrorClass::Io);
    let once = device(FaultRule::new(When::Nth(1), error).on(CallKind::Write));
    let always = device(FaultRule::new(When::From(1), error).on(CallKind::Write));
    for device in [&once, &always] {
        assert_eq!(write(device, 0, 1), Ok(1024));
        device.flush().unwrap();
        assert_eq!(write(device, 1, 1), Err(ErrorClass::Io));
    }
    assert_eq!(write(&once, 2, 1), Ok(1024));
    assert_eq!(write(&always, 2, 1), Err(ErrorClass::Io));
    assert_eq!((once.struck(), always.struck()), (1, 2));
    assert_eq!(blocks_held(&once), [0, 2]);
    assert_eq!(blocks_held(&always), [0]);
    always.set_plan(FaultPlan::new());
    assert_eq!(write(&always, 2, 1), Ok(1024), "healed");
}

#[test]
fn every_kind_of_call_can_fail() {
    for kind in CallKind::ALL {
        let error = Fault::Error(ErrorClass::Gone);
        let device = device(FaultRule::new(When::From(0), error).on(kind));
        let (at, len) = (DiskByte::ZERO, LenBytes::new(1024));
        let failed = [
            (
                CallKind::Read,
                device.read(at, &mut [&mut [0; BLOCK]]).is_err(),
            ),
            (CallKind::Write, device.write(at, &[&[0; BLOCK]]).is_err()),
            (CallKind::Flush, device.flush().is_err()),
            (CallKind::WriteZeroes, device.write_zeroes(at, len).is_err()),
            (CallKind::Discard, device.discard(at, len).is_err()),
        ];
        for (called, failed) in failed {
            assert_eq!(
                failed,
                called == kind,
                "{called:?} with a fault in {kind:?}"
            );
        }
    }
}

#[test]
fn a_range_strikes_calls_that_touch_it() {
    let rule = FaultRule::new(When::From(0), Fault::Error(ErrorClass::Io));
    let device = device(rule.within(DiskByte::new(2500), LenBytes::new(1)));
    assert_eq!(write(&device, 0, 2), Ok(2048));
    assert_eq!(write(&device, 0, 3), Err(ErrorClass::Io));
    assert_eq!(write(&device, 2, 1), Err(ErrorClass::Io));
    assert_eq!(write(&device, 3, 1), Ok(1024));
    device.flush().unwrap();
}

#[test]
fn a_short_call_moves_whole_blocks_and_at_least_one() {
    let device = device(FaultRule::new(When::From(0), Fault::Short));
    for (blocks, taken) in [(1, 1), (2, 1), (3, 1), (5, 2)] {
        assert_eq!(write(&device, 0, blocks), Ok(taken * 1024));
        let mut buffer = vec![9; blocks * BLOCK];
        let (head, tail) = buffer.split_at_mut(BLOCK);
        let read = device.read(DiskByte::ZERO, &mut [head, tail]).unwrap();
        assert_eq!(read.get(), taken * 1024);
    }
    assert_eq!(device.struck(), 6, "one block cannot be short");
    assert_eq!(blocks_held(&device), [0, 1]);
    let done = write_all(&device, DiskByte::ZERO, &[&[1; 8 * BLOCK]]).unwrap();
    assert_eq!((done.calls, done.bytes.get()), (4, 8192));
}

#[test]
fn a_full_device_takes_nothing_and_one_with_room_what_fits() {
    let full = device(FaultRule::new(When::Nth(0), Fault::Full));
    assert_eq!(write(&full, 0, 1), Ok(0));
    assert_eq!(write(&full, 0, 1), Ok(1024));

    let roomy = device(FaultPlan::new().with_room(LenBytes::new(3500)));
    assert_eq!(write(&roomy, 0, 2), Ok(2048));
    assert_eq!(write(&roomy, 2, 2), Ok(1024));
    assert_eq!(write(&roomy, 3, 1), Err(ErrorClass::NoSpace));
    assert_eq!(blocks_held(&roomy), [0, 1, 2]);
    assert_eq!(roomy.struck(), 2);
}

#[test]
fn a_torn_write_leaves_a_prefix_also_in_the_middle_of_a_block() {
    let device = device(FaultRule::new(When::From(0), Fault::Torn).on(CallKind::Write));
    assert_eq!(write(&device, 0, 3), Err(ErrorClass::Io));
    let image = device.inner().snapshot();
    assert_eq!(image.bytes(DiskByte::ZERO, 1536), [1; 1536]);
    assert_eq!(image.bytes(DiskByte::new(1536), 1536), [0; 1536]);
    assert_eq!(write(&device, 8, 1), Err(ErrorClass::Io));
    let image = device.inner().snapshot();
    let half = [[1; 512], [0; 512]].concat();
    assert_eq!(image.bytes(DiskByte::new(8192), 1024), half);
}

#[test]
fn torn_zeroes_are_zero_in_part() {
    let device = device(FaultRule::new(When::Nth(0), Fault::Torn).on(CallKind::WriteZeroes));
    write(&device, 0, 4).unwrap();
    let zeroed = device.write_zeroes(DiskByte::ZERO, LenBytes::new(4096));
    assert_eq!(zeroed, Err(ErrorClass::Io.into()));
    assert_eq!(blocks_held(&device), [2, 3]);
}

#[test]
fn a_misdirected_write_answers_well_and_lies_elsewhere() {
    let by = LenBytes::new(4096);
    let device = device(FaultRule::new(When::Nth(0), Fault::Misdirected { by }));
    assert_eq!(write(&device, 0, 1), Ok(1024));
    assert_eq!(blocks_held(&device), [4]);
    device.set_plan(FaultRule::new(When::Nth(0), Fault::Misdirected { by }));
    let mut buffer = [0; BLOCK];
    device.read(DiskByte::ZERO, &mut [&mut buffer]).unwrap();
    assert_eq!(buffer, [1; BLOCK]);
}

#[test]
fn a_lost_write_answers_well_and_is_nowhere() {
    let device = device(FaultRule::new(When::Nth(0), Fault::Lost));
    assert_eq!(write(&device, 0, 2), Ok(2048));
    assert!(blocks_held(&device).is_empty());
    assert_eq!(device.struck(), 1);
}

#[test]
fn the_first_rule_that_strikes_decides_and_all_count() {
    let write_rule = |when, class| FaultRule::new(when, Fault::Error(class));
    let plan = FaultPlan::new()
        .with(write_rule(When::Nth(0), ErrorClass::Quota))
        .with(write_rule(When::Nth(0), ErrorClass::Io))
        .with(write_rule(When::Nth(1), ErrorClass::ReadOnly));
    let device = device(plan);
    assert_eq!(write(&device, 0, 1), Err(ErrorClass::Quota));
    assert_eq!(write(&device, 0, 1), Err(ErrorClass::ReadOnly));
    assert_eq!(write(&device, 0, 1), Ok(1024));
}
