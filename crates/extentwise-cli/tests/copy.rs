//! `extentwise copy` as its users run it.

use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use extentwise_files::Claim;
use serde_json::Value;

const KINDS: [&str; 3] = ["buffered", "direct", "uring"];

struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn source(&self, bytes: &[u8]) -> PathBuf {
        let path = self.path("source");
        fs::write(&path, bytes).expect("written");
        path
    }

    fn command(&self, options: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_extentwise"));
        command
            .current_dir(self.folder.path())
            .arg("copy")
            .args(options);
        command
    }

    fn copy(&self, options: &[&str]) -> Output {
        self.command(options).output().expect("the command runs")
    }

    fn names(&self) -> Vec<String> {
        let files = fs::read_dir(self.folder.path()).expect("the folder");
        let names = files.map(|file| file.expect("a file").file_name());
        let mut names: Vec<_> = names
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn fails(output: &Output, message: &str) {
    let stderr = stderr(output);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains(message), "{message:?} is not in {stderr}");
    assert_eq!(output.stdout, b"");
}

/// Whether the machine lacks this kind of device.
fn lacks(kind: &str, output: &Output) -> bool {
    let lacking = [
        "has no direct I/O",
        "is not available",
        "without the feature",
        "for direct I/O on",
    ];
    let stderr = stderr(output);
    let lacks = kind != "buffered" && lacking.iter().any(|lacking| stderr.contains(lacking));
    if lacks {
        eprintln!("SKIPPED: --device {kind}: {stderr}");
    }
    lacks
}

fn bytes(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    extentwise_files::pattern::fill(&mut bytes, 3, 5);
    bytes
}

#[test]
fn a_copy_has_every_byte_for_any_size_on_every_device() {
    for len in [0, 1, 511, 4095, 4096, 4097, 65_537, 3_000_001] {
        let bench = Bench::new();
        let right = bytes(len);
        bench.source(&right);
        for kind in KINDS {
            for block in ["512", "4096", "64K"] {
                let sizes = ["--block-size", block, "--cache-size", "256K"];
                let options = ["source", "copy", "--overwrite", "--check", "--device", kind];
                let output = bench.copy(&[&options[..], &sizes].concat());
                if lacks(kind, &output) {
                    continue;
                }
                assert!(output.status.success(), "{kind} {len}: {}", stderr(&output));
                let copy = fs::read(bench.path("copy")).expect("a copy");
                assert!(
                    copy == right,
                    "{kind}, blocks of {block}: {len} bytes differ"
                );
                assert_eq!(bench.names(), ["copy", "source"]);
            }
        }
    }
}

#[test]
fn holes_stay_holes_and_are_told() {
    let bench = Bench::new();
    let source = bench.source(b"");
    let file = File::options().write(true).open(&source).expect("open");
    let (data, size) = (bytes(70_000), 1 << 30);
    for at in [1 << 20, 300 << 20] {
        std::os::unix::fs::FileExt::write_all_at(&file, &data, at).expect("written");
    }
    file.set_len(size).expect("longer");
    let source_blocks = fs::metadata(&source).expect("there").blocks();
    if source_blocks > 1 << 20 {
        eprintln!("SKIPPED: no holes on this file system");
        return;
    }
    for kind in KINDS {
        let output = bench.copy(&[
            "source",
            "copy",
            "--overwrite",
            "--json",
            "--device",
            kind,
            "--check",
        ]);
        if lacks(kind, &output) {
            continue;
        }
        assert!(output.status.success(), "{kind}: {}", stderr(&output));
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(report["size"], size);
        let told = |key: &str| report[key].as_u64().expect("a number");
        assert_eq!(told("copied_bytes") + told("hole_bytes"), size);
        assert!(told("device_bytes") < 1 << 20, "{kind}: {report}");
        let copy = fs::metadata(bench.path("copy")).expect("there");
        assert_eq!(copy.len(), size);
        assert!(
            copy.blocks() <= source_blocks + 64,
            "{kind}: {} blocks",
            copy.blocks()
        );
    }
}

