//! Devices behind the traits of other crates.

use std::pin::pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

use aligned::{A4, Aligned};
use block_device_driver::BlockDevice;
use embedded_io::{Error as _, ErrorKind, Read, Seek, SeekFrom, Write};
use extentwise_device::{
    Device, DeviceBlocks, DeviceError, DeviceGeometry, DeviceStream, DiskByte, ErrorClass,
    LenBytes, StreamError,
};

const BLOCK: usize = 16;
const LEN: usize = 20 * BLOCK;

/// Bytes in memory that are moved in whole blocks alone, at most two at a time.
struct Ram {
    bytes: Mutex<Vec<u8>>,
    flushes: Mutex<u32>,
}

impl Ram {
    fn new() -> Self {
        Self {
            bytes: Mutex::new((0..LEN).map(|at| u8::try_from(at % 251).unwrap()).collect()),
            flushes: Mutex::new(0),
        }
    }

    fn start(at: DiskByte, len: usize) -> Result<usize, DeviceError> {
        let at = usize::try_from(at.get()).unwrap();
        if !at.is_multiple_of(BLOCK) || !len.is_multiple_of(BLOCK) {
            return Err(ErrorClass::Denied.into());
        }
        Ok(at)
    }
}

impl Device for &Ram {
    fn geometry(&self) -> DeviceGeometry {
        let block = u32::try_from(BLOCK).unwrap();
        let geometry = DeviceGeometry::new(block, block).unwrap();
        geometry.with_capacity(LenBytes::new(LEN as u64))
    }

    fn read(&self, at: DiskByte, buffers: &mut [&mut [u8]]) -> Result<LenBytes, DeviceError> {
        let into = &mut buffers[0];
        let at = Ram::start(at, into.len())?;
        let len = into.len().min(2 * BLOCK);
        into[..len].copy_from_slice(&self.bytes.lock().unwrap()[at..at + len]);
        Ok(LenBytes::new(len as u64))
    }

    fn write(&self, at: DiskByte, buffers: &[&[u8]]) -> Result<LenBytes, DeviceError> {
        let from = buffers[0];
        let at = Ram::start(at, from.len())?;
        let len = from.len().min(2 * BLOCK);
        self.bytes.lock().unwrap()[at..at + len].copy_from_slice(&from[..len]);
        Ok(LenBytes::new(len as u64))
    }

    fn flush(&self) -> Result<(), DeviceError> {
        *self.flushes.lock().unwrap() += 1;
        Ok(())
    }
}

#[test]
fn a_stream_reads_and_writes_any_place_and_length() {
    let ram = Ram::new();
    let mut right = ram.bytes.lock().unwrap().clone();
    let mut buffer = [0; BLOCK + 3];
    let len = LEN - 5;
    let mut stream = DeviceStream::new(&ram, LenBytes::new(len as u64), &mut buffer).unwrap();
    for start in 0..len {
        for part in [1, 7, BLOCK, 2 * BLOCK + 1, 5 * BLOCK] {
            let end = len.min(start + part);
            let new: Vec<u8> = (start..end)
                .map(|at| u8::try_from((at * 7 + part) % 256).unwrap())
                .collect();
            stream.seek(SeekFrom::Start(start as u64)).unwrap();
            stream.write_all(&new).unwrap();
            right[start..end].copy_from_slice(&new);
            let mut found = vec![0; end - start];
            let back = i64::try_from(end - start).unwrap();
            assert_eq!(stream.seek(SeekFrom::Current(-back)), Ok(start as u64));
            stream.read_exact(&mut found).unwrap();
            assert_eq!(found, new, "{start}..{end}");
        }
    }
    assert_eq!(*ram.bytes.lock().unwrap(), right);
    stream.flush().unwrap();
    assert_eq!(*ram.flushes.lock().unwrap(), 1);
}

#[test]
fn behind_the_end_of_a_stream_is_nothing_to_read_and_no_room() {
    let ram = Ram::new();
    let mut buffer = [0; BLOCK];
    let mut stream = DeviceStream::new(&ram, LenBytes::new(30), &mut buffer).unwrap();
    stream.seek(SeekFrom::End(-2)).unwrap();
    assert_eq!(stream.read(&mut [0; 9]), Ok(2));
    assert_eq!(stream.read(&mut [0; 9]), Ok(0));
    assert_eq!(stream.write(&[]), Ok(0));
    let full = StreamError::Device(ErrorClass::NoSpace.into());
    assert_eq!(stream.write(&[1]), Err(full));
    assert_eq!(stream.seek(SeekFrom::Start(u64::MAX)), Ok(u64::MAX));
    assert_eq!(stream.read(&mut [0; 9]), Ok(0));
    let refused = stream.seek(SeekFrom::Current(1)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    assert_eq!(
        stream.seek(SeekFrom::End(-31)).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
    assert_eq!(
        stream.seek(SeekFrom::Current(0)),
        Ok(u64::MAX),
        "a refused seek moves nothing"
    );
}

#[test]
fn a_stream_that_cannot_be_is_refused_with_the_class() {
    let ram = Ram::new();
    for (len, buffer_len, class) in [
        (30, BLOCK - 1, ErrorClass::Denied),
        (LEN as u64 + 1, BLOCK, ErrorClass::NoSpace),
        (u64::MAX, BLOCK, ErrorClass::TooLarge),
    ] {
        let mut buffer = vec![0; buffer_len];
        let refused = DeviceStream::new(&ram, LenBytes::new(len), &mut buffer);
        assert_eq!(refused.err().map(DeviceError::class), Some(class));
    }
}

fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the device waits, not the future"),
    }
}

fn blocks<const SIZE: usize>(byte: u8) -> [Aligned<A4, [u8; SIZE]>; 3] {
    [
        Aligned([byte; SIZE]),
        Aligned([byte + 1; SIZE]),
        Aligned([byte + 2; SIZE]),
    ]
}

#[test]
fn blocks_lie_where_their_number_says_in_any_multiple_of_the_devices_own() {
    let ram = Ram::new();
    let mut device = DeviceBlocks::new(&ram);
    let size = ready(BlockDevice::<32>::size(&mut device));
    assert_eq!(size, Ok(LEN as u64));
    ready(device.write(2, &blocks::<32>(100))).unwrap();
    assert_eq!(
        ram.bytes.lock().unwrap()[64..160],
        [[100; 32], [101; 32], [102; 32]].concat()
    );
    let mut found = blocks::<16>(0);
    ready(device.read(5, &mut found)).unwrap();
    let found: Vec<[u8; 16]> = found.iter().map(|block| **block).collect();
    assert_eq!(found, [[100; 16], [101; 16], [101; 16]]);
}

#[test]
fn blocks_past_the_end_or_of_another_size_are_refused() {
    let ram = Ram::new();
    let mut device = DeviceBlocks::new(&ram);
    let class = |result: Result<(), DeviceError>| result.err().map(DeviceError::class);
    let no_space = Some(ErrorClass::NoSpace);
    assert_eq!(
        class(ready(device.read(18, &mut blocks::<16>(0)))),
        no_space
    );
    assert_eq!(
        class(ready(device.write(u32::MAX, &blocks::<16>(0)))),
        no_space
    );
    assert_eq!(
        class(ready(device.read(0, &mut blocks::<8>(0)))),
        Some(ErrorClass::Denied)
    );
    assert_eq!(
        class(ready(device.read(0, &mut blocks::<17>(0)))),
        Some(ErrorClass::Denied)
    );
    assert_eq!(
        *ram.bytes.lock().unwrap(),
        *Ram::new().bytes.lock().unwrap()
    );
}
