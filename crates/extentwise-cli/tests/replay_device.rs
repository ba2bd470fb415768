//! Replays through each kind of device leave the same files.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

const KINDS: [&str; 3] = ["buffered", "direct", "uring"];

type Files = BTreeMap<OsString, Vec<u8>>;

/// Replays through a kind of device; nothing where the machine has none.
fn replay(trace: &Path, kind: &str, options: &[&str]) -> Option<(Value, Files)> {
    let folder = tempfile::tempdir().expect("a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_extentwise"))
        .arg("replay")
        .arg(trace)
        .args(["--json", "--device", kind, "--into"])
        .arg(folder.path())
        .args(options)
        .output()
        .expect("the command runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    let lacking = [
        "has no direct I/O",
        "is not available",
        "without the feature",
        "for direct I/O on",
    ];
    if kind != "buffered" && lacking.iter().any(|lacking| stderr.contains(lacking)) {
        eprintln!("SKIPPED: --device {kind}: {stderr}");
        return None;
    }
    assert!(output.status.success(), "{kind} {options:?}: {stderr}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(report["verified"], true, "{kind}");
    let files = fs::read_dir(folder.path())
        .expect("the folder")
        .map(|file| {
            let file = file.expect("a file");
            (file.file_name(), fs::read(file.path()).expect("its bytes"))
        });
    Some((report, files.collect()))
}

fn every_kind_leaves_the_same(trace: &Path, options: &[&str]) {
    let (_, expected) = replay(trace, "buffered", options).expect("every machine has files");
    for kind in &KINDS[1..] {
        if let Some((_, files)) = replay(trace, kind, options) {
            assert_eq!(files.len(), expected.len(), "{kind} {options:?}");
            for (name, bytes) in &expected {
                assert!(
                    files[name] == *bytes,
                    "{kind} {options:?}: {}",
                    name.display()
                );
            }
        }
    }
}

fn mixed() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/mixed.iolog")
}

fn numbers(mut seed: u64) -> impl FnMut(u64) -> u64 {
    move |limit| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % limit
    }
}

#[test]
fn the_mixed_example_is_verified_on_every_kind_of_device() {
    for cache in ["1M", "16M"] {
        every_kind_leaves_the_same(&mixed(), &["--cache-size", cache]);
    }
}

#[test]
fn random_traces_in_a_tiny_cache_leave_the_same_files() {
    for seed in 1..6 {
        let mut number = numbers(seed * 977);
        let mut trace = "fio version 2 iolog\n".to_owned();
        for file in 0..3 {
            let _ = writeln!(trace, "f{file} add\nf{file} open");
        }
        for _ in 0..400 {
            let action = ["write", "write", "write", "read", "trim", "sync"];
            let action = action[usize::try_from(number(6)).expect("below 6")];
            let (file, offset, len) = (number(3), number(300_000), number(40_000));
            let _ = writeln!(trace, "f{file} {action} {offset} {len}");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("trace.iolog");
        fs::write(&path, trace).expect("the trace is written");
        let cache = ["--cache-size=64K", "--folio-size=16K", "--max-extent=16K"];
        every_kind_leaves_the_same(&path, &cache);
    }
}

#[test]
fn more_files_than_are_open_at_a_time_are_written_while_others_are_under_way() {
    let mut trace = "fio version 2 iolog\n".to_owned();
    for file in 0..300 {
        let _ = writeln!(trace, "f{file} add\nf{file} write {} 5000", file * 100);
    }
    for file in 0..300 {
        let _ = writeln!(trace, "f{file} write 4096 100");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.iolog");
    fs::write(&path, trace).expect("the trace is written");
    every_kind_leaves_the_same(&path, &["--cache-size=1M"]);
}

#[test]
fn direct_devices_write_whole_blocks_and_the_file_is_trimmed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.iolog");
    fs::write(&path, "fio version 2 iolog\nf add\nf write 0 5000\n").expect("written");
    for kind in KINDS {
        if let Some((report, files)) = replay(&path, kind, &[]) {
            assert_eq!(report["device_bytes"], 8192, "{kind}");
            assert_eq!(files[&OsString::from("f")].len(), 5000, "{kind}");
        }
    }
}

#[test]
fn a_kind_that_is_none_is_refused_with_those_that_are() {
    let output = Command::new(env!("CARGO_BIN_EXE_extentwise"))
        .arg("replay")
        .arg(mixed())
        .args(["--device", "tape"])
        .output()
        .expect("the command runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("buffered, direct, uring"), "{stderr}");
}
