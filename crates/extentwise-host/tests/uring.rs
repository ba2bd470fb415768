//! A device over a ring conforms, shares its ring among threads, and says why
//! there is none.

mod support;

use extentwise_device::{Device, DiskByte, LenBytes, read_exact, write_all};
use extentwise_host::{
    DirectDevice, FileDevice, FileOptions, Lock, OpenCause, UringDevice, UringError,
};
use extentwise_testkit::conformance::device_conformance;
use tempfile::{tempdir, tempfile};

use support::{CREATE, LoopDevice, has_rings, skipped};

fn buffered() -> UringDevice {
    let file = FileDevice::from_file(tempfile().unwrap(), Lock::None).unwrap();
    UringDevice::buffered(file).unwrap()
}

fn has_direct_files() -> bool {
    match DirectDevice::from_file(tempfile().unwrap(), Lock::None) {
        Ok(_) => true,
        Err(error) if matches!(error.cause(), OpenCause::NoDirect) => {
            skipped("direct I/O", &error.to_string());
            false
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn c7_a_file_over_a_ring_conforms() {
    if has_rings() {
        device_conformance(buffered);
    }
}

#[test]
fn c7_a_direct_file_over_a_ring_conforms() {
    if has_rings() && has_direct_files() {
        device_conformance(|| {
            let file = DirectDevice::from_file(tempfile().unwrap(), Lock::None).unwrap();
            UringDevice::direct(file).unwrap()
        });
    }
}

#[test]
fn c9_a_block_device_over_a_ring_conforms() {
    if !has_rings() {
        return;
    }
    for sector in [512, 4096] {
        let Some(device) = LoopDevice::new(sector, 4 << 20) else {
            continue;
        };
        device_conformance(|| {
            let file = DirectDevice::open(device.path(), FileOptions::default()).unwrap();
            assert_eq!(file.geometry().logical_block(), sector);
            UringDevice::direct(file).unwrap()
        });
    }
}

#[test]
fn threads_share_a_ring() {
    const LEN: usize = 1 << 16;
    if !has_rings() {
        return;
    }
    let device = &buffered();
    std::thread::scope(|scope| {
        for thread in 1..=4_u8 {
            scope.spawn(move || {
                let at = DiskByte::new(u64::from(thread) * LEN as u64);
                for _ in 0..50 {
                    write_all(device, at, &[&[thread; 1000], &vec![thread; LEN - 1000]]).unwrap();
                    let mut read = vec![0; LEN];
                    read_exact(device, at, &mut read).unwrap();
                    assert!(read.iter().all(|byte| *byte == thread));
                    device.flush().unwrap();
                }
            });
        }
    });
    assert_eq!(device.len().unwrap(), LenBytes::new(5 * LEN as u64));
}

#[test]
fn what_a_ring_wrote_is_in_the_file() {
    if !has_rings() {
        return;
    }
    let folder = tempdir().unwrap();
    let path = folder.path().join("disk");
    let device = UringDevice::buffered(FileDevice::open(&path, CREATE).unwrap()).unwrap();
    assert!(device.is_empty().unwrap());
    write_all(&device, DiskByte::new(3), &[b"abc", b"", b"defg"]).unwrap();
    device.flush().unwrap();
    device.set_len(LenBytes::new(8)).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"\0\0\0abcde");
}

#[test]
fn why_there_is_no_ring_is_said() {
    let error = UringError::Unavailable(std::io::Error::from_raw_os_error(38));
    let text = error.to_string();
    assert!(text.starts_with("io_uring is not available: "), "{text}");
    assert!(text.contains("kernel.io_uring_disabled"), "{text}");
}
