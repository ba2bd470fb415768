//! The folder that a replay writes into.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::trace::Trace;

/// What happens to files of the folder that have a name the replay needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    /// They stay as they are, and the replay does not start.
    Refuse,
    /// They are emptied.
    Overwrite,
}

/// Makes an empty file in `folder` for each of `names` and answers their paths,
/// in order. Everything that can be refused is refused before the first file is
/// made or emptied.
pub(crate) fn prepare(
    folder: &Path,
    names: &[OsString],
    trace: &Trace,
    existing: Existing,
) -> Result<Vec<PathBuf>> {
    let paths: Vec<PathBuf> = names.iter().map(|name| folder.join(name)).collect();
    fs::create_dir_all(folder).with_context(|| format!("folder {}", folder.display()))?;
    for path in &paths {
        refuse_existing(path, trace, existing)?;
    }
    for path in &paths {
        make_empty(path, existing).with_context(|| path.display().to_string())?;
    }
    Ok(paths)
}

/// A fresh folder among the temporary files, which is told to whoever watches;
/// it stays when the program ends.
pub(crate) fn fresh_folder() -> Result<PathBuf> {
    let folder = tempfile::Builder::new()
        .prefix("extentwise-replay-")
        .tempdir()
        .context("a temporary folder")?;
    let folder = folder.keep();
    eprintln!("extentwise: files in {}", folder.display());
    Ok(folder)
}

fn refuse_existing(path: &Path, trace: &Trace, existing: Existing) -> Result<()> {
    let at_path = || path.display().to_string();
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(at_path),
    };
    let at_path = path.display();
    if existing == Existing::Refuse {
        bail!("{at_path}: exists already; --overwrite empties it, --into names another folder");
    }
    if !metadata.is_file() {
        bail!("{at_path}: only a plain file can be overwritten");
    }
    if trace.is_same_file(&metadata)? {
        bail!("{at_path}: is the trace itself and cannot be overwritten");
    }
    Ok(())
}

fn make_empty(path: &Path, existing: Existing) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true);
    match existing {
        Existing::Refuse => options.create_new(true),
        // A symbolic link could lead out of the folder.
        Existing::Overwrite => options
            .create(true)
            .truncate(true)
            .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed()),
    };
    options.open(path)
}
