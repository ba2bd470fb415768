//! Replays by many threads leave what one thread leaves, and nobody else writes
//! the files meanwhile.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use extentwise_files::Claim;
use serde_json::Value;

fn replay(trace: &Path, into: &Path, options: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_extentwise"))
        .arg("replay")
        .arg(trace)
        .arg("--into")
        .arg(into)
        .args(options)
        .output()
        .expect("the command runs")
}

/// Whether a machine has this kind of device.
fn lacks(kind: &str, output: &Output) -> bool {
    let stderr = String::from_utf8_lossy(&output.stderr);
    let lacking = [
        "has no direct I/O",
        "is not available",
        "without the feature",
    ];
    let lacks = kind != "buffered" && lacking.iter().any(|lacking| stderr.contains(lacking));
    if lacks {
        eprintln!("SKIPPED: --device {kind}: {stderr}");
    }
    lacks
}

fn numbers(mut seed: u64) -> impl FnMut(u64) -> u64 {
    move |limit| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % limit
    }
}

fn random_trace(seed: u64, files: u64, actions: u64) -> String {
    let mut number = numbers(seed);
    let mut trace = "fio version 2 iolog\n".to_owned();
    for file in 0..files {
        let _ = writeln!(trace, "f{file} add");
    }
    for _ in 0..actions {
        let action = ["write", "write", "write", "read", "trim", "sync"];
        let action = action[usize::try_from(number(6)).expect("below 6")];
        let (file, offset, len) = (number(files), number(300_000), number(40_000));
        let _ = writeln!(trace, "f{file} {action} {offset} {len}");
    }
    trace
}

#[test]
fn any_number_of_threads_leaves_the_same_files_on_every_device() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("trace.iolog");
    fs::write(&trace, random_trace(77, 5, 150)).expect("written");
    let one = folder.path().join("one");
    let output = replay(&trace, &one, &["--json"]);
    assert!(output.status.success(), "{output:?}");
    let expected: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    for kind in ["buffered", "direct", "uring"] {
        for threads in ["2", "9"] {
            let into = folder.path().join(format!("{kind}-{threads}"));
            let options = ["--json", "--device", kind, "--threads", threads];
            let small = ["--cache-size=64K", "--folio-size=16K"];
            let output = replay(&trace, &into, &[&options[..], &small[..]].concat());
            if lacks(kind, &output) {
                continue;
            }
            assert!(output.status.success(), "{kind} {threads}: {output:?}");
            let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            for key in [
                "writes",
                "written_bytes",
                "reads",
                "read_bytes",
                "syncs",
                "trims",
            ] {
                assert_eq!(report[key], expected[key], "{kind} {threads}: {key}");
            }
            assert_eq!(report["writeback_ns"]["count"], report["device_writes"]);
            for file in 0..5 {
                let name = format!("f{file}");
                let (bytes, right) = (fs::read(into.join(&name)), fs::read(one.join(&name)));
                assert!(
                    bytes.expect("read") == right.expect("read"),
                    "{kind} {threads} {name}"
                );
            }
        }
    }
}

#[test]
fn no_thread_is_no_number_of_threads() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = replay(Path::new("x"), folder.path(), &["--threads", "0"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn a_file_that_another_process_writes_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("trace.iolog");
    fs::write(&trace, "fio version 2 iolog\na add\nb add\nb write 0 5\n").expect("written");
    let into = folder.path().join("out");
    fs::create_dir(&into).expect("made");
    for name in ["a", "b"] {
        fs::write(into.join(name), "precious").expect("written");
    }
    let path = into.join("b");
    let file = fs::File::options()
        .read(true)
        .write(true)
        .open(&path)
        .expect("open");
    // What the other process has.
    let claim = Claim::new(file, &path).expect("nobody has it");
    let output = replay(&trace, &into, &["--overwrite"]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("out/b: is in use by another process"),
        "{stderr}"
    );
    for name in ["a", "b"] {
        assert_eq!(fs::read(into.join(name)).expect("read"), b"precious");
    }
    drop(claim);
    let output = replay(&trace, &into, &["--overwrite"]);
    assert!(output.status.success(), "{output:?}");
}

/// A line for each sync, in the order of the file's syncs, and the summary last.
#[test]
fn json_lines_tell_each_sync_and_end_with_the_summary() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("trace.iolog");
    let text = "fio version 2 iolog\na add\nb add\na write 0 9\na sync\nb write 0 5\na write 3 3\na datasync\nb sync\n";
    fs::write(&trace, text).expect("written");
    for options in [&["--json-lines"][..], &["--json-lines", "--threads=2"]] {
        let into = tempfile::tempdir().expect("a folder");
        let output = replay(&trace, into.path(), options);
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).expect("text");
        let lines = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"));
        let mut lines: Vec<Value> = lines.collect();
        let summary = lines.pop().expect("a summary");
        assert_eq!(summary["summary"]["verified"], true);
        let told = |name: &str| -> Vec<(u64, u64)> {
            let path = into.path().join(name).display().to_string();
            let own = lines.iter().filter(|line| line["synced"]["path"] == *path);
            let number = |line: &Value, key: &str| line["synced"][key].as_u64().expect("a number");
            own.map(|line| (number(line, "line"), number(line, "writes")))
                .collect()
        };
        assert_eq!(told("a"), [(5, 1), (8, 3)]);
        assert_eq!(told("b"), [(9, 3)]);
        assert_eq!(lines.len(), 3);
    }
}

#[test]
fn the_earliest_line_that_fails_is_told_whoever_failed() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("trace.iolog");
    let past = i64::MAX - 5;
    let text = format!(
        "fio version 2 iolog\na add\nb add\na write 0 9\nb write {past} 5\nb sync\na sync\n"
    );
    fs::write(&trace, text).expect("written");
    let output = replay(&trace, &folder.path().join("out"), &["--threads=2"]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("line 5: ") || stderr.contains("line 6: "),
        "{stderr}"
    );
    assert_eq!(output.stdout, b"");
}
