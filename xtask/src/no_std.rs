//! Proof that the core needs neither std, nor an allocator, nor an operating system.
//!
//! First it is compiled against a sysroot that holds nothing but `core`; canaries show that
//! this sysroot really refuses what it should. Then a program around it is linked without
//! libc and start files, and run.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::elf;
use crate::report::{Report, announce};
use crate::workspace::{Effort, Workspace};

/// Compiled against the bare sysroot: name, source, and the crate that must be missed.
const CANARIES: &[(&str, &str, Option<&str>)] = &[
    ("uses_core", "#![no_std]\npub use core::cmp::min;\n", None),
    (
        "uses_alloc",
        "#![no_std]\nextern crate alloc;\npub use alloc::vec::Vec;\n",
        Some("alloc"),
    ),
    (
        "uses_std",
        "#![no_std]\nextern crate std;\npub use std::vec::Vec;\n",
        Some("std"),
    ),
];

const FREESTANDING: &str = "xtask/freestanding";
const FREESTANDING_TARGET: &str = "x86_64-unknown-linux-gnu";

const REFUSALS_FLOOR: u64 = 3;
const RUNS_FLOOR: u64 = 2;
/// Less code than this cannot hold the scenarios: they were optimised away.
const TEXT_FLOOR: u64 = 8192;
/// The exit status of the freestanding program's check that its canary run must trip.
const CANARY_CODE: i32 = 11;

/// Both proofs; the second one on x86-64 Linux only, as its entry point is assembly.
pub(crate) fn run(workspace: &Workspace, _: Effort) -> Report {
    let mut report = Report::default();
    bare_sysroot(workspace, &mut report);
    if cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        freestanding(workspace, &mut report);
    } else {
        let notice = "the freestanding program: it is written for x86-64 Linux";
        eprintln!("NOT RUN: {notice}");
        report.not_run(notice);
    }
    report
}

fn bare_sysroot(workspace: &Workspace, report: &mut Report) {
    let folder = workspace.target("no-std");
    let host = match host(workspace) {
        Ok(host) => host,
        Err(error) => return report.fault(format!("rustc does not name its host: {error}")),
    };
    let sysroot = match lay_out_sysroot(workspace, &folder, &host) {
        Ok(sysroot) => sysroot,
        Err(error) => return report.fault(format!("sysroot without std: {error}")),
    };

    let mut refusals = 0;
    for (name, text, missed) in CANARIES {
        let verdict = compile_canary(workspace, &folder, &sysroot, name, text);
        match judge(verdict, *missed) {
            Ok(()) => refusals += u64::from(missed.is_some()),
            Err(fault) => report.fault(format!("canary {name}: {fault}")),
        }
    }

    let target = folder.join("target").display().to_string();
    let flags = format!("--sysroot={}", sysroot.display());
    // An explicit target keeps the flags away from build scripts and macros, which need std.
    let check = [
        "check",
        "-p",
        "extentwise-core",
        "--target",
        &host,
        "--target-dir",
        &target,
    ];
    report.run(workspace.cargo(&check).env("RUSTFLAGS", &flags));

    // The same command with the heap switched on has to fail, which shows that the flags
    // arrive and that `alloc` is what the feature adds.
    let words = [&check[..], &["--features", "alloc"]].concat();
    let mut command = workspace.cargo(&words);
    match judge(captured(command.env("RUSTFLAGS", &flags)), Some("alloc")) {
        Ok(()) => refusals += 1,
        Err(fault) => report.fault(format!("canary feature `alloc`: {fault}")),
    }
    report.count(
        "canaries refused without std or alloc",
        refusals,
        REFUSALS_FLOOR,
    );
}

/// The target that the compiler builds for by default.
fn host(workspace: &Workspace) -> io::Result<String> {
    let version = stdout(&mut workspace.rustc(&["-vV"]))?;
    version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .map(String::from)
        .ok_or_else(|| io::Error::other("no line `host: ` in `rustc -vV`"))
}

/// Makes a sysroot of links to the compiler's own `core`, and to nothing else of it.
fn lay_out_sysroot(workspace: &Workspace, folder: &Path, host: &str) -> io::Result<PathBuf> {
    let sysroot = folder.join("sysroot");
    if sysroot.exists() {
        fs::remove_dir_all(&sysroot)?;
    }
    let libraries = sysroot.join("lib/rustlib").join(host).join("lib");
    fs::create_dir_all(&libraries)?;
    let installed = stdout(&mut workspace.rustc(&["--print", "target-libdir"]))?;
    for entry in fs::read_dir(installed.trim())? {
        let entry = entry?;
        let name = entry.file_name();
        let text = name.to_string_lossy();
        if text.starts_with("libcore-") || text.starts_with("libcompiler_builtins-") {
            symlink(entry.path(), libraries.join(&name))?;
        }
    }
    Ok(sysroot)
}

