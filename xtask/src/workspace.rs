//! Where things are, and how cargo is called on them.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How much work a check puts in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// On a developer's machine: minutes.
    Local,
    /// On a build server: everything.
    Ci,
}

/// The checkout that the chores work on.
pub(crate) struct Workspace {
    root: PathBuf,
    target: PathBuf,
}

impl Workspace {
    /// The workspace that this binary was built from.
    pub(crate) fn locate() -> Self {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = package.parent().unwrap_or(package).to_path_buf();
        let target = env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from);
        Self {
            target: root.join(target),
            root,
        }
    }

    /// The folder of the workspace's `Cargo.toml`.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A folder for what a chore builds, apart from the developer's own builds: other flags
    /// in one target folder would make cargo build everything anew each time.
    pub(crate) fn target(&self, name: &str) -> PathBuf {
        self.target.join("chores").join(name)
    }

    /// `cargo WORDS`, run at the root.
    pub(crate) fn cargo(&self, words: &[&str]) -> Command {
        self.command(env::var_os("CARGO").unwrap_or("cargo".into()), words)
    }

    /// The compiler that cargo uses.
    pub(crate) fn rustc(&self, words: &[&str]) -> Command {
        self.command(env::var_os("RUSTC").unwrap_or("rustc".into()), words)
    }

    /// Whether `program --version` runs here.
    pub(crate) fn has(&self, program: &str) -> bool {
        self.command(program.into(), &["--version"])
            .output()
            .is_ok_and(|output| output.status.success())
    }

    fn command(&self, program: OsString, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root).args(words);
        command
    }
}
