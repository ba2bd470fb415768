//! Where the bytes of an image come from.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// An image that is read at byte offsets, and never written.
pub trait ReadAt {
    /// Bytes in the image.
    fn len_bytes(&self) -> u64;

    /// Fills `into` with the bytes from `offset` on; an error where the image
    /// ends before.
    fn read_exact_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;

    /// The same, for one of several copies by its number. Copies are read in
    /// turns, each in order; who reads ahead may want to tell them apart.
    fn read_mirror_at(&self, mirror: u32, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let _ = mirror;
        self.read_exact_at(offset, into)
    }
}

impl<R: ReadAt + ?Sized> ReadAt for &R {
    fn len_bytes(&self) -> u64 {
        (**self).len_bytes()
    }

    fn read_exact_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        (**self).read_exact_at(offset, into)
    }

    fn read_mirror_at(&self, mirror: u32, offset: u64, into: &mut [u8]) -> io::Result<()> {
        (**self).read_mirror_at(mirror, offset, into)
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
    /// Opened once more, for even mirrors: the kernel reads ahead of one place in
    /// each open file.
    twin: File,
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
        let twin = reopen(&file, path)?;
        // The end by seeking, since block devices show no length otherwise.
        let len_bytes = file.seek(SeekFrom::End(0))?;
        Ok(Self {
            file,
            twin,
            len_bytes,
        })
    }
}

impl ReadAt for ImageFile {
    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn read_exact_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, offset)
    }

    fn read_mirror_at(&self, mirror: u32, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let file = if mirror.is_multiple_of(2) {
            &self.twin
        } else {
            &self.file
        };
        file.read_exact_at(into, offset)
    }
}

/// The same file opened once more; if the path leads elsewhere by now, the same
/// open file.
fn reopen(file: &File, path: &Path) -> io::Result<File> {
    let identity = |file: &File| file.metadata().map(|meta| (meta.dev(), meta.ino()));
    let twin = File::open(path)?;
    if identity(&twin)? == identity(file)? {
        Ok(twin)
    } else {
        file.try_clone()
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
    fn every_mirror_is_read_from_the_file_that_was_opened() {
        let folder = tempfile::tempdir().unwrap();
        let [path, other] = ["image", "other"].map(|name| folder.path().join(name));
        std::fs::write(&path, "bytes").unwrap();
        std::fs::write(&other, "OTHER").unwrap();
        let mut image = ImageFile::open(&path).unwrap();
        let assert_read = |image: &ImageFile| {
            for mirror in [0, 1, 2, u32::MAX - 1] {
                let mut into = [0; 4];
                image.read_mirror_at(mirror, 1, &mut into).unwrap();
                assert_eq!(into, *b"ytes");
                let error = image.read_mirror_at(mirror, 2, &mut into).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
            }
        };
        assert_read(&image);
        // The path leads to another file when it is opened again.
        image.twin = reopen(&image.file, &other).unwrap();
        assert_read(&image);
    }

    #[test]
    fn a_folder_is_refused() {
        let error = ImageFile::open(&std::env::temp_dir()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}
