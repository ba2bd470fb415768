//! A device of memory.

use std::sync::Mutex;

use extentwise_device::{Device, DeviceError, DeviceGeometry, DiskByte, ErrorClass, LenBytes};

use super::{DISCARDED, Image, locked};

/// Bytes in memory, with the sizes and limits of any geometry.
///
/// It holds its callers to the trait's rules: what is not aligned to the logical
/// block is refused as [`Denied`](ErrorClass::Denied), buffer by buffer; a
/// transfer takes no more than the largest; a write past the capacity answers
/// [`NoSpace`](ErrorClass::NoSpace) (one that crosses it is short), one past
/// address 2^64 - 1 [`TooLarge`](ErrorClass::TooLarge). Without a capacity it
/// ends behind the last byte written. Bytes that were discarded read as
/// [`DISCARDED`].
#[derive(Debug)]
pub struct MemoryDevice {
    geometry: DeviceGeometry,
    image: Mutex<Image>,
}

impl MemoryDevice {
    /// A device of zeros. Of a capacity that is no multiple of the logical block,
    /// the rest cannot be reached.
    #[must_use]
    pub fn new(geometry: DeviceGeometry) -> Self {
        Self::from_image(geometry, Image::new())
    }

    /// A device that holds these bytes, as after a crash.
    #[must_use]
    pub fn from_image(geometry: DeviceGeometry, image: Image) -> Self {
        Self {
            geometry,
            image: Mutex::new(image),
        }
    }

    /// The bytes as they are now.
    #[must_use]
    pub fn snapshot(&self) -> Image {
        locked(&self.image).clone()
    }
}

impl Device for MemoryDevice {
    fn geometry(&self) -> DeviceGeometry {
        self.geometry
    }

    fn read(&self, at: DiskByte, buffers: &mut [&mut [u8]]) -> Result<LenBytes, DeviceError> {
        let image = locked(&self.image);
        let len = read_len(self.geometry, &image, at, buffers)?;
        Ok(scatter(&image, at, len, buffers))
    }

