//! Zeros on a device that has no holes.

use extentwise_device::{Device, DeviceError, DiskByte, ErrorClass, read_exact, write_all};
use extentwise_engine::FileRange;

/// Zeros that are written at a time.
const ZEROS_LEN: usize = 64 << 10;

/// Writes zeros over `range`, in blocks that the device takes. Its first block
/// may begin before `range`: those bytes stay. The last may end behind it, and is
/// zeroed to its end: the device has nothing more there, or has its length set
/// next.
pub(crate) fn write(device: &dyn Device, range: FileRange) -> Result<(), DeviceError> {
    let block = device.geometry().logical_block();
    let block_len = usize::try_from(block).map_err(|_| ErrorClass::TooLarge)?;
    let end = range.end().get();
    let mut at = range.start().get();
    let kept = usize::try_from(at % u64::from(block)).unwrap_or(0);
    if kept > 0 {
        at -= kept as u64;
        let mut bytes = vec![0; block_len];
        read_exact(device, DiskByte::new(at), &mut bytes)?;
        bytes.get_mut(kept..).unwrap_or_default().fill(0);
        write_all(device, DiskByte::new(at), &[&bytes])?;
        at = at.saturating_add(u64::from(block));
    }
    let zeros = vec![0; ZEROS_LEN.max(block_len)];
    while at < end {
        let len = (end - at).next_multiple_of(u64::from(block));
        let len = usize::try_from(len).map_or(zeros.len(), |len| len.min(zeros.len()));
        let part = zeros.get(..len).unwrap_or_default();
        write_all(device, DiskByte::new(at), &[part])?;
        at = at.saturating_add(len as u64);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use extentwise_engine::FileOffset;
    use extentwise_host::{DirectDevice, FileDevice, FileOptions};

    use super::*;

    fn at(byte: usize) -> FileOffset {
        FileOffset::new(byte as u64)
    }

    /// What is left of a file of ones.
    fn zeroed(open: impl FnOnce(&Path) -> Box<dyn Device>, start: usize, end: usize) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, vec![1; 3 << 16]).unwrap();
        let range = FileRange::new(at(start), at(end)).unwrap();
        write(&*open(&path), range).unwrap();
        std::fs::read(&path).unwrap()
    }

    #[test]
    fn the_front_of_a_block_and_the_blocks_behind_stay() {
        for (start, end) in [(700, 1024), (0, 512), (1, 2 << 16), (65_535, 65_536)] {
            let left = zeroed(
                |path| Box::new(FileDevice::open(path, FileOptions::default()).unwrap()),
                start,
                end,
            );
            let zeros: Vec<usize> = (0..left.len()).filter(|at| left[*at] == 0).collect();
            let wanted: Vec<usize> = (start..end).collect();
            assert_eq!((left.len(), zeros), (3 << 16, wanted));
        }
    }

    #[test]
    fn a_device_of_blocks_takes_the_end_of_one() {
        let folder = tempfile::tempdir().unwrap();
        let probe = folder.path().join("probe");
        std::fs::write(&probe, [0; 4096]).unwrap();
        if DirectDevice::open(&probe, FileOptions::default()).is_err() {
            eprintln!("SKIPPED: this file system has no direct I/O");
            return;
        }
        let left = zeroed(
            |path| Box::new(DirectDevice::open(path, FileOptions::default()).unwrap()),
            5000,
            8192,
        );
        assert!(left[..5000].iter().all(|byte| *byte == 1));
        assert!(left[5000..8192].iter().all(|byte| *byte == 0));
        assert!(left[8192..].iter().all(|byte| *byte == 1));
    }
}
