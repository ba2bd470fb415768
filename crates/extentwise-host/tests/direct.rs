//! A direct device conforms, asks for what its file asks for, and copies what
//! lies elsewhere in memory.

mod support;

use std::fs;

use extentwise_device::{Device, DiskByte, ErrorClass, LenBytes, read_exact, write_all};
use extentwise_host::{DirectDevice, FileDevice, FileOptions, Lock, OpenCause};
use extentwise_testkit::conformance::device_conformance;
use tempfile::{tempdir, tempfile, tempfile_in};

use support::{CREATE, LoopDevice, READ, folder_in_memory, skipped};

/// A direct device over an open file, unless its file system has no direct I/O.
fn direct(file: std::fs::File) -> Option<DirectDevice> {
    match DirectDevice::from_file(file, Lock::None) {
        Ok(device) => Some(device),
        Err(error) if matches!(error.cause(), OpenCause::NoDirect) => {
            skipped("direct I/O", &error.to_string());
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn at(offset: usize) -> DiskByte {
    DiskByte::new(offset as u64)
}

#[test]
fn c7_a_direct_file_conforms() {
    if direct(tempfile().unwrap()).is_some() {
        device_conformance(|| direct(tempfile().unwrap()).unwrap());
    }
}

#[test]
fn c7_a_direct_file_in_memory_conforms() {
    let Some(folder) = folder_in_memory() else {
        return skipped("/dev/shm", "is not here");
    };
    if direct(tempfile_in(folder).unwrap()).is_some() {
        device_conformance(|| direct(tempfile_in(folder).unwrap()).unwrap());
    }
}

#[test]
fn c9_a_block_device_says_its_block_and_conforms() {
    for sector in [512, 4096] {
        let Some(device) = LoopDevice::new(sector, 4 << 20) else {
            continue;
        };
        let open = || DirectDevice::open(device.path(), FileOptions::default()).unwrap();
        let geometry = open().geometry();
        assert_eq!(geometry.logical_block(), sector);
        assert!(geometry.physical_block() >= sector);
        assert_eq!(geometry.capacity(), Some(LenBytes::new(4 << 20)));
        assert_eq!(
            open().set_len(LenBytes::ZERO).unwrap_err().class(),
            ErrorClass::Unsupported
        );
        device_conformance(open);
        device_conformance(|| FileDevice::open(device.path(), FileOptions::default()).unwrap());
    }
}

#[test]
fn c9_what_is_not_aligned_is_denied_and_changes_nothing() {
    let Some(device) = direct(tempfile().unwrap()) else {
        return;
    };
    let block = device.geometry().logical_block() as usize;
    assert!(block > 1);
    let bytes = vec![7; 2 * block];
    for (start, len) in [(0, 1), (1, block), (block / 2, block / 2), (0, block + 1)] {
        let written = device.write(at(start), &[&bytes[..len]]).unwrap_err();
        assert_eq!(written.class(), ErrorClass::Denied, "{len} at {start}");
        let read = device.read(at(start), &mut [&mut vec![0; len]]);
        assert_eq!(read.unwrap_err().class(), ErrorClass::Denied);
    }
    assert!(device.is_empty().unwrap());
    // Nothing is aligned.
    assert_eq!(device.write(at(1), &[&[]]), Ok(LenBytes::ZERO));
}

#[test]
fn c9_buffers_may_lie_anywhere_in_memory_and_have_any_share_of_a_block() {
    let Some(device) = direct(tempfile().unwrap()) else {
        return;
    };
    let block = device.geometry().logical_block() as usize;
    // More than goes through at a time.
    let len = (3 << 20) + block;
    let memory: Vec<u8> = (0..251).cycle().take(len + 1).collect();
    for shift in [0, 1] {
        let bytes = &memory[shift..shift + len];
        let parts = [&bytes[..1], &bytes[1..block + 3], &[], &bytes[block + 3..]];
        write_all(&device, at(block), &parts).unwrap();
        let mut read = vec![0xee; len + shift];
        read_exact(&device, at(block), &mut read[shift..]).unwrap();
        assert!(read[shift..] == *bytes, "shifted by {shift}");
        let (mut front, mut back) = (vec![0; 3], vec![0; 2 * block - 3]);
        let read = device.read(at(block), &mut [&mut front, &mut back]);
        assert_eq!(read, Ok(LenBytes::new(2 * block as u64)));
        assert!([front, back].concat() == bytes[..2 * block]);
    }
}

#[test]
fn a_file_that_ends_within_a_block_reads_as_zero_from_there_on_and_is_trimmed() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("disk");
    fs::write(&path, vec![7; 5000]).unwrap();
    let Ok(device) = DirectDevice::open(&path, CREATE) else {
        return skipped("direct I/O", "the file system has none");
    };
    let block = device.geometry().logical_block() as usize;
    let whole = 5000_usize.next_multiple_of(block);
    // Once as it lies, once through a copy.
    for shift in [0, 1] {
        let mut memory = vec![0xee; whole + 2 * block + shift];
        let mut all = 0;
        while all < whole {
            let into = &mut memory[all + shift..];
            let read = device.read(at(all), &mut [into]).unwrap();
            assert!(!read.is_zero());
            all += usize::try_from(read.get()).unwrap();
        }
        assert_eq!(all, whole, "the last block is whole");
        let memory = &memory[shift..];
        assert!(memory[..5000].iter().all(|byte| *byte == 7));
        assert!(memory[5000..whole].iter().all(|byte| *byte == 0));
        assert_eq!(
            device.read(at(whole), &mut [&mut vec![0; block]]),
            Ok(LenBytes::ZERO)
        );
    }
    let last = whole - block;
    write_all(&device, at(last), &[&vec![9; block]]).unwrap();
    assert_eq!(device.len().unwrap().get(), whole as u64);
    device.set_len(LenBytes::new(5000)).unwrap();
    let bytes = fs::read(&path).unwrap();
    assert_eq!(bytes.len(), 5000);
    assert!(bytes[..last].iter().all(|byte| *byte == 7));
    assert!(bytes[last..].iter().all(|byte| *byte == 9));
}

#[test]
fn holes_and_zeroes_of_a_direct_file_are_those_of_any_file() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("disk");
    let Ok(device) = DirectDevice::open(&path, CREATE) else {
        return skipped("direct I/O", "the file system has none");
    };
    write_all(&device, DiskByte::ZERO, &[&[7; 16384]]).unwrap();
    device.flush().unwrap();
    for (start, len) in [(4096, 4096), (9000, 10)] {
        device.discard(at(start), LenBytes::new(len)).unwrap();
    }
    device.write_zeroes(at(100), LenBytes::new(5)).unwrap();
    let bytes = fs::read(&path).unwrap();
    let zeros: Vec<usize> = (0..bytes.len()).filter(|nth| bytes[*nth] == 0).collect();
    let expected: Vec<usize> = (100..105).chain(4096..8192).chain(9000..9010).collect();
    assert_eq!(zeros, expected);
}

#[test]
fn a_file_without_direct_io_is_refused_by_name() {
    // Files of the kernel's own have none.
    let error = DirectDevice::open("/proc/self/status", READ).unwrap_err();
    assert!(matches!(error.cause(), OpenCause::NoDirect), "{error}");
    assert!(
        error
            .to_string()
            .contains("/proc/self/status: has no direct I/O")
    );
}

#[test]
fn a_locked_direct_file_is_in_use() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("disk");
    let locked = FileOptions {
        lock: Lock::Exclusive,
        ..CREATE
    };
    let Ok(device) = DirectDevice::open(&path, locked) else {
        return skipped("direct I/O", "the file system has none");
    };
    let error = FileDevice::open(&path, locked).unwrap_err();
    assert!(matches!(error.cause(), OpenCause::InUse));
    drop(device.into_file());
    drop(FileDevice::open(&path, locked).unwrap());
}