fn compile_canary(
    workspace: &Workspace,
    folder: &Path,
    sysroot: &Path,
    name: &str,
    text: &str,
) -> io::Result<Output> {
    let source = folder.join(name).with_extension("rs");
    fs::write(&source, text)?;
    let mut command = workspace.rustc(&["--edition=2024", "--crate-type=lib", "--emit=metadata"]);
    command.arg("--sysroot").arg(sysroot);
    command.arg("--out-dir").arg(folder).arg(source);
    captured(&mut command)
}

/// Whether a compilation went as it must: refused for want of `missed`, or accepted.
fn judge(output: io::Result<Output>, missed: Option<&str>) -> Result<(), String> {
    let output = output.map_err(|error| format!("did not start: {error}"))?;
    let message = String::from_utf8_lossy(&output.stderr);
    match missed {
        None if output.status.success() => Ok(()),
        None => Err(format!("refused: {message}")),
        Some(_) if output.status.success() => Err("accepted, must be refused".into()),
        Some(name) if message.contains(&format!("can't find crate for `{name}`")) => Ok(()),
        Some(name) => Err(format!("refused, but not for want of {name}: {message}")),
    }
}

fn freestanding(workspace: &Workspace, report: &mut Report) {
    let target = workspace.target(FREESTANDING);
    let manifest = format!("{FREESTANDING}/Cargo.toml");
    let folder = target.display().to_string();
    // Link arguments go to this one binary: in RUSTFLAGS they would break build scripts.
    let link = ["-nostartfiles", "-nostdlib", "-static"].map(|flag| format!("link-arg={flag}"));
    let mut build = workspace.cargo(&["rustc", "--release", "--manifest-path", &manifest]);
    build.args([
        "--target",
        FREESTANDING_TARGET,
        "--target-dir",
        &folder,
        "--",
    ]);
    build.args(["-C", "relocation-model=static"]);
    build.args(link.iter().flat_map(|flag| ["-C", flag]));
    if !report.run(&mut build) {
        return;
    }

    let program = target
        .join(FREESTANDING_TARGET)
        .join("release/freestanding");
    match fs::read(&program).map_err(|error| error.to_string()) {
        Ok(file) => match elf::sections(&file) {
            Ok(sections) => judge_sections(&sections, report),
            Err(error) => report.fault(format!("{}: {error}", program.display())),
        },
        Err(error) => report.fault(format!("{}: {error}", program.display())),
    }

    let mut runs = 0;
    // A word on its command line seeds a wrong expectation, which the program has to notice.
    for (words, expected) in [(&[][..], 0), (&["canary"][..], CANARY_CODE)] {
        let status = captured(Command::new(&program).args(words)).map(|output| output.status);
        match status {
            Ok(status) if status.code() == Some(expected) => runs += 1,
            Ok(status) => report.fault(format!(
                "the freestanding program {words:?}: {status}, expected exit status {expected}; \
                 its source names the check behind each status"
            )),
            Err(error) => report.fault(format!("the freestanding program: {error}")),
        }
    }
    report.count("freestanding runs ended as expected", runs, RUNS_FLOOR);
}

/// Linked statically for real, and the size of its code.
fn judge_sections(sections: &[(String, u64)], report: &mut Report) {
    for (name, _) in sections {
        if [".interp", ".dynamic"].contains(&name.as_str()) {
            report.fault(format!(
                "the freestanding program has a section {name}: not static"
            ));
        }
    }
    let text = sections.iter().filter(|(name, _)| name == ".text");
    report.count(
        "bytes of freestanding code",
        text.map(|(_, size)| size).sum(),
        TEXT_FLOOR,
    );
}

fn captured(command: &mut Command) -> io::Result<Output> {
    announce(command);
    command.output()
}

fn stdout(command: &mut Command) -> io::Result<String> {
    let output = command.output()?;
    if !output.status.success() {
        return Err(io::Error::other(output.status.to_string()));
    }
    String::from_utf8(output.stdout).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    fn judged(code: i32, message: &str, missed: Option<&str>) -> Result<(), String> {
        let output = Output {
            status: ExitStatus::from_raw(code << 8),
            stdout: Vec::new(),
            stderr: message.into(),
        };
        judge(Ok(output), missed)
    }

    #[test]
    fn a_canary_counts_only_when_refused_for_the_right_reason() {
        let missing = "error[E0463]: can't find crate for `std`";
        assert!(judged(1, missing, Some("std")).is_ok());
        assert!(judged(1, missing, Some("alloc")).is_err());
        assert!(judged(1, "error: no such file", Some("std")).is_err());
        assert!(judged(0, "", Some("std")).is_err());
        assert!(judged(0, "", None).is_ok());
        assert!(judged(1, missing, None).is_err());
        assert!(judge(Err(io::Error::other("gone")), Some("std")).is_err());
    }

    #[test]
    fn a_dynamically_linked_program_is_a_fault() {
        let mut report = Report::default();
        judge_sections(&[(".text".into(), TEXT_FLOOR)], &mut report);
        assert!(report.passed());
        judge_sections(
            &[(".text".into(), TEXT_FLOOR), (".interp".into(), 28)],
            &mut report,
        );
        assert!(!report.passed());
    }
}
