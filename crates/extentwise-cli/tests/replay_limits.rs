//! Replays in little memory, and how many device writes they take.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn replay(trace: &Path, into: &Path, options: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_extentwise"))
        .arg("replay")
        .arg(trace)
        .args(["--json", "--into"])
        .arg(into)
        .args(options)
        .output()
        .expect("the command runs")
}

fn report(trace: &str, options: &[&str]) -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.iolog");
    std::fs::write(&path, trace).expect("the trace is written");
    let output = replay(&path, &folder.path().join("out"), options);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

#[test]
fn the_example_is_verified_in_a_mebibyte_under_every_policy() {
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/mixed.iolog");
    for policy in ["keep", "drop", "latch"] {
        let folder = tempfile::tempdir().expect("a folder");
        let options = ["--cache-size", "1M", "--policy", policy];
        let output = replay(&trace, folder.path(), &options);
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
        assert_eq!(report["verified_bytes"], 13_631_423, "{policy}");
    }
}

#[test]
fn random_writes_with_syncs_take_the_fewest_device_writes() {
    let mut trace = "fio version 2 iolog\nf add\nf open\n".to_owned();
    let mut place = 1_u64;
    for write in 1..=4000 {
        place = place * 48_271 % 2_147_483_647;
        let _ = writeln!(trace, "f write {} 4096", place % 4096 * 4096);
        if write % 500 == 0 {
            trace.push_str("f sync\n");
        }
    }
    let report = report(&trace, &[]);
    assert_eq!(report["device_writes"], report["least_device_writes"]);
    assert!(report["device_writes"].as_u64() > Some(1000));
}

#[test]
fn sequential_writes_take_one_device_write_each_time_the_dirty_limit_is_reached() {
    let mut trace = "fio version 2 iolog\nf add\nf open\n".to_owned();
    for write in 0..4096 {
        let _ = writeln!(trace, "f write {} 4096", write * 4096);
    }
    let report = report(&trace, &["--dirty-limit", "1M"]);
    assert_eq!(
        (&report["device_writes"], &report["least_device_writes"]),
        (&16.into(), &16.into())
    );
}

#[test]
fn a_limit_that_cannot_be_kept_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("trace.iolog");
    std::fs::write(&trace, "fio version 2 iolog\nf add\nf write 0 1\n").expect("written");
    for (options, message) in [
        (
            ["--cache-size", "4K"],
            "--cache-size 4K: must be at least two blocks (8K)",
        ),
        (
            ["--dirty-limit", "1G"],
            "--dirty-limit 1G: must be at least a block (4K)",
        ),
        (["--policy", "hope"], "'hope' for '--policy <POLICY>'"),
    ] {
        let output = replay(&trace, &folder.path().join("out"), &options);
        assert!(!output.status.success());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(error.contains(message), "{error}");
    }
    assert!(!folder.path().join("out").exists());
}
