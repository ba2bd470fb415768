//! What can be said about the sources without running them.

use std::fs;
use std::path::Path;

use crate::report::Report;
use crate::source;
use crate::workspace::{Effort, Workspace};

/// A longer file has to say why, near its top.
const LINES_MAX: usize = 600;
const EXCUSE: &str = "//! Long because: ";
/// "Near its top" in lines.
const EXCUSE_LINES: usize = 30;

const FILES_FLOOR: u64 = 75;
/// Without cargo-deny, which not every machine has.
const COMMANDS_FLOOR: u64 = 10;

/// Where there is raw memory: the package that owns it, and the folder that lends it to the
/// kernel. There, clippy asks for a proof beside each use.
const UNSAFE_HOMES: [&str; 2] = [
    "crates/extentwise-memory/",
    "crates/extentwise-host/src/uring/",
];

/// rustfmt colours its differences also where nobody sees colours.
const FMT: [&str; 4] = ["--check", "--", "--color", "never"];

/// Formatting, clippy, documentation, dependencies, and the house's own rules for files.
pub(crate) fn run(workspace: &Workspace, effort: Effort) -> Report {
    let mut report = Report::default();
    let mut commands = 0;
    let mut cargo = |report: &mut Report, words: &[&str]| {
        commands += 1;
        let mut command = workspace.cargo(words);
        if words.contains(&"doc") {
            command.env("RUSTDOCFLAGS", "-D warnings");
        }
        report.run(&mut command);
    };

    // Before anything writes them anew in silence.
    let manifests = Standalone::ALL.map(|package| format!("{}/Cargo.toml", package.folder));
    for manifest in ["Cargo.toml"]
        .into_iter()
        .chain(manifests.iter().map(String::as_str))
    {
        let tree = ["tree", "--locked", "--depth", "0", "--manifest-path"];
        cargo(&mut report, &[&tree[..], &[manifest]].concat());
    }

    let deny = ["--", "-D", "warnings"];
    let every_target = ["clippy", "--workspace", "--all-targets", "--all-features"];
    let without_alloc = [
        "clippy",
        "-p",
        "extentwise-core",
        "--all-targets",
        "--no-default-features",
    ];
    let docs = ["doc", "--workspace", "--no-deps", "--all-features"];
    cargo(&mut report, &[&["fmt", "--all"], &FMT[..]].concat());
    cargo(&mut report, &[&every_target[..], &deny].concat());
    cargo(&mut report, &[&without_alloc[..], &deny].concat());
    // Twice: only the first sees a public text that links to a private item, only the second
    // sees broken links in the texts of private items.
    cargo(&mut report, &docs);
    cargo(
        &mut report,
        &[&docs[..], &["--document-private-items"]].concat(),
    );

    for package in Standalone::ALL {
        let manifest = format!("{}/Cargo.toml", package.folder);
        if !workspace.root().join(&manifest).exists() {
            continue;
        }
        let target = workspace.target(package.folder);
        let at = ["--manifest-path", &manifest];
        cargo(&mut report, &[&["fmt"], &at[..], &FMT].concat());
        if package.needs.is_some_and(|tool| !workspace.has(tool)) {
            report.not_run(format!(
                "clippy in {}: no C++ compiler here",
                package.folder
            ));
            continue;
        }
        let target = target.display().to_string();
        let clippy = [&["clippy", "--target-dir", &target], &at[..], &deny];
        cargo(&mut report, &clippy.concat());
    }

    if !workspace.has("cargo-deny") {
        report.not_run("cargo deny: not installed (`cargo install cargo-deny --locked`)");
    } else if has_every_package(workspace) {
        let words = ["deny", "--offline", "check", "bans", "licenses", "sources"];
        cargo(&mut report, &words);
    } else {
        let reason = "cargo deny: packages for other systems are not here (`cargo fetch --locked`)";
        report.missing(effort, reason);
    }

    report.count("cargo commands", commands, COMMANDS_FLOOR);
    check_files(workspace.root(), &mut report);
    report
}

