//! The file that is copied.

use std::fs::{self, File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::SeekFrom;

use crate::holes;

/// An open file, and the length it had then.
pub(crate) struct Source {
    path: PathBuf,
    file: File,
    metadata: Metadata,
    len: u64,
}

impl Source {
    /// Opens a plain file or a block device.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let at_path = || path.display().to_string();
        // Looked at first: who opens a pipe waits for a peer.
        let metadata = fs::metadata(path).with_context(at_path)?;
        let kind = metadata.file_type();
        if kind.is_dir() {
            bail!(
                "{}: is a directory: files are copied one by one",
                path.display()
            );
        }
        if !kind.is_file() && !kind.is_block_device() {
            bail!("{}: is neither a file nor a block device", path.display());
        }
        let file = File::open(path).with_context(at_path)?;
        let len = if kind.is_block_device() {
            rustix::fs::seek(&file, SeekFrom::End(0)).with_context(at_path)?
        } else {
            metadata.len()
        };
        Ok(Self {
            path: path.to_owned(),
            file,
            metadata,
            len,
        })
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Its length when it was opened.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Its permissions.
    pub(crate) fn mode(&self) -> u32 {
        self.metadata.mode() & 0o777
    }

    /// Whether `other` is the same file.
    pub(crate) fn is(&self, other: &Metadata) -> bool {
        (self.metadata.dev(), self.metadata.ino()) == (other.dev(), other.ino())
    }

    /// The next range at or behind `from` that is no hole.
    pub(crate) fn next_data(&self, from: u64) -> Result<Option<Range<u64>>> {
        if from >= self.len {
            return Ok(None);
        }
        let data = holes::next_data(&self.file, from, self.len);
        let data = data.with_context(|| self.path.display().to_string())?;
        Ok((!data.is_empty()).then_some(data))
    }

    /// Reads what there is at `at`: nothing at the end.
    pub(crate) fn read(&self, at: u64, into: &mut [u8]) -> Result<usize> {
        loop {
            match self.file.read_at(into, at) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => {
                    return read
                        .with_context(|| format!("{}: reading at {at}", self.path.display()));
                }
            }
        }
    }

    /// Fills `into` from `at` on.
    pub(crate) fn read_exact(&self, at: u64, into: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while done < into.len() {
            match self.read(at + done as u64, &mut into[done..])? {
                0 => bail!(
                    "{}: ended at {} and had {} bytes before: it became shorter while it was copied",
                    self.path.display(),
                    at + done as u64,
                    self.len
                ),
                read => done += read,
            }
        }
        Ok(())
    }
}
