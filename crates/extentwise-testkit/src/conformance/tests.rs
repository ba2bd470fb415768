//! Good devices pass, and each broken one fails by the rule that it breaks.

use std::panic::{AssertUnwindSafe, catch_unwind};

use extentwise_device::DeviceGeometry;

use super::*;
use crate::device::{
    CallKind, Contents, Fault, FaultDevice, FaultPlan, FaultRule, MemoryDevice, RecordingDevice,
    VolatileDevice, When,
};

fn geometries() -> Vec<DeviceGeometry> {
    let mut geometries = Vec::new();
    for (logical, physical) in [(1, 1), (1, 4096), (512, 512), (512, 4096), (4096, 4096)] {
        let plain = DeviceGeometry::new(logical, physical).unwrap();
        let block = u64::from(logical);
        let ended = plain.with_capacity(LenBytes::new(BLOCKS_MIN * block));
        let uneven = plain.with_capacity(LenBytes::new(100 * block + block / 2));
        let narrow = ended.with_transfer_max(LenBytes::new(3 * block));
        let narrowest = plain.with_transfer_max(LenBytes::new(block));
        geometries.extend([plain, ended, uneven, narrow.unwrap(), narrowest.unwrap()]);
    }
    geometries
}

#[test]
fn c7_devices_of_memory_conform_in_every_geometry() {
    for geometry in geometries() {
        device_conformance(|| MemoryDevice::new(geometry));
        device_conformance(|| VolatileDevice::new(geometry));
    }
}

#[test]
fn c7_wrapped_devices_conform_as_the_one_inside() {
    for geometry in geometries() {
        let memory = || MemoryDevice::new(geometry);
        device_conformance(|| RecordingDevice::new(memory(), Contents::Hashed));
        device_conformance(|| FaultDevice::new(memory(), FaultPlan::new()));
        let short = FaultRule::new(When::OneIn { calls: 2, seed: 1 }, Fault::Short);
        device_conformance(|| FaultDevice::new(memory(), short));
    }
}

/// The message of the check that fails, if one does.
fn refusal<D: Device>(make: impl FnMut() -> D) -> Option<String> {
    let failed = catch_unwind(AssertUnwindSafe(|| device_conformance(make))).err()?;
    let text = failed.downcast_ref::<String>().cloned();
    text.or_else(|| failed.downcast_ref::<&str>().map(ToString::to_string))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    ForgetsTheLastByte,
    WritesOneBlockFurther,
    AnswersMoreThanTaken,
    AnswersMoreThanAsked,
    IgnoresAllButTheFirstBuffer,
    PassesTheLargestTransfer,
    WrapsAddresses,
    ZeroesOneBlockTooMany,
    ZeroesTheFirstBlockOnly,
    DiscardsTheBlockBefore,
    SaysIoForNoSpace,
    SaysIoForDenied,
    FailsFlush,
    ReadsZerosPastTheEnd,
    GrowsItsGeometry,
    CutsAddressesTo32Bits,
}

struct Broken {
    device: MemoryDevice,
    geometry: DeviceGeometry,
    bug: Bug,
}

impl Broken {
    fn new(geometry: DeviceGeometry, bug: Bug) -> Self {
        let inner = match bug {
            Bug::PassesTheLargestTransfer => {
                DeviceGeometry::new(geometry.logical_block(), geometry.physical_block())
                    .unwrap()
                    .with_capacity(geometry.capacity().unwrap_or(LenBytes::MAX))
            }
            _ => geometry,
        };
        Self {
            device: MemoryDevice::new(inner),
            geometry,
            bug,
        }
    }

    fn block(&self) -> u64 {
        u64::from(self.geometry.logical_block())
    }

    fn mapped(&self, at: DiskByte) -> DiskByte {
        match self.bug {
            Bug::WritesOneBlockFurther if at.get() >= 8 * self.block() => {
                DiskByte::new(at.get().saturating_add(self.block()))
            }
            Bug::CutsAddressesTo32Bits => DiskByte::new(at.get() & 0xffff_ffff),
            Bug::WrapsAddresses if at.get() > 1 << 63 => DiskByte::ZERO,
            _ => at,
        }
    }

    fn blamed(&self, error: DeviceError) -> DeviceError {
        match (self.bug, error.class()) {
            (Bug::SaysIoForNoSpace, ErrorClass::NoSpace)
            | (Bug::SaysIoForDenied, ErrorClass::Denied) => ErrorClass::Io.into(),
            _ => error,
        }
    }
}

impl Device for Broken {
    fn geometry(&self) -> DeviceGeometry {
        let written = self.device.snapshot().end() > DiskByte::ZERO;
        match self.bug {
            Bug::GrowsItsGeometry if written => self.geometry.with_capacity(LenBytes::MAX),
            _ => self.geometry,
        }
    }

    fn read(&self, at: DiskByte, buffers: &mut [&mut [u8]]) -> Result<LenBytes, DeviceError> {
        let at = match self.bug {
            Bug::CutsAddressesTo32Bits => self.mapped(at),
            _ => at,
        };
        let read = self.device.read(at, buffers);
        let read = read.map_err(|error| self.blamed(error))?;
        let len = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        match self.bug {
            Bug::ReadsZerosPastTheEnd if read.is_zero() => Ok(LenBytes::new(len)),
            _ => Ok(read),
        }
    }

