//! The checks that a mistake has to get past, built and run one after the other.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::bug::Bug;
use crate::workspace::Workspace;

/// A check takes seconds; one that takes this long hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// A test binary.
pub(super) struct Suite {
    /// What the table calls it.
    pub(super) name: &'static str,
    /// The crate whose mistakes it has to notice.
    of: &'static str,
    package: &'static str,
    words: &'static [&'static str],
    /// Whether its tests are named after the modules of the core.
    tests: Named,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    ByModule,
    Otherwise,
}

impl Suite {
    /// Quick ones first: the first that catches a mistake is the last that runs.
    pub(super) const ALL: [Self; 8] = [
        Self {
            name: "core",
            of: "extentwise-core",
            package: "extentwise-core",
            words: &["--features", "alloc", "--lib"],
            tests: Named::ByModule,
        },
        Self {
            name: "cases",
            of: "extentwise-core",
            package: "extentwise-scenario",
            words: &["--test", "cases"],
            tests: Named::Otherwise,
        },
        Self {
            name: "oracle",
            of: "extentwise-core",
            package: "extentwise-scenario",
            words: &["--test", "agreement"],
            tests: Named::Otherwise,
        },
        Self {
            name: "public_bugs",
            of: "extentwise-engine",
            package: "extentwise-engine",
            words: &["--test", "public_bugs"],
            tests: Named::Otherwise,
        },
        Self {
            name: "public_bugs_ends",
            of: "extentwise-engine",
            package: "extentwise-engine",
            words: &["--test", "public_bugs_ends"],
            tests: Named::Otherwise,
        },
        Self {
            name: "rules_errors",
            of: "extentwise-engine",
            package: "extentwise-engine",
            words: &["--test", "rules_errors"],
            tests: Named::Otherwise,
        },
        Self {
            name: "rules_writeback",
            of: "extentwise-engine",
            package: "extentwise-engine",
            words: &["--test", "rules_writeback"],
            tests: Named::Otherwise,
        },
        Self {
            name: "rules_overwrite",
            of: "extentwise-engine",
            package: "extentwise-engine",
            words: &["--test", "rules_overwrite"],
            tests: Named::Otherwise,
        },
    ];

    /// The suites that may catch `bug`: those of the crate that it names, or the one that
    /// holds the test that it names.
    pub(super) fn hunting(bug: &Bug) -> impl Iterator<Item = &'static Self> {
        let named = bug.test.as_deref().and_then(|test| test.split_once("::"));
        Self::ALL.iter().filter(move |suite| {
            suite.of == bug.tests && named.is_none_or(|(name, _)| suite.name == name)
        })
    }

    /// Builds the tests in `folder` and answers what to run.
    pub(super) fn build(&self, workspace: &Workspace, folder: &Path) -> Result<PathBuf, String> {
        let manifest = folder.join("Cargo.toml").display().to_string();
        let target = folder.join("target").display().to_string();
        let mut command = workspace.cargo(&["test", "--no-run", "--manifest-path", &manifest]);
        command.args(["--target-dir", &target, "--package", self.package]);
        command.args(self.words);
        // Building weighs more than running here.
        for setting in ["opt-level=1", "debug=false", "incremental=true"] {
            command.args(["--config", &format!("profile.test.{setting}")]);
        }
        command.arg("--message-format=json-render-diagnostics");
        let output = command.output().map_err(|error| error.to_string())?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("it does not compile:\n{said}"));
        }
        executable(&String::from_utf8_lossy(&output.stdout))
            .map(PathBuf::from)
            .ok_or_else(|| format!("cargo names no test binary for {}", self.name))
    }

    /// Runs the tests of one module of the core, where the suite has such, then all.
    pub(super) fn run(&self, binary: &Path, module: Option<&str>) -> Result<Tests, String> {
        let module = module.filter(|_| self.tests == Named::ByModule);
        if let Some(module) = module {
            let tests = run_tests(binary, &[module])?;
            if !tests.failed.is_empty() {
                return Ok(tests);
            }
        }
        run_tests(binary, &[])
    }
}

/// What became of the tests of a binary.
#[derive(Default, PartialEq, Eq, Debug)]
pub(super) struct Tests {
    /// How many passed.
    pub(super) passed: u64,
    /// The names of those that failed, sorted.
    pub(super) failed: Vec<String>,
    /// All that was printed.
    pub(super) output: String,
}

