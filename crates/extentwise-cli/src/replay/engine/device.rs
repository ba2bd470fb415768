//! The files that a replay writes, as the devices below its cache.

use std::fs::{File, OpenOptions};
use std::io::{IoSlice, IoSliceMut};
use std::path::PathBuf;

use anyhow::{Context, Error, Result, bail};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;

/// Open files at a time; more than that are closed and opened again later, so
/// that a trace may name any number of files.
const OPEN_MAX: usize = 256;

/// Slices that the operating system takes in one call (`IOV_MAX`).
pub(super) const SLICES_MAX: usize = 1024;

/// The files of a replay.
///
/// **Invariant**: `open` counts the files that have a handle, at most
/// [`OPEN_MAX`].
#[derive(Debug)]
pub(super) struct Devices {
    files: Vec<DeviceFile>,
    open: usize,
}

/// One file: positioned I/O that is carried on until all of it is done.
///
/// Errors name the file, the place and what the operating system said, and keep
/// its error as their root.
#[derive(Debug)]
pub(super) struct DeviceFile {
    path: PathBuf,
    handle: Option<File>,
}

/// What a write took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Written {
    /// Calls of the operating system.
    pub(super) calls: u64,
    pub(super) bytes: u64,
}

impl Devices {
    pub(super) fn new(paths: &[PathBuf]) -> Self {
        let file = |path: &PathBuf| DeviceFile {
            path: path.clone(),
            handle: None,
        };
        Self {
            files: paths.iter().map(file).collect(),
            open: 0,
        }
    }

    /// The file with this index, opened.
    pub(super) fn open(&mut self, index: usize) -> Result<&DeviceFile> {
        if self.files[index].handle.is_none() {
            if self.open >= OPEN_MAX {
                self.files.iter_mut().for_each(|file| file.handle = None);
                self.open = 0;
            }
            let file = &mut self.files[index];
            let opened = OpenOptions::new().read(true).write(true).open(&file.path);
            file.handle = Some(opened.with_context(|| file.path.display().to_string())?);
            self.open += 1;
        }
        Ok(&self.files[index])
    }
}

impl DeviceFile {
    /// Writes all of `slices`, one behind the other, from `offset` on.
    pub(super) fn write(&self, mut slices: &mut [IoSlice<'_>], offset: u64) -> Result<Written> {
        let mut written = Written::default();
        IoSlice::advance_slices(&mut slices, 0);
        while !slices.is_empty() {
            let batch = &slices[..slices.len().min(SLICES_MAX)];
            let at = offset + written.bytes;
            let len = match rustix::io::pwritev(self.handle()?, batch, at) {
                Ok(0) => return Err(self.failure("writing", at, Errno::NOSPC)),
                Ok(len) => len,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(self.failure("writing", at, errno)),
            };
            written.calls += 1;
            written.bytes += len as u64;
            IoSlice::advance_slices(&mut slices, len);
        }
        Ok(written)
    }

    /// Fills the pieces, one behind the other, with what lies from `offset` on;
    /// past the end of the file that is zeros.
    pub(super) fn read<'a>(
        &self,
        pieces: impl Iterator<Item = (u64, &'a mut [u8])>,
        offset: u64,
    ) -> Result<()> {
        let mut slices: Vec<_> = pieces.map(|(_, bytes)| IoSliceMut::new(bytes)).collect();
        let mut slices = &mut slices[..];
        let mut at = offset;
        IoSliceMut::advance_slices(&mut slices, 0);
        while !slices.is_empty() {
            let batch_len = slices.len().min(SLICES_MAX);
            match rustix::io::preadv(self.handle()?, &mut slices[..batch_len], at) {
                Ok(0) => break,
                Ok(len) => {
                    at += len as u64;
                    IoSliceMut::advance_slices(&mut slices, len);
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.failure("reading", at, errno)),
            }
        }
        for slice in slices {
            slice.fill(0);
        }
        Ok(())
    }

    /// Makes `len` bytes from `offset` on read as zero without a change of
    /// size; by writing zeros where the file system cannot punch holes.
    pub(super) fn punch(&self, offset: u64, len: u64) -> Result<Written> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        loop {
            match rustix::fs::fallocate(self.handle()?, flags, offset, len) {
                Ok(()) => return Ok(Written::default()),
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => return self.write_zeros(offset, len),
                Err(errno) => return Err(self.failure("punching a hole", offset, errno)),
            }
        }
    }

    /// Makes everything written durable.
    pub(super) fn sync(&self) -> Result<()> {
        match rustix::fs::fdatasync(self.handle()?) {
            Ok(()) => Ok(()),
            Err(errno) => {
                Err(Error::from(errno).context(format!("{}: fdatasync", self.path.display())))
            }
        }
    }

    /// Makes the file `len` bytes long.
    pub(super) fn set_len(&self, len: u64) -> Result<()> {
        let set = rustix::fs::ftruncate(self.handle()?, len);
        set.map_err(|errno| self.failure("setting the size to", len, errno))
    }

    fn write_zeros(&self, offset: u64, len: u64) -> Result<Written> {
        static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
        let mut written = Written::default();
        while written.bytes < len {
            let part = (len - written.bytes).min(ZEROS.len() as u64) as usize;
            let mut slices = [IoSlice::new(&ZEROS[..part])];
            let more = self.write(&mut slices, offset + written.bytes)?;
            written.calls += more.calls;
            written.bytes += more.bytes;
        }
        Ok(written)
    }

    fn handle(&self) -> Result<&File> {
        match &self.handle {
            Some(handle) => Ok(handle),
            None => bail!("{}: is not open", self.path.display()),
        }
    }

    fn failure(&self, doing: &str, offset: u64, errno: Errno) -> Error {
        let error = std::io::Error::from(errno);
        Error::from(error).context(format!("{}: {doing} at {offset}", self.path.display()))
    }
}
