//! A copy of the crates to put mistakes into; the sources themselves stay as they are.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::bug::Bug;

/// Lines that the copy's manifest has in place of the workspace's own head.
const HEAD: &str = "[workspace]\nresolver = \"3\"\nmembers = [\"crates/*\"]\n\n";
/// What the head ends before.
const BODY: &str = "[workspace.package]";

/// The workspace without the chores, in a folder of its own.
pub(super) struct CrateCopy {
    folder: PathBuf,
}

impl CrateCopy {
    /// Makes the copy in `folder`, or brings the one there up to date. A file that is the
    /// same keeps its time stamp, so that cargo builds only what changed.
    pub(super) fn make(root: &Path, folder: PathBuf) -> io::Result<Self> {
        mirror(&root.join("crates"), &folder.join("crates"))?;
        let manifest = fs::read_to_string(root.join("Cargo.toml"))?;
        let body = manifest
            .find(BODY)
            .map(|at| &manifest[at..])
            .ok_or_else(|| io::Error::other(format!("Cargo.toml has no {BODY}")))?;
        write_if_different(
            &folder.join("Cargo.toml"),
            (HEAD.to_owned() + body).as_bytes(),
        )?;
        let lock = fs::read(root.join("Cargo.lock"))?;
        write_if_different(&folder.join("Cargo.lock"), &lock)?;
        Ok(Self { folder })
    }

    /// Where it is.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Runs `run` with the mistake in place, and takes it out again.
    pub(super) fn with<R>(&self, bug: &Bug, run: impl FnOnce() -> R) -> Result<R, String> {
        let path = self.folder.join(&bug.file);
        let said = |error: io::Error| format!("{}: {}: {error}", bug.name, path.display());
        let right = fs::read_to_string(&path).map_err(said)?;
        fs::write(&path, bug.apply(&right)?).map_err(said)?;
        let result = run();
        fs::write(&path, right).map_err(said)?;
        Ok(result)
    }
}

/// Makes `to` hold what `from` holds, without build results, and nothing else.
fn mirror(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(to)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        let model = from.join(entry.file_name());
        let stays = if kind.is_dir() {
            model.is_dir()
        } else {
            model.is_file()
        };
        match (stays, kind.is_dir()) {
            (true, _) => {}
            (false, true) => fs::remove_dir_all(entry.path())?,
            (false, false) => fs::remove_file(entry.path())?,
        }
    }
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let copy = to.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() && entry.file_name() != "target" {
            mirror(&entry.path(), &copy)?;
        } else if kind.is_file() {
            write_if_different(&copy, &fs::read(entry.path())?)?;
        }
    }
    Ok(())
}

fn write_if_different(path: &Path, content: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|there| there == content) {
        return Ok(());
    }
    fs::write(path, content)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An empty folder that nobody else uses.
    fn scratch(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("extentwise-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("the temporary folder can be written");
        folder
    }

    #[test]
    fn a_mirror_follows_its_model_and_touches_nothing_that_is_the_same() {
        let folder = scratch("mirror");
        let (from, to) = (folder.join("from"), folder.join("to"));
        fs::create_dir_all(from.join("src")).expect("made");
        fs::write(from.join("src/same.rs"), "same").expect("written");
        fs::write(from.join("src/gone.rs"), "gone").expect("written");
        mirror(&from, &to).expect("mirrored");
        let stamp = || {
            let meta = fs::metadata(to.join("src/same.rs")).expect("there");
            meta.modified().expect("this system has time stamps")
        };
        let before = stamp();
        fs::remove_file(from.join("src/gone.rs")).expect("removed");
        fs::write(from.join("new.rs"), "new").expect("written");
        fs::write(to.join("stray.rs"), "stray").expect("written");
        mirror(&from, &to).expect("mirrored");
        assert_eq!(stamp(), before);
        assert!(to.join("new.rs").is_file());
        assert!(!to.join("src/gone.rs").exists());
        assert!(!to.join("stray.rs").exists());
        fs::remove_dir_all(folder).expect("removed");
    }
}