impl Tests {
    /// Reads the lines of the test harness: `test a::b ... ok`.
    fn read(output: String) -> Self {
        let mut tests = Self::default();
        for line in output.lines() {
            let Some((name, verdict)) = line
                .strip_prefix("test ")
                .and_then(|rest| rest.rsplit_once(" ... "))
            else {
                continue;
            };
            match verdict {
                "ok" => tests.passed += 1,
                "FAILED" => tests.failed.push(name.into()),
                _ => {}
            }
        }
        tests.failed.sort();
        Self { output, ..tests }
    }

    /// The failed test to name: one that is named after `rule`, else the first.
    pub(super) fn witness(&self, rule: &str) -> Option<&str> {
        let wanted = rule.to_lowercase();
        let names_rule = |name: &&String| {
            let own = name.rsplit("::").next().unwrap_or(name);
            own.split('_').any(|word| word == wanted)
        };
        let named = self.failed.iter().find(names_rule);
        named.or(self.failed.first()).map(String::as_str)
    }
}

/// The path that cargo's messages name as the built test binary.
fn executable(messages: &str) -> Option<&str> {
    let key = "\"executable\":\"";
    let at = messages.find(key)? + key.len();
    messages[at..].split('"').next()
}

fn run_tests(binary: &Path, words: &[&str]) -> Result<Tests, String> {
    let mut command = Command::new(binary);
    command.args(words).stdin(Stdio::null());
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("{}: {error}", binary.display()))?;
    let output = read_in_time(&mut child, PATIENCE).map_err(|error| error.to_string())?;
    let status = child.wait().map_err(|error| error.to_string())?;
    let tests = Tests::read(output);
    // A death that no test is named for could be anything.
    if status.success() == tests.failed.is_empty() {
        Ok(tests)
    } else {
        Err(format!("its tests ended with {status}"))
    }
}

/// What `child` prints until it ends; it is killed when that takes too long.
fn read_in_time(child: &mut Child, patience: Duration) -> io::Result<String> {
    let Some(mut pipe) = child.stdout.take() else {
        return Ok(String::new());
    };
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let done = pipe.read_to_end(&mut bytes).map(|_| bytes);
        // Nobody listens any more when patience is over.
        let _ = sender.send(done);
    });
    if let Ok(done) = receiver.recv_timeout(patience) {
        return done.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    }
    child.kill()?;
    child.wait()?;
    let seconds = patience.as_secs();
    Err(io::Error::other(format!(
        "its tests did not end within {seconds} s"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\nrunning 4 tests\n\
        test b::w7_a_gap ... FAILED\n\
        test a::other ... FAILED\n\
        test a::fine ... ok\n\
        test a::slow ... ignored\n\n\
        failures:\n    a::other\n    b::w7_a_gap\n\n\
        test result: FAILED. 1 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out\n";

    #[test]
    fn the_test_named_after_the_rule_is_the_witness() {
        let tests = Tests::read(OUTPUT.into());
        assert_eq!(tests.passed, 1);
        assert_eq!(tests.failed, ["a::other", "b::w7_a_gap"]);
        assert_eq!(tests.witness("W7"), Some("b::w7_a_gap"));
        assert_eq!(tests.witness("W70"), Some("a::other"));
        assert_eq!(Tests::default().witness("W7"), None);
    }

    #[test]
    fn the_binary_is_the_one_that_cargo_names() {
        let messages = "{\"reason\":\"compiler-artifact\",\"executable\":null}\n\
            {\"reason\":\"compiler-artifact\",\"executable\":\"/t/core-1\",\"fresh\":true}\n";
        assert_eq!(executable(messages), Some("/t/core-1"));
        assert_eq!(executable("{\"executable\":null}"), None);
    }

    #[test]
    fn a_binary_that_fails_without_a_failed_test_catches_nothing() {
        assert!(run_tests(Path::new("false"), &[]).is_err());
        assert_eq!(run_tests(Path::new("true"), &[]), Ok(Tests::default()));
    }

    #[test]
    fn tests_that_hang_are_ended() {
        let mut command = Command::new("sleep");
        let mut child = command
            .arg("60")
            .stdout(Stdio::piped())
            .spawn()
            .expect("sleep is there");
        let hung = read_in_time(&mut child, Duration::from_millis(20));
        assert!(hung.is_err_and(|error| error.to_string().contains("did not end")));
    }
}
