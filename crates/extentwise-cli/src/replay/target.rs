//! The folder that a replay writes into.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use extentwise_files::Claim;

use super::trace::Trace;

/// What happens to files of the folder that have a name the replay needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    /// They stay as they are, and the replay does not start.
    Refuse,
    /// They are emptied.
    Overwrite,
}

/// Files that no other process writes as long as this is there.
pub(crate) struct Targets {
    /// Where they are, in the order of their names.
    pub(crate) paths: Vec<PathBuf>,
    _claims: Vec<Claim>,
}

/// Files that are claimed to the end; those behind them are while they are
/// emptied, for a process has only so many open files.
const CLAIMS_MAX: usize = 64;

/// Makes an empty file in `folder` for each of `names`. Everything that can be
/// refused is refused before the first file is emptied, also that another
/// process writes it.
pub(crate) fn prepare(
    folder: &Path,
    names: &[OsString],
    trace: &Trace,
    existing: Existing,
) -> Result<Targets> {
    let paths: Vec<PathBuf> = names.iter().map(|name| folder.join(name)).collect();
    fs::create_dir_all(folder).with_context(|| format!("folder {}", folder.display()))?;
    for path in &paths {
        refuse_existing(path, trace, existing)?;
    }
    let (first, rest) = paths.split_at(paths.len().min(CLAIMS_MAX));
    let claims = first.iter().map(|path| claim(path, existing));
    let claims: Vec<Claim> = claims.collect::<Result<_>>()?;
    for (path, claim) in first.iter().zip(&claims) {
        empty(path, claim)?;
    }
    for path in rest {
        empty(path, &claim(path, existing)?)?;
    }
    Ok(Targets {
        paths,
        _claims: claims,
    })
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

fn claim(path: &Path, existing: Existing) -> Result<Claim> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    match existing {
        Existing::Refuse => options.create_new(true),
        // A symbolic link could lead out of the folder.
        Existing::Overwrite => options
            .create(true)
            .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed()),
    };
    let file = options.open(path);
    let file = file.with_context(|| path.display().to_string())?;
    Claim::new(file, path)
}

fn empty(path: &Path, claim: &Claim) -> Result<()> {
    let emptied = claim.empty();
    emptied.with_context(|| format!("{}: making it empty", path.display()))
}
