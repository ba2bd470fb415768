//! Files that are written by one process alone.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result};
use extentwise_device::{DeviceError, LenBytes};
use extentwise_host::{FileDevice, Lock};

/// A file that nobody else can claim as long as this is there (`flock`).
#[derive(Debug)]
pub struct Claim {
    device: FileDevice,
    identity: (u64, u64),
}

impl Claim {
    /// Claims the open `file`, which was found at `path`. The error names the
    /// path, also where another process has it.
    pub fn new(file: File, path: &Path) -> Result<Self> {
        let claim = || -> Result<Self> {
            let identity = identity(&file.metadata()?);
            let device = FileDevice::from_file(file, Lock::Exclusive)?;
            Ok(Self { device, identity })
        };
        claim().with_context(|| path.display().to_string())
    }

    /// Whether the file is still the one at `path`: another process may have
    /// moved or removed it before it was claimed.
    pub fn is_at(&self, path: &Path) -> io::Result<bool> {
        match std::fs::symlink_metadata(path) {
            Ok(metadata) => Ok(identity(&metadata) == self.identity),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Makes the file empty.
    pub fn empty(&self) -> Result<(), DeviceError> {
        self.device.set_len(LenBytes::ZERO)
    }
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}
