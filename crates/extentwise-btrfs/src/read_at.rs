//! Where the bytes of an image come from.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// An image that is read at byte offsets, and never written.
pub trait ReadAt {
    /// Bytes in the image.
    fn len_bytes(&self) -> u64;

    /// Fills `into` with the bytes from `offset` on; an error where the image
    /// ends before.
    fn read_exact_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;

    /// Says that these bytes are wanted soon. A hint: doing nothing is fine.
    fn will_need(&self, range: Range<u64>) {
        let _ = range;
    }
}

impl<R: ReadAt + ?Sized> ReadAt for &R {
    fn len_bytes(&self) -> u64 {
        (**self).len_bytes()
    }

    fn read_exact_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        (**self).read_exact_at(offset, into)
    }

    fn will_need(&self, range: Range<u64>) {
        (**self).will_need(range);
    }
}

impl ReadAt for [u8] {
    fn len_bytes(&self) -> u64 {
        self.len() as u64
    }

    fn read_exact_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let bytes = usize::try_from(offset)
            .ok()
            .and_then(|start| self.get(start..)?.get(..into.len()))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        into.copy_from_slice(bytes);
        Ok(())
    }
}

impl ReadAt for Vec<u8> {
    fn len_bytes(&self) -> u64 {
        self.as_slice().len_bytes()
    }

    fn read_exact_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.as_slice().read_exact_at(offset, into)
    }
}

/// An image in a file or on a block device, opened for reading alone.
#[derive(Debug)]
pub struct ImageFile {
    file: File,
    len_bytes: u64,
}

impl ImageFile {
    /// Opens the image at `path`. Pipes, sockets and folders, which have no
    /// place to read at, are refused before they could block.
    pub fn open(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::FileTypeExt;
        let kind = std::fs::metadata(path)?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            let why = "neither a file nor a block device";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let mut file = File::open(path)?;
        // The end by seeking, since block devices show no length otherwise.
        let len_bytes = file.seek(SeekFrom::End(0))?;
        Ok(Self { file, len_bytes })
    }
}

impl ReadAt for ImageFile {
    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn read_exact_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, offset)
    }

    fn will_need(&self, range: Range<u64>) {
        let len = std::num::NonZeroU64::new(range.end.saturating_sub(range.start));
        // A length of zero would mean the whole rest of the file.
        if len.is_some() {
            let advice = rustix::fs::Advice::WillNeed;
            let _ = rustix::fs::fadvise(&self.file, range.start, len, advice);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_past_the_end_of_memory_is_an_error_and_touches_nothing() {
        let image = vec![7_u8; 10];
        for (offset, len) in [(8, 3), (10, 1), (11, 0), (u64::MAX, 1), (u64::MAX, 0)] {
            let mut into = vec![1; len];
            let error = image.read_exact_at(offset, &mut into).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
            assert!(into.iter().all(|&byte| byte == 1));
        }
        let mut into = [0; 10];
        image.read_exact_at(0, &mut into).unwrap();
        assert_eq!(into, [7; 10]);
    }

    #[test]
    fn a_folder_is_refused() {
        let error = ImageFile::open(&std::env::temp_dir()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}
