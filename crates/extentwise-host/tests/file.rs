//! A file device conforms, and refuses with a class or a reason.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use extentwise_device::{
    Device, DeviceError, DiskByte, ErrorClass, LenBytes, read_exact, write_all,
};
use extentwise_host::{Access, FileDevice, FileOptions, Lock, Missing, OpenCause};
use extentwise_testkit::conformance::device_conformance;

const CREATE: FileOptions = FileOptions {
    access: Access::ReadWrite,
    missing: Missing::Create,
    lock: Lock::None,
};

fn refusal(path: &Path, options: FileOptions) -> String {
    FileDevice::open(path, options).unwrap_err().to_string()
}

#[test]
fn c7_a_file_conforms() {
    let file = || tempfile::tempfile().unwrap();
    device_conformance(|| FileDevice::from_file(file(), Lock::None).unwrap());
}

#[test]
fn c7_a_file_in_memory_conforms() {
    // tmpfs punches holes, but does not zero ranges.
    let folder = Path::new("/dev/shm");
    if folder.is_dir() {
        let file = || tempfile::tempfile_in(folder).unwrap();
        device_conformance(|| FileDevice::from_file(file(), Lock::None).unwrap());
    }
}

#[test]
fn what_is_written_is_in_the_file_and_holes_leave_its_size() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let device = FileDevice::open(&path, CREATE).unwrap();
    assert!(device.is_empty().unwrap());
    write_all(&device, DiskByte::new(3), &[b"abc", b"", b"defg"]).unwrap();
    device.flush().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"\0\0\0abcdefg");
    assert_eq!(device.len().unwrap(), LenBytes::new(10));

    device.discard(DiskByte::new(4), LenBytes::new(2)).unwrap();
    device
        .discard(DiskByte::new(9), LenBytes::new(100))
        .unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"\0\0\0a\0\0def\0");
    device.set_len(LenBytes::new(5)).unwrap();
    device.set_len(LenBytes::new(7)).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"\0\0\0a\0\0\0");
}

#[test]
fn c7_a_full_device_says_no_space_with_its_number() {
    let options = FileOptions {
        access: Access::ReadWrite,
        ..FileOptions::default()
    };
    let device = FileDevice::open("/dev/full", options).unwrap();
    let error = write_all(&device, DiskByte::ZERO, &[b"abc"]).unwrap_err();
    let enospc = 28;
    assert_eq!(
        error,
        DeviceError::with_os_code(ErrorClass::NoSpace, enospc)
    );
    let flushed = device.flush().unwrap_err();
    assert_eq!(flushed.class(), ErrorClass::Unsupported);
}

#[test]
fn a_file_that_is_open_to_read_denies_changes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    fs::write(&path, b"abc").unwrap();
    let options = FileOptions {
        access: Access::Read,
        ..FileOptions::default()
    };
    let device = FileDevice::open(&path, options).unwrap();
    let (at, len) = (DiskByte::ZERO, LenBytes::new(1));
    let written = device.write(at, &[b"x"]).unwrap_err();
    assert_eq!(written.class(), ErrorClass::Denied);
    assert!(written.os_code().is_some());
    let zeroed = device.write_zeroes(at, len).unwrap_err();
    assert_eq!(zeroed.class(), ErrorClass::Denied);
    let mut read = [0; 4];
    read_exact(&device, at, &mut read).unwrap();
    assert_eq!(&read, b"abc\0");
}

#[test]
fn no_file_reaches_past_63_bits() {
    let device = FileDevice::from_file(tempfile::tempfile().unwrap(), Lock::None).unwrap();
    let too_large = |answer: Result<LenBytes, DeviceError>| {
        assert_eq!(answer.unwrap_err().class(), ErrorClass::TooLarge);
    };
    let one = LenBytes::new(1);
    for at in [i64::MAX as u64, 1 << 63, u64::MAX] {
        let at = DiskByte::new(at);
        too_large(device.write(at, &[b"x"]));
        too_large(device.write_zeroes(at, one).map(|()| one));
        too_large(device.discard(at, one).map(|()| one));
        let read = device.read(at, &mut [&mut [0; 4]]);
        assert_eq!(read, Ok(LenBytes::ZERO));
    }
    // The last byte but four of them is past what file systems take as well.
    too_large(device.write(DiskByte::new(i64::MAX as u64 - 4), &[b"abcdefgh"]));
    for len in [1 << 63, u64::MAX] {
        let answer = device.set_len(LenBytes::new(len));
        too_large(answer.map(|()| one));
    }
    assert!(device.is_empty().unwrap());
}

#[test]
fn what_is_no_file_is_refused_with_its_path_and_kind() {
    let folder = tempfile::tempdir().unwrap();
    let read = FileOptions {
        access: Access::Read,
        ..FileOptions::default()
    };
    let error = refusal(folder.path(), read);
    let path = folder.path().display();
    assert_eq!(
        error,
        format!("{path}: is a directory: a device is a file or a block device")
    );
    // The operating system refuses it before it is looked at.
    let error = FileDevice::open(folder.path(), CREATE).unwrap_err();
    assert!(matches!(error.cause(), OpenCause::Os(_)), "{error}");

    let missing = folder.path().join("missing");
    let error = refusal(&missing, FileOptions::default());
    assert!(error.starts_with(&missing.display().to_string()), "{error}");
    assert!(!missing.exists());
}

#[test]
fn files_that_ignore_addresses_or_want_aligned_memory_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    fs::write(&path, b"").unwrap();
    let append = OpenOptions::new().append(true).open(&path).unwrap();
    let error = FileDevice::from_file(append, Lock::None).unwrap_err();
    assert!(matches!(error.cause(), OpenCause::Append));
    let direct = OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::DIRECT.bits().cast_signed())
        .open(&path);
    // Some file systems have no direct I/O.
    if let Ok(direct) = direct {
        let error = FileDevice::from_file(direct, Lock::None).unwrap_err();
        assert!(matches!(error.cause(), OpenCause::Direct));
    }
}

#[test]
fn a_locked_file_is_in_use_until_its_device_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let locked = FileOptions {
        lock: Lock::Exclusive,
        ..CREATE
    };
    let device = FileDevice::open(&path, locked).unwrap();
    let error = refusal(&path, locked);
    assert!(error.contains("is in use by another process"), "{error}");
    drop(FileDevice::open(&path, CREATE).unwrap());
    drop(device);
    drop(FileDevice::open(&path, locked).unwrap());
}

#[test]
fn a_pipe_is_refused_without_waiting_for_its_other_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    let (mode, kind) = (rustix::fs::Mode::RUSR, rustix::fs::FileType::Fifo);
    rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).unwrap();
    let read = FileOptions {
        access: Access::Read,
        ..FileOptions::default()
    };
    assert!(refusal(&path, read).contains("is a pipe"));
}

#[test]
fn the_file_comes_back() {
    let device = FileDevice::from_file(tempfile::tempfile().unwrap(), Lock::None).unwrap();
    write_all(&device, DiskByte::ZERO, &[b"abc"]).unwrap();
    let file = device.into_file();
    assert_eq!(file.metadata().unwrap().len(), 3);
}
