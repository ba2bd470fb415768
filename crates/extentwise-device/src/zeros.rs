//! Zeros where a device takes whole blocks only, or has no way of its own.

use crate::{Device, DeviceError, DiskByte, ErrorClass, LenBytes, read_exact, write_all};

/// Makes `len` bytes from `at` on read as zero, and no other byte.
///
/// Whole blocks go by [`write_zeroes`](Device::write_zeroes), or are written
/// where the device has no such call; a block that is covered in part is read and
/// written again. `buffer` is memory for that, of one block of the device at
/// least ([`NoMemory`](ErrorClass::NoMemory) otherwise); more of it makes for
/// fewer writes. Nobody else may write to these blocks meanwhile.
pub fn zero_exact(
    device: &(impl Device + ?Sized),
    at: DiskByte,
    len: LenBytes,
    buffer: &mut [u8],
) -> Result<(), DeviceError> {
    let block = u64::from(device.geometry().logical_block());
    let end = at.checked_add(len).ok_or(ErrorClass::TooLarge)?.get();
    let at = at.get();
    let first = at.checked_next_multiple_of(block).unwrap_or(end).min(end);
    let last = (end - end % block).max(first);
    zero_in_block(device, at, first, buffer)?;
    zero_blocks(device, first, last, buffer)?;
    zero_in_block(device, last, end, buffer)
}

/// Zeros a part of one block.
fn zero_in_block(
    device: &(impl Device + ?Sized),
    start: u64,
    end: u64,
    buffer: &mut [u8],
) -> Result<(), DeviceError> {
    if start == end {
        return Ok(());
    }
    let block = device.geometry().logical_block();
    let floor = start - start % u64::from(block);
    let bytes = front(buffer, u64::from(block))?;
    let index = |byte: u64| usize::try_from(byte - floor).unwrap_or(usize::MAX);
    read_exact(device, DiskByte::new(floor), bytes)?;
    let part = bytes.get_mut(index(start)..index(end));
    part.unwrap_or_default().fill(0);
    write_all(device, DiskByte::new(floor), &[bytes]).map(|_| ())
}

fn zero_blocks(
    device: &(impl Device + ?Sized),
    start: u64,
    end: u64,
    buffer: &mut [u8],
) -> Result<(), DeviceError> {
    if start == end {
        return Ok(());
    }
    match device.write_zeroes(DiskByte::new(start), LenBytes::new(end - start)) {
        Err(error) if error.class() == ErrorClass::Unsupported => {}
        answer => return answer,
    }
    let block = u64::from(device.geometry().logical_block());
    let whole = (buffer.len() as u64 / block).max(1) * block;
    front(buffer, whole.min(end - start))?.fill(0);
    let mut at = start;
    while at < end {
        let zeros = front(buffer, whole.min(end - at))?;
        write_all(device, DiskByte::new(at), &[zeros])?;
        at += zeros.len() as u64;
    }
    Ok(())
}

fn front(buffer: &mut [u8], len: u64) -> Result<&mut [u8], DeviceError> {
    let len = usize::try_from(len).map_err(|_| ErrorClass::NoMemory)?;
    Ok(buffer.get_mut(..len).ok_or(ErrorClass::NoMemory)?)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use core::cell::RefCell;
    use std::vec;
    use std::vec::Vec;

    use super::*;
    use crate::DeviceGeometry;

    /// Takes whole blocks of eight bytes.
    struct Blocks {
        bytes: RefCell<Vec<u8>>,
        zeroes: bool,
        writes: RefCell<Vec<usize>>,
    }

    impl Blocks {
        fn new(zeroes: bool) -> Self {
            Self {
                bytes: RefCell::new(vec![1; 64]),
                zeroes,
                writes: RefCell::default(),
            }
        }

        fn place(at: DiskByte, len: usize) -> core::ops::Range<usize> {
            let start = usize::try_from(at.get()).unwrap();
            assert!(start.is_multiple_of(8) && len.is_multiple_of(8) && len > 0);
            start..start + len
        }
    }

    impl Device for Blocks {
        fn geometry(&self) -> DeviceGeometry {
            DeviceGeometry::new(8, 8).unwrap()
        }

        fn read(&self, at: DiskByte, buffers: &mut [&mut [u8]]) -> Result<LenBytes, DeviceError> {
            let place = Self::place(at, buffers[0].len());
            buffers[0].copy_from_slice(&self.bytes.borrow()[place]);
            Ok(LenBytes::new(buffers[0].len() as u64))
        }

        fn write(&self, at: DiskByte, buffers: &[&[u8]]) -> Result<LenBytes, DeviceError> {
            let place = Self::place(at, buffers[0].len());
            self.bytes.borrow_mut()[place].copy_from_slice(buffers[0]);
            self.writes.borrow_mut().push(buffers[0].len());
            Ok(LenBytes::new(buffers[0].len() as u64))
        }

        fn flush(&self) -> Result<(), DeviceError> {
            Ok(())
        }

        fn write_zeroes(&self, at: DiskByte, len: LenBytes) -> Result<(), DeviceError> {
            if !self.zeroes {
                return Err(DeviceError::UNSUPPORTED);
            }
            let place = Self::place(at, usize::try_from(len.get()).unwrap());
            self.bytes.borrow_mut()[place].fill(0);
            Ok(())
        }
    }

    #[test]
    fn every_byte_of_the_range_is_zeroed_and_no_other() {
        for zeroes in [false, true] {
            for start in 0..40_usize {
                for end in start..=48 {
                    let device = Blocks::new(zeroes);
                    let len = LenBytes::new((end - start) as u64);
                    let at = DiskByte::new(start as u64);
                    zero_exact(&device, at, len, &mut [7; 17]).unwrap();
                    let mut wanted = [1; 64];
                    wanted[start..end].fill(0);
                    assert_eq!(*device.bytes.borrow(), wanted, "[{start}, {end})");
                }
            }
        }
    }

    #[test]
    fn zeros_are_written_in_as_large_pieces_as_the_memory_allows() {
        let device = Blocks::new(false);
        zero_exact(&device, DiskByte::ZERO, LenBytes::new(40), &mut [7; 17]).unwrap();
        assert_eq!(*device.writes.borrow(), [16, 16, 8]);
    }

    #[test]
    fn a_range_past_the_address_space_and_memory_below_a_block_are_refused() {
        let device = Blocks::new(true);
        let zero = |at, len, memory: &mut [u8]| {
            let answer = zero_exact(&device, DiskByte::new(at), LenBytes::new(len), memory);
            answer.map_err(DeviceError::class)
        };
        let past = zero(u64::MAX - 1, 9, &mut [0; 8]);
        assert_eq!(past, Err(ErrorClass::TooLarge));
        assert_eq!(zero(1, 2, &mut [0; 7]), Err(ErrorClass::NoMemory));
        assert_eq!(zero(8, 8, &mut []), Ok(()));
        assert_eq!(zero(3, 0, &mut []), Ok(()));
        assert_eq!(
            *device.bytes.borrow(),
            [
                [1; 8], [0; 8], [1; 8], [1; 8], [1; 8], [1; 8], [1; 8], [1; 8]
            ]
            .concat()
        );
    }
}