    fn write(&self, at: DiskByte, buffers: &[&[u8]]) -> Result<LenBytes, DeviceError> {
        let len = write_len(self.geometry, at, buffers)?;
        locked(&self.image).write(at, &gather(buffers, len));
        Ok(len)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn write_zeroes(&self, at: DiskByte, len: LenBytes) -> Result<(), DeviceError> {
        check_range(self.geometry, at, len)?;
        locked(&self.image).zero(at, len);
        Ok(())
    }

    fn discard(&self, at: DiskByte, len: LenBytes) -> Result<(), DeviceError> {
        check_range(self.geometry, at, len)?;
        locked(&self.image).overwrite_held(at, len, DISCARDED);
        Ok(())
    }
}

/// Bytes that a read moves.
pub(super) fn read_len(
    geometry: DeviceGeometry,
    image: &Image,
    at: DiskByte,
    buffers: &[&mut [u8]],
) -> Result<LenBytes, DeviceError> {
    let lens = buffers.iter().map(|buffer| buffer.len() as u64);
    let len = aligned_len(geometry, at, lens)?;
    let end = reachable(geometry).unwrap_or(image.end().get());
    let len = len.min(end.saturating_sub(at.get()));
    Ok(at_most_one_transfer(geometry, len))
}

/// Bytes that a write moves.
pub(super) fn write_len(
    geometry: DeviceGeometry,
    at: DiskByte,
    buffers: &[&[u8]],
) -> Result<LenBytes, DeviceError> {
    let lens = buffers.iter().map(|buffer| buffer.len() as u64);
    let len = aligned_len(geometry, at, lens)?;
    if at.checked_add(LenBytes::new(len)).is_none() {
        return Err(ErrorClass::TooLarge.into());
    }
    let room = reachable(geometry).map_or(len, |end| end.saturating_sub(at.get()));
    if room == 0 && len > 0 {
        return Err(ErrorClass::NoSpace.into());
    }
    Ok(at_most_one_transfer(geometry, len.min(room)))
}

/// Refuses a range to zero or to discard that the device does not have.
pub(super) fn check_range(
    geometry: DeviceGeometry,
    at: DiskByte,
    len: LenBytes,
) -> Result<(), DeviceError> {
    aligned_len(geometry, at, [len.get()].into_iter())?;
    let end = at.checked_add(len).ok_or(ErrorClass::TooLarge)?;
    match reachable(geometry) {
        Some(capacity) if end.get() > capacity && !len.is_zero() => Err(ErrorClass::NoSpace.into()),
        _ => Ok(()),
    }
}

/// Fills the first `len` bytes of `buffers`.
pub(super) fn scatter(
    image: &Image,
    at: DiskByte,
    len: LenBytes,
    buffers: &mut [&mut [u8]],
) -> LenBytes {
    let (mut at, mut rest) = (at.get(), as_usize(len));
    for buffer in buffers {
        let part = rest.min(buffer.len());
        image.read(DiskByte::new(at), &mut buffer[..part]);
        at = at.saturating_add(part as u64);
        rest -= part;
    }
    len
}

/// The first `len` bytes of `buffers` in one piece.
pub(super) fn gather(buffers: &[&[u8]], len: LenBytes) -> Vec<u8> {
    let bytes = buffers.iter().flat_map(|buffer| buffer.iter().copied());
    bytes.take(as_usize(len)).collect()
}

/// The sum of the lengths, if all of them and the address are aligned.
fn aligned_len(
    geometry: DeviceGeometry,
    at: DiskByte,
    mut lens: impl Iterator<Item = u64>,
) -> Result<u64, DeviceError> {
    let block = u64::from(geometry.logical_block());
    let sum = lens.try_fold(0_u64, |sum, len| {
        if !len.is_multiple_of(block) {
            return Err(ErrorClass::Denied);
        }
        sum.checked_add(len).ok_or(ErrorClass::TooLarge)
    })?;
    if at.get().is_multiple_of(block) {
        Ok(sum)
    } else {
        Err(ErrorClass::Denied.into())
    }
}

/// The capacity in whole blocks.
fn reachable(geometry: DeviceGeometry) -> Option<u64> {
    let block = u64::from(geometry.logical_block());
    let capacity = geometry.capacity()?.get();
    Some(capacity - capacity % block)
}

fn at_most_one_transfer(geometry: DeviceGeometry, len: u64) -> LenBytes {
    let len = LenBytes::new(len);
    geometry.transfer_max().map_or(len, |max| max.min(len))
}

/// A length of buffers that exist.
fn as_usize(len: LenBytes) -> usize {
    usize::try_from(len.get()).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use extentwise_device::{read_exact, write_all};

    use super::*;

    fn device(block: u32, capacity: u64) -> MemoryDevice {
        let geometry = DeviceGeometry::new(block, block).unwrap();
        MemoryDevice::new(geometry.with_capacity(LenBytes::new(capacity)))
    }

    #[test]
    fn c7_addresses_about_2_to_the_63_hold_bytes() {
        let device = MemoryDevice::new(DeviceGeometry::new(1, 1).unwrap());
        for at in [(1 << 63) - 3, 1 << 63, u64::MAX - 6] {
            let at = DiskByte::new(at);
            write_all(&device, at, &[b"abc", b"def"]).unwrap();
            let mut read = [0; 6];
            read_exact(&device, at, &mut read).unwrap();
            assert_eq!(&read, b"abcdef");
        }
        let error = device.write(DiskByte::MAX, &[b"a"]).unwrap_err();
        assert_eq!(error.class(), ErrorClass::TooLarge);
    }

    #[test]
    fn c7_a_write_across_the_end_is_short_and_one_behind_it_finds_no_space() {
        let device = device(512, 1500);
        let block = [1; 512];
        let at = DiskByte::new(512);
        let taken = device.write(at, &[&block, &block]).unwrap();
        assert_eq!(taken.get(), 512, "the third block is not whole");
        let error = device.write(DiskByte::new(1024), &[&block]).unwrap_err();
        assert_eq!(error.class(), ErrorClass::NoSpace);
    }

    #[test]
    fn c9_what_is_not_aligned_is_denied_buffer_by_buffer() {
        let device = device(512, 4096);
        let denied = DeviceError::new(ErrorClass::Denied);
        let (half, block) = ([0; 256], [0; 512]);
        assert_eq!(device.write(DiskByte::new(1), &[&block]), Err(denied));
        let halves = device.write(DiskByte::ZERO, &[&half, &half]);
        assert_eq!(halves, Err(denied));
        let read = device.read(DiskByte::ZERO, &mut [&mut [0; 100]]);
        assert_eq!(read, Err(denied));
        let zeroes = device.write_zeroes(DiskByte::new(512), LenBytes::new(1));
        assert_eq!(zeroes, Err(denied));
    }

    #[test]
    fn discarded_bytes_do_not_pass_for_zeros() {
        let device = device(1, 10_000);
        write_all(&device, DiskByte::ZERO, &[&[1; 10]]).unwrap();
        let len = LenBytes::new(10_000);
        device.discard(DiskByte::ZERO, len).unwrap();
        let image = device.snapshot();
        assert_eq!(image.bytes(DiskByte::ZERO, 2), [DISCARDED; 2]);
        device.write_zeroes(DiskByte::ZERO, len).unwrap();
        assert_eq!(device.snapshot(), Image::new());
    }
}
