//! Which lines of the core are run, by its tests or by the fuzz corpora.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::report::{Report, announce};
use crate::workspace::{Effort, Workspace};

/// Percent.
const FLOOR: u64 = 95;
const SOURCES: &str = "crates/extentwise-core/src";
/// Debian's names; a release of LLVM reads the profiles of somewhat older compilers too.
const LLVM: &str = "22";

/// The step of `verify`: the core's lines reached by the tests of core, scenarios and testkit.
pub(crate) fn check(workspace: &Workspace, effort: Effort) -> Report {
    let mut report = Report::default();
    if let Err(reason) = Tools::find(workspace) {
        report.missing(effort, format!("COVERAGE: {reason}"));
        return report;
    }
    let words = [
        "test",
        "-p",
        "extentwise-core",
        "-p",
        "extentwise-scenario",
        "-p",
        "extentwise-testkit",
    ];
    measure(workspace, &words, FLOOR, &mut report);
    report
}

/// Runs `cargo WORDS` with coverage and counts the core's lines; names those that are missed.
pub(crate) fn measure(workspace: &Workspace, words: &[&str], floor: u64, report: &mut Report) {
    match lines(workspace, words) {
        Ok(lines) => judge(workspace, &lines, floor, report),
        Err(reason) => report.fault(reason),
    }
}

/// Of each file the lines that hold code, and whether they were run.
type Lines = BTreeMap<String, BTreeMap<u32, bool>>;

fn judge(workspace: &Workspace, lines: &Lines, floor: u64, report: &mut Report) {
    let (mut hit, mut all) = (0_u64, 0_u64);
    for (file, lines) in lines {
        let text = fs::read_to_string(workspace.root().join(file)).unwrap_or_default();
        let tests = first_test_line(file, &text);
        let code = || lines.iter().filter(|(line, _)| **line < tests);
        let missed: Vec<u32> = code().filter(|(_, run)| !**run).map(|(l, _)| *l).collect();
        all += code().count() as u64;
        hit += (code().count() - missed.len()) as u64;
        for line in missed {
            let source = text.lines().nth(line as usize - 1).unwrap_or_default();
            println!("not run: {file}:{line}: {}", source.trim());
        }
    }
    if all == 0 {
        report.fault(format!("no line of {SOURCES} is in the profile"));
    }
    let tenths = hit * 1000 / all.max(1);
    println!(
        "{hit} of {all} lines of the core are run: {}.{} %",
        tenths / 10,
        tenths % 10
    );
    report.note("lines of the core", all);
    report.count("percent of the core's lines run", tenths / 10, floor);
}

/// Tests are at the bottom of a file, or all of it.
fn first_test_line(file: &str, text: &str) -> u32 {
    if file.ends_with("tests.rs") || file.contains("/tests/") {
        return 0;
    }
    let is_test = |line: &str| line.starts_with("#[cfg(") && line.contains("test");
    let found = (1..).zip(text.lines()).find(|(_, line)| is_test(line));
    found.map_or(u32::MAX, |(number, _)| number)
}

fn lines(workspace: &Workspace, words: &[&str]) -> Result<Lines, String> {
    let tools = Tools::find(workspace)?;
    let profiles = workspace.target("coverage-profiles");
    let _ = fs::remove_dir_all(&profiles);
    let target = workspace.target("coverage");
    let instrumented = |more: &[&str]| {
        let mut command = workspace.cargo(words);
        command
            .args(more)
            .env("CARGO_TARGET_DIR", &target)
            .env("RUSTFLAGS", "-C instrument-coverage")
            // A pool of files that runs share, or there would be one for each run.
            .env("LLVM_PROFILE_FILE", profiles.join("%4m.profraw"));
        command
    };
    let mut build = instrumented(&["--no-run", "--message-format=json"]);
    let line = announce(&build);
    let output = build.stderr(std::process::Stdio::inherit()).output();
    let output = output.map_err(|error| format!("`{line}`: {error}"))?;
    if !output.status.success() {
        return Err(format!("`{line}`: {}", output.status));
    }
    let binaries = executables(&String::from_utf8_lossy(&output.stdout));
    succeed(&mut instrumented(&[]))?;

    let mut raw = Vec::new();
    for entry in fs::read_dir(&profiles).map_err(|error| format!("no profiles: {error}"))? {
        raw.push(entry.map_err(|error| error.to_string())?.path());
    }
    let merged = profiles.join("merged.profdata");
    let mut merge = Command::new(&tools.profdata);
    merge.args(["merge", "-sparse", "-o"]).arg(&merged);
    succeed(merge.args(&raw))?;
    let mut export = Command::new(&tools.cov);
    export.args(["export", "-format=lcov"]);
    export.arg(format!("-instr-profile={}", merged.display()));
    for binary in &binaries {
        export.args(["-object", binary]);
    }
    export.arg("--sources").arg(workspace.root().join(SOURCES));
    let line = announce(&export);
    let output = export.output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("`{line}`: {reason}"));
    }
    Ok(parse(
        &String::from_utf8_lossy(&output.stdout),
        workspace.root(),
    ))
}

