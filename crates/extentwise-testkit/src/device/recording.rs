//! A device whose calls are logged.

use std::sync::Mutex;

use extentwise_device::{Device, DeviceError, DeviceGeometry, DiskByte, LenBytes};

use super::{Call, CallKind, locked};

/// Whether a log holds hashes of what was moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Contents {
    /// Addresses and lengths only.
    #[default]
    Ignored,
    /// A hash for each read and write, the same on every machine.
    Hashed,
}

/// Passes every call on, and logs it with its answer.
#[derive(Debug)]
pub struct RecordingDevice<D> {
    device: D,
    contents: Contents,
    calls: Mutex<Vec<Call>>,
}

impl<D> RecordingDevice<D> {
    /// Logs the calls of `device`.
    #[must_use]
    pub fn new(device: D, contents: Contents) -> Self {
        Self {
            device,
            contents,
            calls: Mutex::default(),
        }
    }

    /// The calls so far, in the order in which they were answered.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        locked(&self.calls).clone()
    }

    /// The calls so far; the log starts anew.
    #[must_use]
    pub fn take_calls(&self) -> Vec<Call> {
        std::mem::take(&mut *locked(&self.calls))
    }

    /// How many calls of this kind the log holds.
    #[must_use]
    pub fn count(&self, kind: CallKind) -> usize {
        let calls = locked(&self.calls);
        calls.iter().filter(|call| call.kind == kind).count()
    }

    /// Bytes that calls of this kind moved.
    #[must_use]
    pub fn bytes(&self, kind: CallKind) -> LenBytes {
        let calls = locked(&self.calls);
        let calls = calls.iter().filter(|call| call.kind == kind);
        let bytes = calls.filter_map(|call| call.answer.ok());
        bytes.fold(LenBytes::ZERO, LenBytes::saturating_add)
    }

    /// The device inside.
    #[must_use]
    pub fn inner(&self) -> &D {
        &self.device
    }

    /// The device inside, for good.
    #[must_use]
    pub fn into_inner(self) -> D {
        self.device
    }

    fn log(&self, kind: CallKind, at: DiskByte, len: LenBytes, answer: Answer) {
        self.log_content(kind, at, len, answer, None);
    }

    fn log_content(
        &self,
        kind: CallKind,
        at: DiskByte,
        len: LenBytes,
        answer: Answer,
        content: Option<u64>,
    ) {
        locked(&self.calls).push(Call {
            kind,
            at,
            len,
            answer,
            content,
        });
    }

    fn content<'b>(&self, answer: Answer, buffers: impl Iterator<Item = &'b [u8]>) -> Option<u64> {
        let moved = answer.ok().filter(|_| self.contents == Contents::Hashed)?;
        let moved = usize::try_from(moved.get()).unwrap_or(usize::MAX);
        Some(hash(buffers.flatten().take(moved)))
    }
}

type Answer = Result<LenBytes, DeviceError>;

impl<D: Device> Device for RecordingDevice<D> {
    fn geometry(&self) -> DeviceGeometry {
        self.device.geometry()
    }

    fn read(&self, at: DiskByte, buffers: &mut [&mut [u8]]) -> Answer {
        let len = len(buffers.iter().map(|buffer| buffer.len()));
        let answer = self.device.read(at, buffers);
        let content = self.content(answer, buffers.iter().map(|buffer| &**buffer));
        self.log_content(CallKind::Read, at, len, answer, content);
        answer
    }

    fn write(&self, at: DiskByte, buffers: &[&[u8]]) -> Answer {
        let len = len(buffers.iter().map(|buffer| buffer.len()));
        let answer = self.device.write(at, buffers);
        let content = self.content(answer, buffers.iter().copied());
        self.log_content(CallKind::Write, at, len, answer, content);
        answer
    }

    fn flush(&self) -> Result<(), DeviceError> {
        let answer = self.device.flush();
        let (at, len) = (DiskByte::ZERO, LenBytes::ZERO);
        self.log(CallKind::Flush, at, len, answer.map(|()| len));
        answer
    }

    fn write_zeroes(&self, at: DiskByte, len: LenBytes) -> Result<(), DeviceError> {
        let answer = self.device.write_zeroes(at, len);
        self.log(CallKind::WriteZeroes, at, len, answer.map(|()| len));
        answer
    }

    fn discard(&self, at: DiskByte, len: LenBytes) -> Result<(), DeviceError> {
        let answer = self.device.discard(at, len);
        self.log(CallKind::Discard, at, len, answer.map(|()| len));
        answer
    }
}

fn len(lens: impl Iterator<Item = usize>) -> LenBytes {
    lens.fold(LenBytes::ZERO, |sum, len| {
        sum.saturating_add(LenBytes::new(len as u64))
    })
}

/// FNV-1a of 64 bits: short, and enough to tell contents of tests apart.
fn hash<'b>(bytes: impl Iterator<Item = &'b u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use extentwise_device::ErrorClass;

    use super::super::MemoryDevice;
    use super::*;

    #[test]
    fn every_call_is_logged_with_its_answer() {
        let geometry = DeviceGeometry::new(512, 512).unwrap();
        let device = MemoryDevice::new(geometry);
        let device = RecordingDevice::new(device, Contents::Hashed);
        let at = DiskByte::new(512);
        let len = LenBytes::new(1024);
        let (block, mut buffer) = ([1; 512], [0; 1024]);
        device.write(at, &[&block, &block]).unwrap();
        device.flush().unwrap();
        device.read(at, &mut [&mut buffer]).unwrap();
        device.write_zeroes(at, len).unwrap();
        device.discard(at, len).unwrap();
        device.write(at, &[&block[1..]]).unwrap_err();

        let calls = device.calls();
        let kinds: Vec<_> = calls.iter().map(|call| call.kind).collect();
        assert_eq!(
            kinds,
            [
                CallKind::Write,
                CallKind::Flush,
                CallKind::Read,
                CallKind::WriteZeroes,
                CallKind::Discard,
                CallKind::Write
            ]
        );
        assert_eq!((calls[0].at, calls[0].answer), (at, Ok(len)));
        assert!(calls[0].content.is_some());
        assert_eq!(
            calls[0].content, calls[2].content,
            "what was written is read"
        );
        assert_eq!(calls[5].answer, Err(ErrorClass::Denied.into()));
        assert_eq!(calls[5].len.get(), 511);
        assert_eq!(device.count(CallKind::Write), 2);
        assert_eq!(device.bytes(CallKind::Write), len);
        assert_eq!(device.take_calls().len(), 6);
        assert!(device.calls().is_empty());
    }

    #[test]
    fn contents_that_differ_have_different_hashes() {
        let device = MemoryDevice::new(DeviceGeometry::new(1, 1).unwrap());
        let device = RecordingDevice::new(device, Contents::Hashed);
        for bytes in [b"abc", b"abd", b"bac"] {
            device.write(DiskByte::ZERO, &[bytes]).unwrap();
        }
        let mut contents: Vec<_> = device.calls().iter().map(|call| call.content).collect();
        contents.dedup();
        assert_eq!(contents.len(), 3);
    }
}
