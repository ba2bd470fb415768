//! Carrying on after short answers (C7).

use crate::{Device, DeviceError, DiskByte, ErrorClass, LenBytes};

/// Buffers handed to the device in one call; longer lists take several.
const BUFFERS_MAX: usize = 256;

/// What a whole transfer took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transferred {
    /// Calls of the device.
    pub calls: u64,
    /// Bytes moved.
    pub bytes: LenBytes,
}

/// Writes all of `buffers`, one behind the other, from `at` on, in as few calls
/// as the device's largest transfer and its short answers allow. A device that
/// takes nothing is full ([`NoSpace`](ErrorClass::NoSpace)), for asking again
/// would not end.
pub fn write_all(
    device: &(impl Device + ?Sized),
    at: DiskByte,
    buffers: &[&[u8]],
) -> Result<Transferred, DeviceError> {
    let max = transfer_max(device);
    let mut done = Transferred::default();
    // The buffer at hand, and its bytes that are written.
    let (mut index, mut skip) = (0, 0);
    loop {
        let mut batch: [&[u8]; BUFFERS_MAX] = [&[]; BUFFERS_MAX];
        let (mut count, mut room) = (0, max);
        for (nth, buffer) in buffers.get(index..).unwrap_or_default().iter().enumerate() {
            if count == BUFFERS_MAX || room == 0 {
                break;
            }
            let rest = buffer
                .get(if nth == 0 { skip } else { 0 }..)
                .unwrap_or_default();
            let part = rest.get(..rest.len().min(room)).unwrap_or_default();
            if part.is_empty() {
                continue;
            }
            room -= part.len();
            batch[count] = part;
            count += 1;
        }
        if count == 0 {
            return Ok(done);
        }
        let place = at
            .checked_add(done.bytes)
            .ok_or(DeviceError::new(ErrorClass::TooLarge))?;
        let taken = device.write(place, &batch[..count])?;
        if taken.is_zero() {
            return Err(DeviceError::new(ErrorClass::NoSpace));
        }
        done.calls = done.calls.saturating_add(1);
        done.bytes = done.bytes.saturating_add(taken);
        (index, skip) = place_behind(buffers, done.bytes);
    }
}

/// Fills all of `buffer` from `at` on. What lies past the device's end is
/// zeros, as for a file that is being extended; nothing is left as it was.
pub fn read_exact(
    device: &(impl Device + ?Sized),
    at: DiskByte,
    buffer: &mut [u8],
) -> Result<Transferred, DeviceError> {
    let max = transfer_max(device);
    let mut done = Transferred::default();
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        let place = at
            .checked_add(done.bytes)
            .ok_or(DeviceError::new(ErrorClass::TooLarge))?;
        let len = rest.len().min(max);
        let read = device.read(place, &mut [&mut rest[..len]])?;
        done.calls = done.calls.saturating_add(1);
        if read.is_zero() {
            rest.fill(0);
            break;
        }
        let read = usize::try_from(read.get()).unwrap_or(len).min(len);
        done.bytes = done.bytes.saturating_add(LenBytes::new(read as u64));
        filled += read;
    }
    Ok(done)
}

/// Bytes that one call takes, as a length of memory.
fn transfer_max(device: &(impl Device + ?Sized)) -> usize {
    let max = device.geometry().transfer_max();
    max.map_or(usize::MAX, |max| {
        usize::try_from(max.get()).unwrap_or(usize::MAX)
    })
}

/// The buffer, and the place in it, behind the first `done` bytes of all.
fn place_behind(buffers: &[&[u8]], done: LenBytes) -> (usize, usize) {
    let mut rest = usize::try_from(done.get()).unwrap_or(usize::MAX);
    for (index, buffer) in buffers.iter().enumerate() {
        if rest < buffer.len() {
            return (index, rest);
        }
        rest -= buffer.len();
    }
    (buffers.len(), 0)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use core::cell::RefCell;
    use std::vec::Vec;

    use super::*;
    use crate::DeviceGeometry;

    /// Takes at most `step` bytes a call, and has room for `room`.
    struct Slow {
        bytes: RefCell<Vec<u8>>,
        step: usize,
        room: usize,
    }

    impl Device for Slow {
        fn geometry(&self) -> DeviceGeometry {
            DeviceGeometry::new(1, 1).unwrap()
        }

        fn read(&self, at: DiskByte, buffers: &mut [&mut [u8]]) -> Result<LenBytes, DeviceError> {
            let bytes = self.bytes.borrow();
            let start = usize::try_from(at.get()).unwrap().min(bytes.len());
            let len = self.step.min(bytes.len() - start).min(buffers[0].len());
            buffers[0][..len].copy_from_slice(&bytes[start..start + len]);
            Ok(LenBytes::new(len as u64))
        }

        fn write(&self, at: DiskByte, buffers: &[&[u8]]) -> Result<LenBytes, DeviceError> {
            let mut bytes = self.bytes.borrow_mut();
            assert_eq!(at.get(), bytes.len() as u64, "written on end");
            let all = buffers.concat();
            let len = self.step.min(all.len()).min(self.room - bytes.len());
            bytes.extend_from_slice(&all[..len]);
            Ok(LenBytes::new(len as u64))
        }

        fn flush(&self) -> Result<(), DeviceError> {
            Ok(())
        }
    }

    #[test]
    fn c7_short_writes_are_carried_on_across_buffers() {
        for step in 1..12 {
            let device = Slow {
                bytes: RefCell::default(),
                step,
                room: 100,
            };
            let buffers: [&[u8]; 5] = [b"ab", b"", b"cdefg", b"h", b"ij"];
            let done = write_all(&device, DiskByte::ZERO, &buffers).unwrap();
            assert_eq!(*device.bytes.borrow(), b"abcdefghij");
            assert_eq!(done.bytes, LenBytes::new(10));
            assert_eq!(done.calls, 10_u64.div_ceil(step as u64));
            let mut read = [0xff; 13];
            read_exact(&device, DiskByte::ZERO, &mut read).unwrap();
            assert_eq!(&read, b"abcdefghij\0\0\0");
        }
    }

    #[test]
    fn c7_more_buffers_than_one_call_takes_are_written_in_several() {
        let device = Slow {
            bytes: RefCell::default(),
            step: usize::MAX,
            room: 2000,
        };
        let buffers = [&b"xy"[..]; 600];
        let done = write_all(&device, DiskByte::ZERO, &buffers).unwrap();
        assert_eq!((done.calls, done.bytes.get()), (3, 1200));
    }

    #[test]
    fn a_device_that_takes_nothing_is_full() {
        let device = Slow {
            bytes: RefCell::default(),
            step: 4,
            room: 6,
        };
        let error = write_all(&device, DiskByte::ZERO, &[b"abcdefgh"]).unwrap_err();
        assert_eq!(error.class(), ErrorClass::NoSpace);
    }
}
