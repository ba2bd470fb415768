//! File systems of the kernel to compare with, on loop devices that live for a run.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

/// A file system of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Ext4,
    Xfs,
    Btrfs,
    Tmpfs,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Ext4, Self::Xfs, Self::Btrfs, Self::Tmpfs];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
            Self::Tmpfs => "tmpfs",
        }
    }
}

/// What is below a loop device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Medium {
    /// A file on a disk, past the page cache.
    Disk,
    /// A file in memory, where nothing that is measured reaches the device.
    Memory,
}

/// A mounted file system; dropping it takes all of it away.
#[derive(Debug)]
pub(crate) struct Mount {
    kind: Kind,
    /// Where the image and the mount point are; goes last.
    folder: TempDir,
    device: Option<String>,
    is_mounted: bool,
}

impl Mount {
    /// Makes and mounts one of this size; an error says what the machine lacks.
    pub(crate) fn new(kind: Kind, bytes: u64, medium: Medium) -> Result<Self> {
        let mut builder = tempfile::Builder::new();
        builder.prefix("extentwise-bench");
        let folder = match medium {
            Medium::Disk => builder.tempdir(),
            Medium::Memory => builder
                .tempdir_in("/dev/shm")
                .or_else(|_| builder.tempdir()),
        };
        let mut mount = Self {
            kind,
            folder: folder?,
            device: None,
            is_mounted: false,
        };
        fs::create_dir(mount.root())?;
        let root = mount.root().display().to_string();
        if kind == Kind::Tmpfs {
            call(
                "mount",
                &[
                    "-t",
                    "tmpfs",
                    "-o",
                    &format!("size={bytes}"),
                    "tmpfs",
                    &root,
                ],
            )?;
        } else {
            let image = mount.folder.path().join("image");
            allocate(&image, bytes)?;
            let image = image.display().to_string();
            let direct = match medium {
                Medium::Disk => "--direct-io=on",
                Medium::Memory => "--direct-io=off",
            };
            let device = call("losetup", &["--find", "--show", direct, &image])?;
            let device = mount.device.insert(device.trim().to_owned());
            let (program, force) = match kind {
                Kind::Ext4 => ("mkfs.ext4", "-qF"),
                Kind::Xfs => ("mkfs.xfs", "-qf"),
                _ => ("mkfs.btrfs", "-qf"),
            };
            call(program, &[force, device])?;
            call("mount", &[device, &root])?;
        }
        mount.is_mounted = true;
        Ok(mount)
    }

    pub(crate) const fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    /// Writes that the loop device has carried out.
    pub(crate) fn device_writes(&self) -> Result<u64> {
        let device = self.device.as_deref().context("no loop device")?;
        let name = Path::new(device).file_name().context("a device's name")?;
        let path = Path::new("/sys/block").join(name).join("stat");
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let field = text.split_whitespace().nth(4);
        field
            .and_then(|field| field.parse().ok())
            .with_context(|| format!("{}: no fifth number", path.display()))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let done = (|| {
            if self.is_mounted {
                call("umount", &[&self.root().display().to_string()])?;
            }
            if let Some(device) = &self.device {
                call("losetup", &["--detach", device])?;
            }
            anyhow::Ok(())
        })();
        if let Err(error) = done {
            eprintln!("left behind: {error:#}");
        }
    }
}

/// A file whose bytes are written once, by calls of this size: that decides how large
/// the folios of the kernel's cache are.
pub(crate) fn file_written_by(path: &Path, bytes: u64, call_bytes: usize) -> Result<File> {
    let mut options = File::options();
    let file = options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    // What is cached now has folios of another size.
    file.sync_all()?;
    drop_caches()?;
    let data = vec![0x5a; call_bytes];
    for at in (0..bytes).step_by(call_bytes) {
        file.write_all_at(&data, at)?;
    }
    file.sync_all()?;
    Ok(file)
}

/// Drops what the kernel's page cache holds clean.
fn drop_caches() -> Result<()> {
    fs::write("/proc/sys/vm/drop_caches", "1").context("dropping the kernel's page cache")
}

/// An image whose blocks are there already: a loop device is not to be slowed by holes.
fn allocate(path: &Path, bytes: u64) -> Result<()> {
    let file = File::create(path)?;
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes)
        .with_context(|| format!("{bytes} bytes for {}", path.display()))
}

fn call(program: &str, words: &[&str]) -> Result<String> {
    let output = Command::new(program).args(words).output();
    let output = output.with_context(|| format!("`{program}` does not start"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{program} {}`: {}", words.join(" "), said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
