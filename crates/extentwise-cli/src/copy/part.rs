//! A copy before it is whole: a file beside its place, under another name.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use extentwise_files::{Claim, Durability};
use rustix::fs::{CWD, OFlags, RenameFlags};
use rustix::io::Errno;

use super::source::Source;

/// What happens to a file that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    /// It stays, and nothing is copied.
    Refuse,
    /// The copy takes its name.
    Replace,
}

/// An empty file, to be filled and placed. Dropped before that, it is removed.
///
/// **Invariant**: nobody else claims the file, nor the one that it is to
/// replace, as long as this is there.
pub(crate) struct Part {
    path: PathBuf,
    destination: PathBuf,
    existing: Existing,
    placed: bool,
    _claim: Claim,
    _replaced: Option<Claim>,
}

/// What is behind the name of the destination.
const SUFFIX: &[u8] = b".extentwise-part";
/// The longest name that Linux file systems take, in bytes.
const NAME_LEN_MAX: usize = 255;

impl Part {
    /// Makes the file for a copy of `source` to `destination`.
    pub(crate) fn make(destination: &Path, source: &Source, existing: Existing) -> Result<Self> {
        let replaced = refuse_existing(destination, source, existing)?;
        let path = part_path(destination)?;
        let claim = make_claimed(&path, destination, source.mode())?;
        Ok(Self {
            path,
            destination: destination.to_owned(),
            existing,
            placed: false,
            _claim: claim,
            _replaced: replaced,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the copy its name.
    pub(crate) fn place(mut self, source: &Source, durability: Durability) -> Result<()> {
        let at_path = || self.path.display().to_string();
        let mode = fs::metadata(&self.path).with_context(at_path)?.mode() & 0o777;
        if mode & !source.mode() != 0 {
            // It was writable as long as it was written.
            let mode = Permissions::from_mode(mode & source.mode());
            fs::set_permissions(&self.path, mode).with_context(at_path)?;
        }
        let renamed = match self.existing {
            Existing::Replace => fs::rename(&self.path, &self.destination),
            Existing::Refuse => rename_to_new(&self.path, &self.destination),
        };
        let at_destination = || self.destination.display().to_string();
        renamed.with_context(at_destination)?;
        self.placed = true;
        if durability == Durability::Stored {
            let folder = folder_of(&self.destination);
            let synced = File::open(folder).and_then(|folder| folder.sync_all());
            synced.with_context(|| format!("{}: syncing its name", self.destination.display()))?;
        }
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.placed {
            // What cannot be removed is no copy: it has another name.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Refuses a destination that must not be replaced; claims the one that will be.
fn refuse_existing(
    destination: &Path,
    source: &Source,
    existing: Existing,
) -> Result<Option<Claim>> {
    let shown = destination.display();
    let metadata = match fs::symlink_metadata(destination) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| shown.to_string()),
    };
    if metadata.is_dir() {
        bail!("{shown}: is a directory: name the file in it");
    }
    if source.is(&metadata) {
        bail!("{shown}: is the source itself");
    }
    if existing == Existing::Refuse {
        bail!("{shown}: exists already; --overwrite replaces it");
    }
    if !metadata.is_file() {
        bail!("{shown}: only a plain file can be replaced");
    }
    // Who may not read it may replace it all the same.
    match File::open(destination) {
        Ok(file) => Claim::new(file, destination).map(Some),
        Err(_) => Ok(None),
    }
}

fn part_path(destination: &Path) -> Result<PathBuf> {
    let Some(name) = destination.file_name() else {
        bail!("{}: names no file", destination.display());
    };
    let room = NAME_LEN_MAX - SUFFIX.len() - 1;
    let name = name.as_bytes();
    let cut = &name[..name.len().min(room)];
    let name = [b".", cut, SUFFIX].concat();
    Ok(folder_of(destination).join(OsString::from_vec(name)))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// Makes an empty file that is claimed. One that a killed process left is made
/// anew.
fn make_claimed(path: &Path, destination: &Path, mode: u32) -> Result<Claim> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create(true)
        // The cache opens it by its name as well.
        .mode(mode | 0o600)
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
    loop {
        let file = options.open(path);
        let file = file.with_context(|| destination.display().to_string())?;
        let is_new = file.metadata().is_ok_and(|metadata| metadata.len() == 0);
        let claim = Claim::new(file, path)?;
        // Another process may have placed or removed it meanwhile.
        let is_there = claim.is_at(path);
        if !is_there.with_context(|| path.display().to_string())? {
            continue;
        }
        if is_new {
            return Ok(claim);
        }
        fs::remove_file(path).with_context(|| path.display().to_string())?;
    }
}

/// Renames, unless there is a file of the new name.
fn rename_to_new(from: &Path, to: &Path) -> io::Result<()> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // The file system cannot tell: the next best is to look.
        Err(Errno::INVAL | Errno::NOSYS) => match fs::symlink_metadata(to) {
            Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(_) => fs::rename(from, to),
        },
        renamed => Ok(renamed?),
    }
}
