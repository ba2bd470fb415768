//! Proof that the core needs neither std, nor an allocator, nor an operating system, and the
//! crates around it no more than an allocator.
//!
//! First each is compiled against a sysroot that holds nothing but `core`, or `core` and
//! `alloc`; canaries show that these sysroots really refuse what they should. Then a program
//! around the core and the engine is linked without libc and start files, and run.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::elf;
use crate::report::{Report, announce};
use crate::workspace::{Effort, Workspace};

/// A folder in place of the compiler's own libraries, with some of them.
struct Sysroot {
    name: &'static str,
    /// Its libraries, beside the compiler's own intrinsics.
    holds: &'static [&'static str],
    /// The crates that must do with it.
    packages: &'static [&'static str],
    /// Crates that must be refused, with an option if one is needed, for want of a library: that
    /// shows that the flags arrive.
    refused: &'static [(&'static [&'static str], &'static str)],
}

static SYSROOTS: [Sysroot; 2] = [
    Sysroot {
        name: "core",
        holds: &["core"],
        packages: &["extentwise-core", "extentwise-device"],
        refused: &[
            (&["extentwise-core", "--features", "alloc"], "alloc"),
            (&["extentwise-engine"], "alloc"),
        ],
    },
    Sysroot {
        name: "core-alloc",
        holds: &["core", "alloc"],
        packages: &["extentwise-engine", "extentwise-thin"],
        refused: &[(&["extentwise-host"], "std")],
    },
];

/// Compiled against each sysroot: the library that it needs, and the source.
const CANARIES: [(&str, &str); 3] = [
    ("core", "#![no_std]\npub use core::cmp::min;\n"),
    (
        "alloc",
        "#![no_std]\nextern crate alloc;\npub use alloc::vec::Vec;\n",
    ),
    (
        "std",
        "#![no_std]\nextern crate std;\npub use std::vec::Vec;\n",
    ),
];

const FREESTANDING: &str = "xtask/freestanding";
const FREESTANDING_TARGET: &str = "x86_64-unknown-linux-gnu";

const PACKAGES_FLOOR: u64 = 4;
const REFUSALS_FLOOR: u64 = 6;
const RUNS_FLOOR: u64 = 3;
/// Less code than this cannot hold the scenarios: they were optimised away.
const TEXT_FLOOR: u64 = 65536;
/// What the freestanding program is told, and its exit status. Words seed a wrong expectation,
/// one in the core's scenario, two in the engine's; the program has to notice.
const RUNS: [(&[&str], i32); 3] = [(&[], 0), (&["canary"], 11), (&["canary", "engine"], 51)];

/// Both proofs; the second one on x86-64 Linux only, as its entry point is assembly.
pub(crate) fn run(workspace: &Workspace, _: Effort) -> Report {
    let mut report = Report::default();
    bare_sysroots(workspace, &mut report);
    if cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        freestanding(workspace, &mut report);
    } else {
        let notice = "the freestanding program: it is written for x86-64 Linux";
        eprintln!("NOT RUN: {notice}");
        report.not_run(notice);
    }
    report
}

fn bare_sysroots(workspace: &Workspace, report: &mut Report) {
    let host = match host(workspace) {
        Ok(host) => host,
        Err(error) => return report.fault(format!("rustc does not name its host: {error}")),
    };
    let (mut packages, mut refusals) = (0, 0);
    for sysroot in &SYSROOTS {
        let folder = workspace.target("no-std").join(sysroot.name);
        let place = match sysroot.lay_out(workspace, &folder, &host) {
            Ok(place) => place,
            Err(error) => {
                report.fault(format!("sysroot of {}: {error}", sysroot.name));
                continue;
            }
        };
        let mut refuse =
            |report: &mut Report, name: &str, output, missed| match judge(output, missed) {
                Ok(()) => refusals += u64::from(missed.is_some()),
                Err(fault) => report.fault(format!("canary {name} on {}: {fault}", sysroot.name)),
            };
        for (name, text) in CANARIES {
            let missed = (!sysroot.holds.contains(&name)).then_some(name);
            let output = compile_canary(workspace, &folder, &place, name, text);
            refuse(report, name, output, missed);
        }

        let target = folder.join("target").display().to_string();
        let flags = format!("--sysroot={}", place.display());
        let check = |words: &[&str]| {
            // An explicit target keeps the flags away from build scripts and macros, which need
            // std.
            let options = ["check", "--target", &host, "--target-dir", &target, "-p"];
            let mut command = workspace.cargo(&[&options, words].concat());
            command.env("RUSTFLAGS", &flags);
            command
        };
        for package in sysroot.packages {
            packages += u64::from(report.run(&mut check(&[package])));
        }
        for (words, missed) in sysroot.refused {
            let output = captured(&mut check(words));
            refuse(report, &words.join(" "), output, Some(*missed));
        }
    }
    report.count("crates checked without std", packages, PACKAGES_FLOOR);
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

impl Sysroot {
    /// Makes it of links to the compiler's own libraries.
    fn lay_out(&self, workspace: &Workspace, folder: &Path, host: &str) -> io::Result<PathBuf> {
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
            if self.has_file(&name.to_string_lossy()) {
                symlink(entry.path(), libraries.join(&name))?;
            }
        }
        Ok(sysroot)
    }

    /// Whether a file of the compiler's, `libcore-HASH.rlib`, is of it.
    fn has_file(&self, name: &str) -> bool {
        let library = name
            .strip_prefix("lib")
            .and_then(|name| name.split_once('-'));
        library.is_some_and(|(library, _)| {
            library == "compiler_builtins" || self.holds.contains(&library)
        })
    }
}

fn compile_canary(
    workspace: &Workspace,
    folder: &Path,
    sysroot: &Path,
    name: &str,
    text: &str,
) -> io::Result<Output> {
    let source = folder.join(format!("uses_{name}.rs"));
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
    for (words, expected) in RUNS {
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
    fn a_sysroot_has_the_libraries_it_names_and_no_others() {
        let [core, alloc] = &SYSROOTS;
        for (file, in_core, in_alloc) in [
            ("libcore-12ab.rlib", true, true),
            ("libcompiler_builtins-12ab.rmeta", true, true),
            ("liballoc-12ab.rlib", false, true),
            ("libstd-12ab.so", false, false),
            ("librustc_std_workspace_core-12ab.rlib", false, false),
            ("core-12ab", false, false),
        ] {
            assert_eq!(core.has_file(file), in_core, "{file}");
            assert_eq!(alloc.has_file(file), in_alloc, "{file}");
        }
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