#[test]
fn what_cannot_be_copied_is_named_with_the_reason_and_leaves_nothing() {
    let bench = Bench::new();
    bench.source(b"data");
    fs::create_dir(bench.path("folder")).expect("made");
    symlink("source", bench.path("link")).expect("made");
    fs::write(bench.path("old"), "old").expect("written");
    let before = bench.names();
    for (options, message) in [
        (&["missing", "copy"][..], "missing: No such file"),
        (
            &["folder", "copy"],
            "folder: is a directory: files are copied one by one",
        ),
        (
            &["/dev/null", "copy"],
            "/dev/null: is neither a file nor a block device",
        ),
        (
            &["source", "folder"],
            "folder: is a directory: name the file in it",
        ),
        (
            &["source", "folder", "--overwrite"],
            "folder: is a directory",
        ),
        (
            &["source", "old"],
            "old: exists already; --overwrite replaces it",
        ),
        (
            &["source", "link", "--overwrite"],
            "link: only a plain file can be replaced",
        ),
        (
            &["source", "source", "--overwrite"],
            "source: is the source itself",
        ),
        (&["source", "nowhere/copy"], "nowhere/copy: No such file"),
        (&["source", ".."], "..: is a directory"),
        (
            &["source", "copy", "--block-size", "100"],
            "--block-size 100: must be a power of two",
        ),
        (
            &["source", "copy", "--cache-size", "4K"],
            "--cache-size 4K: must be at least two blocks",
        ),
    ] {
        fails(&bench.copy(options), message);
        assert_eq!(bench.names(), before, "{options:?}");
        assert_eq!(fs::read(bench.path("old")).expect("there"), b"old");
    }
}

#[test]
fn an_old_file_is_replaced_only_on_demand_and_permissions_come_along() {
    let bench = Bench::new();
    let source = bench.source(b"new");
    fs::set_permissions(&source, Permissions::from_mode(0o440)).expect("set");
    fs::write(bench.path("copy"), "an old and longer text").expect("written");
    let output = bench.copy(&["source", "copy", "--overwrite", "--sync"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("copy, 3 bytes, durable"), "{text}");
    assert_eq!(fs::read(bench.path("copy")).expect("there"), b"new");
    let mode = fs::metadata(bench.path("copy")).expect("there").mode();
    assert_eq!(mode & 0o777, 0o440);
}

#[test]
fn a_second_copy_to_the_same_file_is_refused_while_the_first_goes_on() {
    let bench = Bench::new();
    bench.source(b"data");
    // What the first one has.
    let part = bench.path(".copy.extentwise-part");
    let claim_of = |path: &Path| {
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path);
        Claim::new(file.expect("open"), path).expect("nobody has it")
    };
    let claim = claim_of(&part);
    fails(
        &bench.copy(&["source", "copy"]),
        ".copy.extentwise-part: is in use by another process",
    );
    assert!(!bench.path("copy").exists() && part.exists());
    drop(claim);
    // One that was killed left data.
    fs::write(&part, "half of something else").expect("written");
    let output = bench.copy(&["source", "copy"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(fs::read(bench.path("copy")).expect("there"), b"data");
    assert_eq!(bench.names(), ["copy", "source"]);

    let claim = claim_of(&bench.path("copy"));
    fails(
        &bench.copy(&["source", "copy", "--overwrite"]),
        "copy: is in use by another process",
    );
    drop(claim);
}

/// A copy that is at work, and stopped.
fn stopped(bench: &Bench, options: &[&str]) -> Child {
    let mut command = bench.command(options);
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("runs");
    let part = bench.path(".copy.extentwise-part");
    while fs::metadata(&part).map_or(0, |part| part.len()) == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    signal(&child, "STOP");
    child
}

fn signal(child: &Child, name: &str) {
    let kill = Command::new("kill")
        .args(["-s", name, &child.id().to_string()])
        .status();
    assert!(kill.expect("kill runs").success());
}

#[test]
fn an_interrupted_copy_says_so_and_leaves_no_file_of_that_name() {
    let bench = Bench::new();
    let mut source = File::create(bench.path("source")).expect("made");
    for _ in 0..96 {
        source.write_all(&vec![7; 1 << 20]).expect("written");
    }
    fs::write(bench.path("copy"), "old").expect("written");
    // Blocks by themselves, so that there is time.
    let options = [
        "source",
        "copy",
        "--overwrite",
        "--cache-size",
        "1K",
        "--block-size",
        "512",
    ];
    let child = stopped(&bench, &options);
    signal(&child, "INT");
    signal(&child, "CONT");
    let output = child.wait_with_output().expect("ends");
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(130), "{text}");
    assert!(text.contains("interrupted: "), "{text}");
    assert!(
        text.contains("of 100663296 bytes were copied; there is no new file"),
        "{text}"
    );
    assert_eq!(output.stdout, b"");
    assert_eq!(bench.names(), ["copy", "source"]);
    assert_eq!(fs::read(bench.path("copy")).expect("there"), b"old");
}

#[test]
fn figures_come_only_when_they_are_asked_for() {
    let bench = Bench::new();
    bench.source(&bytes(100_000));
    let output = bench.copy(&["source", "copy"]);
    assert_eq!(stderr(&output), "");
    let help = bench.copy(&["--help"]);
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    assert!(
        help.contains("Examples:\n  extentwise copy disk.img copy.img"),
        "{help}"
    );
}
