//! Corpora: the committed ones, kept small, and what runs find.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::build::Binaries;
use super::targets::Target;
use crate::report::Report;
use crate::workspace::Workspace;

/// Committed files of one target; every `cargo test` replays them.
const FILES_MAX: usize = 60;

/// The committed corpus of a target.
pub(super) fn committed(workspace: &Workspace, target: &Target) -> PathBuf {
    workspace.root().join("fuzz/corpus").join(target.name)
}

/// What runs on this machine found for a target; never committed as it is.
pub(super) fn found(workspace: &Workspace, target: &Target) -> PathBuf {
    workspace.target("fuzz-corpus").join(target.name)
}

/// Makes the committed corpora anew: of what is committed and what was found, few inputs that
/// together reach every edge that all of them reach; of more than [`FILES_MAX`] the first.
pub(super) fn minimise(
    workspace: &Workspace,
    binaries: &Binaries,
    targets: &[&Target],
    report: &mut Report,
) {
    for target in targets {
        match minimise_one(workspace, binaries, target, report) {
            Ok((kept, all)) => println!("{}: {kept} files of {all}", target.name),
            Err(error) => report.fault(format!("{}: {error}", target.name)),
        }
    }
}

fn minimise_one(
    workspace: &Workspace,
    binaries: &Binaries,
    target: &Target,
    report: &mut Report,
) -> io::Result<(usize, usize)> {
    let (committed, found) = (committed(workspace, target), found(workspace, target));
    let fresh = workspace.target("fuzz-minimised").join(target.name);
    remove(&fresh)?;
    for folder in [&fresh, &committed, &found] {
        fs::create_dir_all(folder)?;
    }
    let mut command = binaries.command(target);
    command
        // How often an edge is taken would ask for many more files.
        .args(["-merge=1", "-set_cover_merge=1", "-use_counters=0"])
        .arg(format!("-max_len={}", target.len_max))
        .args([&fresh, &committed, &found])
        .current_dir(workspace.root());
    let merged = report.run(&mut command);
    let mut files = Vec::new();
    for entry in fs::read_dir(&fresh)? {
        let entry = entry?;
        files.push((entry.metadata()?.modified()?, entry.path()));
    }
    if !merged || files.is_empty() {
        return Err(io::Error::other("nothing was merged"));
    }
    // They were written in the order in which they were chosen: what adds most comes first.
    files.sort();
    remove(&committed)?;
    fs::create_dir_all(&committed)?;
    let kept = files.len().min(FILES_MAX);
    for (_, file) in &files[..kept] {
        if let Some(name) = file.file_name() {
            fs::copy(file, committed.join(name))?;
        }
    }
    Ok((kept, files.len()))
}

fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
