//! A device for code that asks for a `block_device_driver::BlockDevice`.

use aligned::{A4, Aligned};
use block_device_driver::{BlockDevice, blocks_to_slice, blocks_to_slice_mut};

use crate::{Device, DeviceError, DiskByte, ErrorClass, LenBytes, read_exact, write_all};

/// A device as a [`BlockDevice`], with blocks of any size that is a multiple of its
/// own and of 4; others are refused as [`Denied`](ErrorClass::Denied). Its futures
/// are ready at once: the device waits.
#[derive(Debug)]
pub struct DeviceBlocks<D>(D);

impl<D: Device> DeviceBlocks<D> {
    /// The blocks of `device`.
    pub const fn new(device: D) -> Self {
        Self(device)
    }

    /// The device.
    pub fn into_device(self) -> D {
        self.0
    }

    /// Where `count` blocks of `size` bytes lie, if the device has them.
    fn place(&self, nth: u32, count: usize, size: usize) -> Result<DiskByte, DeviceError> {
        let geometry = self.0.geometry();
        let (size, count) = (size as u64, count as u64);
        let is_block = size > 0
            && size.is_multiple_of(align_of::<A4>() as u64)
            && size.is_multiple_of(u64::from(geometry.logical_block()));
        if !is_block {
            return Err(ErrorClass::Denied.into());
        }
        let len = count.checked_mul(size).map(LenBytes::new);
        let start = u64::from(nth).checked_mul(size).map(DiskByte::new);
        let (len, start) = len.zip(start).ok_or(ErrorClass::TooLarge)?;
        let end = start.checked_add(len).ok_or(ErrorClass::TooLarge)?;
        match geometry.capacity() {
            Some(capacity) if end.get() > capacity.get() => Err(ErrorClass::NoSpace.into()),
            _ => Ok(start),
        }
    }
}

impl<D: Device, const SIZE: usize> BlockDevice<SIZE> for DeviceBlocks<D> {
    type Error = DeviceError;
    type Align = A4;

    /// Blocks behind the end of a device without a capacity read as zero.
    async fn read(
        &mut self,
        block_address: u32,
        data: &mut [Aligned<A4, [u8; SIZE]>],
    ) -> Result<(), DeviceError> {
        let at = self.place(block_address, data.len(), SIZE)?;
        read_exact(&self.0, at, blocks_to_slice_mut(data)).map(|_| ())
    }

    async fn write(
        &mut self,
        block_address: u32,
        data: &[Aligned<A4, [u8; SIZE]>],
    ) -> Result<(), DeviceError> {
        let at = self.place(block_address, data.len(), SIZE)?;
        write_all(&self.0, at, &[blocks_to_slice(data)]).map(|_| ())
    }

    /// Unsupported by a device that has no capacity.
    async fn size(&mut self) -> Result<u64, DeviceError> {
        let capacity = self.0.geometry().capacity();
        capacity.map(LenBytes::get).ok_or(DeviceError::UNSUPPORTED)
    }
}
