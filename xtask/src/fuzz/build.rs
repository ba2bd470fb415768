//! Builds the fuzz targets.

use std::path::PathBuf;
use std::process::Command;

use super::targets::Target;
use crate::report::announce;
use crate::workspace::Workspace;

/// What the targets are built with beside coverage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sanitizer {
    /// Nothing: there is no unsafe code to watch, and it is several times as fast.
    None,
    /// `AddressSanitizer`, for the dependencies' sake.
    Address,
}

/// The programs, one a target.
pub(super) struct Binaries {
    folder: PathBuf,
}

impl Binaries {
    pub(super) fn command(&self, target: &Target) -> Command {
        Command::new(self.folder.join(target.name))
    }
}

/// Makes sure that cargo-fuzz is here, and installs it if it is not.
pub(super) fn tool(workspace: &Workspace) -> Result<(), String> {
    let there = || {
        let mut command = workspace.cargo(&["fuzz", "--version"]);
        command.output().is_ok_and(|output| output.status.success())
    };
    if there() {
        return Ok(());
    }
    eprintln!("cargo-fuzz is not installed; installing it takes about a minute");
    let mut install = workspace.cargo(&["install", "cargo-fuzz", "--locked"]);
    announce(&install);
    let installed = install.status().is_ok_and(|status| status.success());
    if installed && there() {
        return Ok(());
    }
    Err("cargo-fuzz is missing and `cargo install cargo-fuzz --locked` failed".into())
}

/// Builds all targets, the canary too.
pub(super) fn all(workspace: &Workspace, sanitizer: Sanitizer) -> Result<Binaries, String> {
    tool(workspace)?;
    let (name, folder) = match sanitizer {
        Sanitizer::None => ("none", "fuzz"),
        Sanitizer::Address => ("address", "fuzz-asan"),
    };
    let target = workspace.target(folder);
    let place = target.display().to_string();
    let words = [
        "fuzz",
        "build",
        "--sanitizer",
        name,
        // Watching comparisons takes half of the time and helps little with cases that are
        // decoded choice by choice.
        "--no-trace-compares",
        "--target-dir",
        &place,
    ];
    // The target folder is named above; the developer's own would win over it.
    let mut command = with_unstable_flags(workspace, &words);
    command.env_remove("CARGO_TARGET_DIR");
    let line = announce(&command);
    let status = command.status();
    if !status.is_ok_and(|status| status.success()) {
        return Err(format!("`{line}` failed"));
    }
    let folder = target.join(host(workspace)?).join("release");
    Ok(Binaries { folder })
}

/// cargo of the nightly toolchain, or the pinned one told to accept unstable flags.
fn with_unstable_flags(workspace: &Workspace, words: &[&str]) -> Command {
    let rustup = |words: &[&str]| {
        let mut command = Command::new("rustup");
        command.current_dir(workspace.root());
        command.args(["run", "nightly"]).args(words);
        command
    };
    let nightly = rustup(&["rustc", "--version"]).output();
    if nightly.is_ok_and(|output| output.status.success()) {
        let mut command = rustup(&["cargo"]);
        command.args(words);
        return command;
    }
    eprintln!("no nightly toolchain; RUSTC_BOOTSTRAP=1 stands in for it");
    let mut command = workspace.cargo(words);
    command.env("RUSTC_BOOTSTRAP", "1");
    command
}

fn host(workspace: &Workspace) -> Result<String, String> {
    let output = workspace.rustc(&["-vV"]).output();
    let text = output.map_err(|error| format!("rustc: {error}"))?.stdout;
    String::from_utf8_lossy(&text)
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .map(str::to_owned)
        .ok_or_else(|| "rustc -vV names no host".into())
}