fn succeed(command: &mut Command) -> Result<(), String> {
    let line = announce(command);
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{line}`: {status}")),
        Err(error) => Err(format!("`{line}` did not start: {error}")),
    }
}

/// The test programs in cargo's messages, of which each line is an object.
fn executables(messages: &str) -> Vec<String> {
    let path = |line: &str| {
        let (_, behind) = line.split_once("\"executable\":\"")?;
        Some(behind.split_once('"')?.0.to_owned())
    };
    messages.lines().filter_map(path).collect()
}

/// Reads an lcov report: `SF:FILE`, then `DA:LINE,COUNT` for each line.
fn parse(report: &str, root: &Path) -> Lines {
    let mut lines = Lines::new();
    let mut file = String::new();
    for line in report.lines() {
        if let Some(path) = line.strip_prefix("SF:") {
            let path = Path::new(path);
            file = path
                .strip_prefix(root)
                .unwrap_or(path)
                .display()
                .to_string();
        }
        let Some((number, count)) = line
            .strip_prefix("DA:")
            .and_then(|data| data.split_once(','))
        else {
            continue;
        };
        if let Ok(number) = number.parse() {
            let of_file = lines.entry(file.clone()).or_default();
            *of_file.entry(number).or_default() |= count != "0";
        }
    }
    lines
}

/// LLVM's programs that read profiles.
struct Tools {
    profdata: PathBuf,
    cov: PathBuf,
}

impl Tools {
    /// `LLVM_PROFDATA` and `LLVM_COV` win over what is installed.
    fn find(workspace: &Workspace) -> Result<Self, String> {
        let find = |variable: &str, program: &str| {
            let named = std::env::var_os(variable).map(PathBuf::from);
            let numbered = format!("{program}-{LLVM}");
            named
                .or_else(|| workspace.has(&numbered).then(|| numbered.into()))
                .ok_or_else(|| {
                    format!(
                        "{program}-{LLVM} is missing: `apt-get install llvm-{LLVM}`, or name \
                         another by {variable}"
                    )
                })
        };
        Ok(Self {
            profdata: find("LLVM_PROFDATA", "llvm-profdata")?,
            cov: find("LLVM_COV", "llvm-cov")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_run_if_any_report_of_it_says_so() {
        let report = "SF:/r/a.rs\nDA:1,0\nDA:2,0\nDA:2,7\nend_of_record\nSF:/r/b.rs\nDA:1,3\n";
        let lines = parse(report, Path::new("/r"));
        assert_eq!(lines["a.rs"], BTreeMap::from([(1, false), (2, true)]));
        assert_eq!(lines["b.rs"], BTreeMap::from([(1, true)]));
    }

    #[test]
    fn tests_are_no_code_of_the_core() {
        let text = "fn a() {}\n#[cfg(not(loom))]\n#[cfg(all(test, not(loom)))]\nmod tests {}\n";
        assert_eq!(first_test_line("a.rs", text), 3);
        assert_eq!(first_test_line("a.rs", "fn a() {}\n"), u32::MAX);
        assert_eq!(first_test_line("ordered/tests.rs", text), 0);
        assert_eq!(first_test_line("src/writeback/tests/pass.rs", text), 0);
    }

    #[test]
    fn programs_are_found_in_messages() {
        let messages = "{\"executable\":null}\n{\"a\":1,\"executable\":\"/t/x-1\"}\n";
        assert_eq!(executables(messages), ["/t/x-1"]);
    }
}
