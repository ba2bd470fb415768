//! A device for code that reads and writes by `embedded-io`.

use core::fmt;

use embedded_io::{ErrorKind, ErrorType, Read, Seek, SeekFrom, Write};

use crate::{Device, DeviceError, DiskByte, ErrorClass, LenBytes, read_exact, write_all};

/// The front of a device as a stream with a position, by the traits of
/// `embedded-io`. Any position and length is good: what is no whole block goes
/// through a buffer that the caller lends, blocks that are written in part are
/// read first.
///
/// What is written is durable after a flush. Behind the end there is nothing to
/// read, and no room to write ([`NoSpace`](ErrorClass::NoSpace)).
///
/// **Invariant**: the buffer has the length of a logical block; the position may
/// lie behind the end.
#[derive(Debug)]
pub struct DeviceStream<'a, D> {
    device: D,
    len: u64,
    position: u64,
    block: &'a mut [u8],
}

impl<'a, D: Device> DeviceStream<'a, D> {
    /// The first `len` bytes of `device`, from its start. Refused are a buffer that
    /// is shorter than a logical block ([`Denied`](ErrorClass::Denied)), and more
    /// bytes than the device has whole blocks for ([`NoSpace`](ErrorClass::NoSpace)).
    pub fn new(device: D, len: LenBytes, buffer: &'a mut [u8]) -> Result<Self, DeviceError> {
        let geometry = device.geometry();
        let block_len = geometry.logical_block();
        let block = usize::try_from(block_len).ok();
        let block = block.and_then(|block_len| buffer.get_mut(..block_len));
        let block = block.ok_or(ErrorClass::Denied)?;
        let end = len.get().checked_next_multiple_of(u64::from(block_len));
        let end = end.ok_or(ErrorClass::TooLarge)?;
        match geometry.capacity() {
            Some(capacity) if end > capacity.get() => Err(ErrorClass::NoSpace.into()),
            _ => Ok(Self {
                device,
                len: len.get(),
                position: 0,
                block,
            }),
        }
    }

    /// The device.
    pub fn into_device(self) -> D {
        self.device
    }

    /// How many of `wanted` bytes there are from the position on.
    fn within(&self, wanted: usize) -> usize {
        let left = self.len.saturating_sub(self.position);
        usize::try_from(left).map_or(wanted, |left| wanted.min(left))
    }

    /// The bytes of `len` from the position on that are whole blocks.
    fn whole(&self, len: usize) -> usize {
        match self.skip() {
            0 => len - len % self.block.len(),
            _ => 0,
        }
    }

    /// How far into its block the position lies.
    fn skip(&self) -> usize {
        let skip = self.position % self.block.len() as u64;
        usize::try_from(skip).unwrap_or(0)
    }

    /// Reads the block of the position into the buffer; answers where it lies.
    fn fetch(&mut self) -> Result<DiskByte, DeviceError> {
        let start = DiskByte::new(self.position - self.skip() as u64);
        read_exact(&self.device, start, self.block)?;
        Ok(start)
    }

    /// The part of the buffer from the position on, of at most `len` bytes.
    fn part(&mut self, len: usize) -> &mut [u8] {
        let skip = self.skip();
        let end = skip.saturating_add(len).min(self.block.len());
        self.block.get_mut(skip..end).unwrap_or_default()
    }
}

impl<D: Device> ErrorType for DeviceStream<'_, D> {
    type Error = StreamError;
}

impl<D: Device> Read for DeviceStream<'_, D> {
    fn read(&mut self, into: &mut [u8]) -> Result<usize, StreamError> {
        let len = self.within(into.len());
        if len == 0 {
            return Ok(0);
        }
        let whole = self.whole(len);
        let read = if whole > 0 {
            let into = into.get_mut(..whole).unwrap_or_default();
            read_exact(&self.device, DiskByte::new(self.position), into)?;
            whole
        } else {
            self.fetch()?;
            let from = self.part(len);
            let into = into.get_mut(..from.len()).unwrap_or_default();
            into.copy_from_slice(from);
            into.len()
        };
        self.position += read as u64;
        Ok(read)
    }
}

impl<D: Device> Write for DeviceStream<'_, D> {
    fn write(&mut self, from: &[u8]) -> Result<usize, StreamError> {
        if from.is_empty() {
            return Ok(0);
        }
        let len = self.within(from.len());
        if len == 0 {
            return Err(DeviceError::new(ErrorClass::NoSpace).into());
        }
        let whole = self.whole(len);
        let written = if whole > 0 {
            let from = from.get(..whole).unwrap_or_default();
            write_all(&self.device, DiskByte::new(self.position), &[from])?;
            whole
        } else {
            let start = self.fetch()?;
            let into = self.part(len);
            let from = from.get(..into.len()).unwrap_or_default();
            into.copy_from_slice(from);
            write_all(&self.device, start, &[self.block])?;
            from.len()
        };
        self.position += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> Result<(), StreamError> {
        Ok(self.device.flush()?)
    }
}

impl<D: Device> Seek for DeviceStream<'_, D> {
    fn seek(&mut self, to: SeekFrom) -> Result<u64, StreamError> {
        let target = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(by) => self.len.checked_add_signed(by),
        };
        self.position = target.ok_or(StreamError::Seek(to))?;
        Ok(self.position)
    }
}

/// Why a stream refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamError {
    /// The device did.
    Device(DeviceError),
    /// The position would lie before the start or past 2^64 - 1.
    Seek(SeekFrom),
}

impl From<DeviceError> for StreamError {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(error) => error.fmt(f),
            Self::Seek(to) => write!(f, "seek {to:?}: before the start or past 2^64 - 1"),
        }
    }
}

impl core::error::Error for StreamError {}

impl embedded_io::Error for StreamError {
    fn kind(&self) -> ErrorKind {
        let Self::Device(error) = self else {
            return ErrorKind::InvalidInput;
        };
        match error.class() {
            ErrorClass::Denied | ErrorClass::ReadOnly => ErrorKind::PermissionDenied,
            ErrorClass::NoMemory => ErrorKind::OutOfMemory,
            ErrorClass::Unsupported => ErrorKind::Unsupported,
            _ => ErrorKind::Other,
        }
    }
}