/// Whether the packages of every system are on this machine: a build fetches those of its own
/// system alone, and cargo-deny looks at the licences of all of them.
fn has_every_package(workspace: &Workspace) -> bool {
    let words = ["fetch", "--locked", "--offline"];
    let output = workspace.cargo(&words).output();
    output.is_ok_and(|output| output.status.success())
}

/// A package that is a workspace of its own, so that `--workspace` does not reach it.
struct Standalone {
    folder: &'static str,
    /// Building its dependencies takes this program.
    needs: Option<&'static str>,
}

impl Standalone {
    const ALL: [Self; 2] = [
        Self {
            folder: "xtask/freestanding",
            needs: None,
        },
        Self {
            folder: "fuzz",
            needs: Some("c++"),
        },
    ];
}

fn check_files(root: &Path, report: &mut Report) {
    let files = match source::rust_files(root) {
        Ok(files) => files,
        Err(error) => return report.fault(format!("{}: {error}", root.display())),
    };
    report.count("Rust files", files.len() as u64, FILES_FLOOR);
    for file in files {
        let name = file
            .strip_prefix(root)
            .unwrap_or(&file)
            .display()
            .to_string();
        match fs::read_to_string(&file) {
            Ok(text) => complaints(&name, &text)
                .into_iter()
                .for_each(|complaint| report.fault(format!("{name}: {complaint}"))),
            Err(error) => report.fault(format!("{name}: {error}")),
        }
    }
}

/// What is wrong with the text of one file.
fn complaints(name: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let lines = text.lines().count();
    let excused = text
        .lines()
        .take(EXCUSE_LINES)
        .filter_map(|line| line.strip_prefix(EXCUSE))
        .any(|reason| !reason.trim().is_empty());
    if lines > LINES_MAX && !excused {
        found.push(format!(
            "{lines} lines, {LINES_MAX} allowed: split it or say `{EXCUSE}…` at the top"
        ));
    }
    if UNSAFE_HOMES.iter().any(|home| name.starts_with(home)) {
        return found;
    }
    let code = source::code_only(text);
    for (number, line) in (1..).zip(code.lines()) {
        if source::words(line).any(|word| word == "unsafe") {
            found.push(format!("line {number}: unsafe code"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "crates/extentwise-core/src/lib.rs";

    fn lines(count: usize) -> String {
        "//! A file.\n".repeat(count)
    }

    #[test]
    fn a_long_file_needs_an_excuse_near_its_top() {
        assert!(complaints(FILE, &lines(LINES_MAX)).is_empty());
        assert_eq!(complaints(FILE, &lines(LINES_MAX + 1)).len(), 1);
        let excuse = "//! Long because: a table of cases.\n";
        assert!(complaints(FILE, &(lines(3) + excuse + &lines(LINES_MAX))).is_empty());
        assert_eq!(complaints(FILE, &(lines(LINES_MAX) + excuse)).len(), 1);
        let empty = "//! Long because: \n";
        assert_eq!(
            complaints(FILE, &(lines(3) + empty + &lines(LINES_MAX))).len(),
            1
        );
    }

    #[test]
    fn unsafe_code_is_found_and_talk_about_it_is_not() {
        let talk = "//! no unsafe\n#![deny(unsafe_code)]\nconst A: &str = \"unsafe\";\n";
        assert!(complaints(FILE, talk).is_empty());
        let code = "fn f() {\n    unsafe { g() }\n}\n";
        assert_eq!(complaints(FILE, code), ["line 2: unsafe code"]);
        let attribute = "#[unsafe(no_mangle)]\nfn f() {}\n";
        assert_eq!(complaints(FILE, attribute), ["line 1: unsafe code"]);
        for home in [
            "crates/extentwise-memory/src/folio.rs",
            "crates/extentwise-host/src/uring/ring.rs",
        ] {
            assert!(complaints(home, code).is_empty());
        }
        for elsewhere in [
            "crates/extentwise-memory2/src/a.rs",
            "crates/extentwise-host/src/uring.rs",
            "crates/extentwise-host/tests/uring/a.rs",
        ] {
            assert_eq!(complaints(elsewhere, code).len(), 1);
        }
    }
}
