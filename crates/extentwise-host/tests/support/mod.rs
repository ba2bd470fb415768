//! Places for files: folders of different file systems, and loop devices where
//! this process may make them.

// Each test binary uses its own part of this.
#![allow(dead_code)]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use extentwise_host::{Access, FileOptions, Lock, Missing};
use tempfile::TempDir;

pub(crate) const CREATE: FileOptions = FileOptions {
    access: Access::ReadWrite,
    missing: Missing::Create,
    lock: Lock::None,
};

pub(crate) const READ: FileOptions = FileOptions {
    access: Access::Read,
    missing: Missing::Refuse,
    lock: Lock::None,
};

/// A folder in memory, where there is one.
pub(crate) fn folder_in_memory() -> Option<&'static Path> {
    let folder = Path::new("/dev/shm");
    folder.is_dir().then_some(folder)
}

/// Says that something is not tested here, and why.
pub(crate) fn skipped(what: &str, why: &str) {
    eprintln!("SKIPPED: {what}: {why}");
}

/// Where loop devices or mounts are to be had, the answer; else nothing, and
/// the test says so.
pub(crate) fn run(program: &str, words: &[&str]) -> Option<String> {
    let output = match Command::new(program).args(words).output() {
        Ok(output) => output,
        Err(error) => {
            skipped(program, &error.to_string());
            return None;
        }
    };
    if output.status.success() {
        return Some(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let why = String::from_utf8_lossy(&output.stderr);
    skipped(&format!("{program} {}", words.join(" ")), why.trim());
    None
}

/// Whether the kernel gives rings out; if not, the test says so.
#[cfg(feature = "uring")]
pub(crate) fn has_rings() -> bool {
    use extentwise_host::{FileDevice, UringDevice, UringError};
    let file = FileDevice::from_file(tempfile::tempfile().unwrap(), Lock::None).unwrap();
    match UringDevice::buffered(file) {
        Ok(_) => true,
        Err(error @ UringError::Unavailable(_)) => {
            skipped("io_uring", &error.to_string());
            false
        }
        Err(error) => panic!("{error}"),
    }
}

/// A loop device over a file of its own; both go with it.
pub(crate) struct LoopDevice {
    path: PathBuf,
    folder: TempDir,
}

impl LoopDevice {
    pub(crate) fn new(sector: u32, len: u64) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        File::create(&image).unwrap().set_len(len).unwrap();
        let sector = sector.to_string();
        let image = image.display().to_string();
        let words = ["--find", "--show", "--sector-size", &sector, &image];
        let path = run("losetup", &words)?;
        Some(Self {
            path: path.into(),
            folder,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Takes the medium away while the device is open: its driver answers errors
    /// from now on.
    pub(crate) fn shrink_to_nothing(&self) {
        let image = self.folder.path().join("image");
        File::options()
            .write(true)
            .open(image)
            .unwrap()
            .set_len(0)
            .unwrap();
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let path = self.path.display().to_string();
        let _ = run("losetup", &["--detach", &path]);
    }
}

/// A file system in memory of so many bytes, mounted until it is dropped.
pub(crate) struct SmallMount {
    folder: TempDir,
}

impl SmallMount {
    pub(crate) fn new(len: u64) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let size = format!("size={len}");
        let at = folder.path().display().to_string();
        run("mount", &["-t", "tmpfs", "-o", &size, "tmpfs", &at])?;
        Some(Self { folder })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn remount_read_only(&self) -> Option<String> {
        let at = self.folder.path().display().to_string();
        run("mount", &["-o", "remount,ro", &at])
    }
}

impl Drop for SmallMount {
    fn drop(&mut self) {
        let at = self.folder.path().display().to_string();
        let _ = run("umount", &["--lazy", &at]);
    }
}
