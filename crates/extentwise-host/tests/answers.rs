//! A medium that is full, read-only or gone answers with its class, whichever
//! way to it is taken.

mod support;

use std::path::Path;

use extentwise_device::{Device, DeviceError, DiskByte, ErrorClass, LenBytes, write_all};
#[cfg(feature = "uring")]
use extentwise_host::UringDevice;
use extentwise_host::{DirectDevice, FileDevice, FileOptions, OpenCause, OpenError};

use support::{CREATE, LoopDevice, READ, SmallMount, skipped};

type Way = (
    &'static str,
    fn(&Path, FileOptions) -> Result<Box<dyn Device>, OpenError>,
);

/// Every way to a file.
const WAYS: &[Way] = &[
    ("buffered", |path, options| {
        Ok(Box::new(FileDevice::open(path, options)?))
    }),
    ("direct", |path, options| {
        Ok(Box::new(DirectDevice::open(path, options)?))
    }),
    #[cfg(feature = "uring")]
    ("uring", |path, options| {
        let file = FileDevice::open(path, options)?;
        Ok(Box::new(UringDevice::buffered(file).expect("a ring")))
    }),
    #[cfg(feature = "uring")]
    ("uring, direct", |path, options| {
        let file = DirectDevice::open(path, options)?;
        Ok(Box::new(UringDevice::direct(file).expect("a ring")))
    }),
];

/// The ways that this kernel has.
fn ways() -> impl Iterator<Item = &'static Way> {
    #[cfg(feature = "uring")]
    let rings = support::has_rings();
    #[cfg(not(feature = "uring"))]
    let rings = false;
    WAYS.iter()
        .filter(move |(name, _)| rings || !name.starts_with("uring"))
}

/// Shows `see` a device of each way that the file system has.
fn for_each_way(path: &Path, options: FileOptions, mut see: impl FnMut(&str, &dyn Device)) {
    for (name, open) in ways() {
        match open(path, options) {
            Ok(device) => see(name, &*device),
            Err(error) if matches!(error.cause(), OpenCause::NoDirect) => {
                skipped(name, &error.to_string());
            }
            Err(error) => panic!("{name}: {error}"),
        }
    }
}

/// Writes until the device refuses.
fn fill(device: &dyn Device, len: usize) -> DeviceError {
    let bytes = vec![7; 65536];
    for nth in 0..=len.div_ceil(bytes.len()) {
        let at = DiskByte::new((nth * bytes.len()) as u64);
        if let Err(error) = write_all(device, at, &[&bytes]) {
            return error;
        }
    }
    panic!("more than {len} bytes fit");
}

#[test]
fn c7_a_full_file_system_is_no_space() {
    let Some(mount) = SmallMount::new(1 << 20) else {
        return;
    };
    let path = mount.path().join("disk");
    for_each_way(&path, CREATE, |name, device| {
        std::fs::File::options()
            .write(true)
            .truncate(true)
            .open(&path)
            .unwrap();
        let error = fill(device, 1 << 20);
        assert_eq!(error.class(), ErrorClass::NoSpace, "{name}");
        let enospc = 28;
        assert!(error.os_code().is_none_or(|code| code == enospc), "{name}");
    });
}

#[test]
fn c7_a_full_block_device_is_no_space() {
    let len = 1 << 20;
    let Some(medium) = LoopDevice::new(512, len) else {
        return;
    };
    for_each_way(medium.path(), FileOptions::default(), |name, device| {
        let error = fill(device, 1 << 20);
        assert_eq!(error.class(), ErrorClass::NoSpace, "{name}");
        let end = DiskByte::new(len);
        for answer in [
            device.write_zeroes(end, LenBytes::new(512)),
            device.discard(end, LenBytes::new(512)),
        ] {
            assert_eq!(answer.unwrap_err().class(), ErrorClass::NoSpace, "{name}");
        }
    });
}

#[test]
fn a_file_that_is_open_to_read_denies_changes_every_way() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    std::fs::write(&path, vec![7; 8192]).unwrap();
    for_each_way(&path, READ, |name, device| {
        let written = device.write(DiskByte::ZERO, &[&[1; 4096]]).unwrap_err();
        assert_eq!(written.class(), ErrorClass::Denied, "{name}");
        let len = LenBytes::new(4096);
        let zeroed = device.write_zeroes(DiskByte::ZERO, len).unwrap_err();
        assert_eq!(zeroed.class(), ErrorClass::Denied, "{name}");
        let mut read = [0; 4096];
        assert_eq!(device.read(DiskByte::ZERO, &mut [&mut read]), Ok(len));
        assert_eq!(read, [7; 4096], "{name}");
    });
}

#[test]
fn a_read_only_file_system_is_read_only_to_whoever_wants_to_write() {
    let Some(mount) = SmallMount::new(1 << 20) else {
        return;
    };
    let path = mount.path().join("disk");
    std::fs::write(&path, vec![7; 8192]).unwrap();
    if mount.remount_read_only().is_none() {
        return;
    }
    for (name, open) in ways() {
        let Err(error) = open(&path, FileOptions::default()) else {
            panic!("{name}: opened to write");
        };
        let OpenCause::Os(os) = error.cause() else {
            panic!("{name}: {error}");
        };
        let class = os.raw_os_error().map(extentwise_host::class_of_os_code);
        assert_eq!(class, Some(ErrorClass::ReadOnly), "{name}");
    }
    for_each_way(&path, READ, |name, device| {
        let read = device.read(DiskByte::ZERO, &mut [&mut [0; 4096]]);
        assert_eq!(read, Ok(LenBytes::new(4096)), "{name}");
    });
}

#[test]
fn a_medium_that_went_away_is_an_error_and_never_old_bytes() {
    for (name, open) in ways() {
        let Some(medium) = LoopDevice::new(4096, 1 << 20) else {
            return;
        };
        let device = open(medium.path(), FileOptions::default()).unwrap();
        write_all(&*device, DiskByte::ZERO, &[&[7; 4096]]).unwrap();
        device.flush().unwrap();
        medium.shrink_to_nothing();
        // Past what the page cache has.
        let far = DiskByte::new(512 << 10);
        let read = device.read(far, &mut [&mut [0; 4096]]).unwrap_err();
        assert_eq!(read.class(), ErrorClass::Io, "{name}");
        assert!(read.os_code().is_some(), "{name}");
    }
}

#[test]
fn a_character_device_that_is_full_is_no_space() {
    for_each_way(
        Path::new("/dev/full"),
        FileOptions::default(),
        |name, device| {
            let error = write_all(device, DiskByte::ZERO, &[&[7; 4096]]).unwrap_err();
            assert_eq!(error.class(), ErrorClass::NoSpace, "{name}");
        },
    );
}