    fn write(&self, at: DiskByte, buffers: &[&[u8]]) -> Result<LenBytes, DeviceError> {
        let len: u64 = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        let at = self.mapped(at);
        let behind = DiskByte::new(at.get().saturating_add(len.saturating_sub(1)));
        let old = self.device.snapshot().bytes(behind, 1);
        let taken = match self.bug {
            Bug::IgnoresAllButTheFirstBuffer => {
                self.device.write(at, &buffers[..buffers.len().min(1)])?;
                Ok(LenBytes::new(len))
            }
            Bug::AnswersMoreThanTaken if len > self.block() => {
                let bytes = buffers.concat();
                let block = self.geometry.logical_block() as usize;
                let taken = bytes.len() / 2 / block * block;
                self.device.write(at, &[&bytes[..taken]])?;
                Ok(LenBytes::new(len))
            }
            _ => self.device.write(at, buffers),
        };
        let taken = taken.map_err(|error| self.blamed(error))?;
        match self.bug {
            Bug::ForgetsTheLastByte if len > 0 => {
                let mut block = self.device.snapshot();
                block.write(behind, &old);
                let start = DiskByte::new(behind.get() - behind.get() % self.block());
                let block = block.bytes(start, self.geometry.logical_block() as usize);
                self.device.write(start, &[&block])?;
                Ok(taken)
            }
            Bug::AnswersMoreThanAsked if len > 0 => Ok(LenBytes::new(taken.get() + self.block())),
            _ => Ok(taken),
        }
    }

    fn flush(&self) -> Result<(), DeviceError> {
        match self.bug {
            Bug::FailsFlush => Err(ErrorClass::Io.into()),
            _ => self.device.flush(),
        }
    }

    fn write_zeroes(&self, at: DiskByte, len: LenBytes) -> Result<(), DeviceError> {
        let len = match self.bug {
            Bug::ZeroesOneBlockTooMany if !len.is_zero() => LenBytes::new(len.get() + self.block()),
            Bug::ZeroesTheFirstBlockOnly if at.get() < 1 << 32 => {
                len.min(LenBytes::new(self.block()))
            }
            _ => len,
        };
        self.device.write_zeroes(at, len)
    }

    fn discard(&self, at: DiskByte, len: LenBytes) -> Result<(), DeviceError> {
        let at = match self.bug {
            Bug::DiscardsTheBlockBefore if !len.is_zero() => {
                DiskByte::new(at.get().saturating_sub(self.block()))
            }
            _ => at,
        };
        self.device.discard(at, len)
    }
}

#[test]
fn every_broken_device_fails_and_the_same_without_its_bug_passes() {
    let plain = DeviceGeometry::new(512, 512).unwrap();
    let ended = plain.with_capacity(LenBytes::new(BLOCKS_MIN * 512));
    let narrow = ended.with_transfer_max(LenBytes::new(1024)).unwrap();
    for geometry in [plain, ended, narrow] {
        assert_eq!(refusal(|| Broken::new(geometry, Bug::None)), None);
    }
    for (bug, geometry, rule) in [
        (Bug::ForgetsTheLastByte, plain, "last write"),
        (Bug::WritesOneBlockFurther, plain, "last write"),
        (Bug::AnswersMoreThanTaken, plain, "last write"),
        (Bug::AnswersMoreThanAsked, plain, "more than asked"),
        (Bug::IgnoresAllButTheFirstBuffer, plain, "last write"),
        (Bug::PassesTheLargestTransfer, narrow, "largest transfer"),
        (Bug::WrapsAddresses, plain, "across address 2^64"),
        (Bug::ZeroesOneBlockTooMany, plain, "write_zeroes"),
        (Bug::ZeroesTheFirstBlockOnly, plain, "write_zeroes"),
        (Bug::DiscardsTheBlockBefore, plain, "around a discard"),
        (Bug::SaysIoForNoSpace, ended, "NoSpace"),
        (Bug::SaysIoForDenied, ended, "Denied"),
        (Bug::FailsFlush, plain, "flush"),
        (Bug::ReadsZerosPastTheEnd, plain, "the end"),
        (Bug::GrowsItsGeometry, plain, "geometry stays the same"),
        (Bug::CutsAddressesTo32Bits, plain, "64-bit"),
    ] {
        let message = refusal(|| Broken::new(geometry, bug));
        let message = message.unwrap_or_else(|| panic!("{bug:?} passes"));
        assert!(message.contains(rule), "{bug:?} fails by: {message}");
    }
}

#[test]
fn lying_devices_fail_too() {
    let geometry = DeviceGeometry::new(512, 512).unwrap();
    let by = LenBytes::new(512);
    for fault in [Fault::Lost, Fault::Misdirected { by }, Fault::Full] {
        let rule = FaultRule::new(When::Nth(7), fault).on(CallKind::Write);
        let message = refusal(|| FaultDevice::new(MemoryDevice::new(geometry), rule));
        assert!(message.is_some(), "{fault:?} passes");
    }
}
