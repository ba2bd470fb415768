//! Sizes and limits of a device.

use core::fmt;

use crate::LenBytes;

/// Whether writes that were answered survive a power cut before a flush.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WriteCache {
    /// They may be lost, in any combination: a flush is needed (C8).
    #[default]
    Volatile,
    /// They survive; a flush costs nothing.
    WriteThrough,
}

/// Sizes and limits of a device.
///
/// **Invariant**: blocks are powers of two, the physical one at least as large
/// as the logical; the largest transfer is a multiple of the logical block and
/// not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceGeometry {
    capacity: Option<LenBytes>,
    logical_block: u32,
    physical_block: u32,
    transfer_max: Option<LenBytes>,
    write_cache: WriteCache,
}

/// A size that no device can have, with its name and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceGeometryError {
    /// A block that is no power of two.
    Block(u32),
    /// A physical block smaller than the logical one.
    Physical {
        /// Bytes of the logical block.
        logical: u32,
        /// Bytes of the physical block.
        physical: u32,
    },
    /// A largest transfer that is zero or no multiple of the logical block.
    Transfer(LenBytes),
}

impl DeviceGeometry {
    /// A device whose logical and physical blocks have these sizes in bytes (one
    /// byte: it takes any address and length), without an end, without a largest
    /// transfer, with a volatile cache.
    pub const fn new(logical_block: u32, physical_block: u32) -> Result<Self, DeviceGeometryError> {
        if !logical_block.is_power_of_two() {
            return Err(DeviceGeometryError::Block(logical_block));
        }
        if !physical_block.is_power_of_two() {
            return Err(DeviceGeometryError::Block(physical_block));
        }
        if physical_block < logical_block {
            return Err(DeviceGeometryError::Physical {
                logical: logical_block,
                physical: physical_block,
            });
        }
        Ok(Self {
            capacity: None,
            logical_block,
            physical_block,
            transfer_max: None,
            write_cache: WriteCache::Volatile,
        })
    }

    /// The same with this many bytes; writes past them are refused.
    #[must_use]
    pub const fn with_capacity(self, capacity: LenBytes) -> Self {
        Self {
            capacity: Some(capacity),
            ..self
        }
    }

    /// The same with a largest transfer.
    pub const fn with_transfer_max(self, max: LenBytes) -> Result<Self, DeviceGeometryError> {
        if max.is_zero() || !max.get().is_multiple_of(self.logical_block as u64) {
            return Err(DeviceGeometryError::Transfer(max));
        }
        Ok(Self {
            transfer_max: Some(max),
            ..self
        })
    }

    /// The same with this kind of cache.
    #[must_use]
    pub const fn with_write_cache(self, write_cache: WriteCache) -> Self {
        Self {
            write_cache,
            ..self
        }
    }

    /// Bytes of the device; `None` where it grows as it is written.
    #[must_use]
    pub const fn capacity(self) -> Option<LenBytes> {
        self.capacity
    }

    /// The unit of addresses and lengths, in bytes.
    #[must_use]
    pub const fn logical_block(self) -> u32 {
        self.logical_block
    }

    /// The unit that is written without reading, in bytes.
    #[must_use]
    pub const fn physical_block(self) -> u32 {
        self.physical_block
    }

    /// Bytes that one call takes at the most.
    #[must_use]
    pub const fn transfer_max(self) -> Option<LenBytes> {
        self.transfer_max
    }

    /// Whether a flush is needed.
    #[must_use]
    pub const fn write_cache(self) -> WriteCache {
        self.write_cache
    }
}

impl fmt::Display for DeviceGeometryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block(bytes) => write!(f, "device block of {bytes}: must be a power of two"),
            Self::Physical { logical, physical } => write!(
                f,
                "physical block of {physical}: must not be smaller than the logical one of {logical}"
            ),
            Self::Transfer(max) => write!(
                f,
                "largest transfer {max}: must be a multiple of the logical block, and not zero"
            ),
        }
    }
}

impl core::error::Error for DeviceGeometryError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_no_device_has_are_refused_by_name() {
        assert_eq!(
            DeviceGeometry::new(0, 512),
            Err(DeviceGeometryError::Block(0))
        );
        assert_eq!(
            DeviceGeometry::new(512, 3000),
            Err(DeviceGeometryError::Block(3000))
        );
        assert_eq!(
            DeviceGeometry::new(4096, 512),
            Err(DeviceGeometryError::Physical {
                logical: 4096,
                physical: 512
            })
        );
        let device = DeviceGeometry::new(512, 4096).unwrap();
        for len in [0, 1, 511, u64::MAX] {
            let len = LenBytes::new(len);
            assert_eq!(
                device.with_transfer_max(len),
                Err(DeviceGeometryError::Transfer(len))
            );
        }
        let limited = device.with_transfer_max(LenBytes::new(1024)).unwrap();
        assert_eq!(limited.transfer_max(), Some(LenBytes::new(1024)));
    }
}
