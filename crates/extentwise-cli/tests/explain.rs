//! `extentwise explain`, as people run it.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const GOOD: &str = r#"{"kind":"writeback","name":"good","block_size":4096,"i_size":10000,"folios":[{"pos":0,"size":65536,"submit":[[0,65536]]}],"ordered":[{"file_offset":0,"num_bytes":65536,"disk_bytenr":1048576}]}"#;
const WRITE: &str = r#"{"kind":"write_begin","name":"write","block_size":512,"folio":{"pos":0,"size":1024,"uptodate":true},"from":0,"to":600}"#;
const UNALIGNED: &str = r#"{"kind":"writeback","name":"bad","block_size":4096,"i_size":0,"folios":[{"pos":0,"size":65536,"submit":[[0,4097]]}],"ordered":[]}"#;

fn explain(args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_extentwise"))
        .arg("explain")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // Written beside reading, so that neither pipe can fill up and stop us;
    // a command that does not read its input closes the pipe.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

fn results(output: &Output) -> Vec<Value> {
    stdout(output)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn the_standard_input_is_the_default_and_results_keep_its_order() {
    for args in [&["--format", "json"][..], &["-", "--format", "json"]] {
        let output = explain(args, format!("{GOOD}\n\n{WRITE}\n").as_bytes());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let results = results(&output);
        assert_eq!(results.len(), 2);
        assert_eq!(
            (&results[0]["name"], &results[1]["name"]),
            (&"good".into(), &"write".into())
        );
        assert!(stderr(&output).is_empty());
    }
}

#[test]
fn result_keys_stand_in_the_order_of_the_format() {
    let output = explain(&["--format", "json"], format!("{GOOD}\n{WRITE}").as_bytes());
    let expected = concat!(
        r#"{"name":"good","events":[{"event":"zero","file_offset":10000,"len":2288},"#,
        r#"{"event":"submit","file_offset":0,"len":12288,"disk_bytenr":1048576},"#,
        r#"{"event":"beyond_eof","file_offset":12288,"len":53248}],"#,
        r#""bios":[{"disk_bytenr":1048576,"len":12288,"valid_len":10000,"segments":[[0,12288]]}],"#,
        r#""ordered":[{"file_offset":0,"num_bytes":65536,"bytes_left":0,"truncated_len":12288,"#,
        r#""flags":["io_done","truncated"],"outcome":{"insert":[0,12288,1048576],"convert":null,"release":null}}],"#,
        r#""folios":[{"pos":0,"dirty":[],"writeback":[]}],"#,
        r#""error":null,"mapping_error":false,"double_finish":[]}"#,
        "\n",
        r#"{"name":"write","actions":[{"action":"map","block":0,"result":"mapped"},"#,
        r#"{"action":"map","block":1,"result":"mapped"}],"error":null,"committed":null,"#,
        r#""buffers":[["mapped","uptodate"],["mapped","uptodate"]],"folio_uptodate":true}"#,
        "\n",
    );
    assert_eq!(stdout(&output), expected);
}

#[test]
fn an_invalid_line_is_told_with_line_key_and_reason_and_the_others_run() {
    let input = format!("{GOOD}\n{UNALIGNED}\nnonsense\n{WRITE}\n");
    let output = explain(&["--format", "json"], input.as_bytes());
    assert_eq!(output.status.code(), Some(1));
    let results = results(&output);
    assert_eq!(results.len(), 4);
    assert_eq!(results[1]["name"], "bad");
    let reason = results[1]["invalid"].as_str().unwrap();
    assert!(
        reason.contains("folios[0].submit") && reason.contains("[0, 4097]"),
        "{reason}"
    );
    assert_eq!(results[2]["name"], Value::Null);
    assert!(results[2]["invalid"].as_str().unwrap().contains("not JSON"));
    assert_eq!(results[3]["name"], "write");
    let told: Vec<&str> = stderr(&output).lines().collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(
        told[0].contains("line 2") && told[0].contains("folios[0].submit"),
        "{told:?}"
    );
    assert!(told[1].contains("line 3"), "{told:?}");
}

#[test]
fn a_file_may_hold_one_object_over_many_lines() {
    let pretty = serde_json::to_string_pretty(&serde_json::from_str::<Value>(GOOD).unwrap());
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(pretty.unwrap().as_bytes()).unwrap();
    let path = file.path().to_str().unwrap();
    let output = explain(&[path, "--format", "json"], b"");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(results(&output)[0]["name"], "good");
}

#[test]
fn text_is_the_default_format() {
    let output = explain(&[], format!("{GOOD}\n{UNALIGNED}\n{WRITE}\n").as_bytes());
    assert_eq!(output.status.code(), Some(1));
    let text = stdout(&output);
    assert!(text.contains("    pass      >>>~~~~~~~~~~~~~\n"), "{text}");
    assert!(
        text.contains("\nbad\n  line 2 is not a scenario: key \"folios[0].submit\""),
        "{text}"
    );
    assert!(
        text.contains("\nwrite\n  write_begin, 512 blocks"),
        "{text}"
    );
}

#[test]
fn svg_is_one_document_for_all_scenarios() {
    let output = explain(
        &["--format", "svg"],
        format!("{GOOD}\n{WRITE}\n").as_bytes(),
    );
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stdout(&output).matches("<svg ").count(), 1);
    assert!(stdout(&output).contains(">good</text>") && stdout(&output).contains(">write</text>"));
}

#[test]
fn all_modes_give_the_same_results() {
    let input = format!("{GOOD}\n{WRITE}\n");
    let outputs = ["extent", "block", "both"]
        .map(|mode| explain(&["--format", "json", "--mode", mode], input.as_bytes()));
    for output in &outputs {
        assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
        assert_eq!(output.stdout, outputs[0].stdout);
    }
}

#[test]
fn a_missing_file_is_named() {
    let output = explain(&["/no/such/file.jsonl"], b"");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("/no/such/file.jsonl"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn bytes_that_are_not_utf_8_are_an_error_with_their_place() {
    let output = explain(&["--format", "json"], b"{}\n{\"name\":\"\xff\"}\n");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("not UTF-8 at byte 12, in line 2"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_extentwise"))
        .args(["explain", "--format", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().unwrap();
    let line = format!("{GOOD}\n");
    // More results than a pipe and a buffer hold.
    for _ in 0..2_000 {
        stdin.write_all(line.as_bytes()).unwrap();
    }
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty(), "{}", stderr(&output));
}

#[test]
fn no_input_gives_no_results() {
    let output = explain(&["--format", "json"], b"\n");
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stdout.is_empty());
}

#[test]
fn an_unknown_mode_is_a_usage_error() {
    let output = explain(&["--mode", "page"], b"");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn help_shows_examples() {
    let output = explain(&["--help"], b"");
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).contains("Examples:") && stdout(&output).contains("--mode both"));
}
