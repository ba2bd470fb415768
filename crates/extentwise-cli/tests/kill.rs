//! A replay that is killed in the middle has kept what its syncs promised, and
//! one that is interrupted says that it is not finished.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use extentwise_files::pattern;
use serde_json::Value;

const FILES: u64 = 3;
/// More than any file has, with the rest of its last block.
const FILE_LEN: usize = 1 << 16;
const ACTIONS: u64 = 20_000;

/// What a line of the trace does to a file.
enum Deed {
    Write {
        number: u64,
        start: usize,
        len: usize,
    },
    Trim {
        start: usize,
        len: usize,
    },
}

/// A trace, and what each line does to which file.
fn trace(seed: u64) -> (String, Vec<(u64, u64, Deed)>) {
    let mut state = seed;
    let mut number = move |limit: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % limit
    };
    let mut text = "fio version 2 iolog\n".to_owned();
    for file in 0..FILES {
        let _ = writeln!(text, "f{file} add");
    }
    let (mut deeds, mut writes) = (Vec::new(), 0);
    for line in FILES + 2..FILES + 2 + ACTIONS {
        let file = number(FILES);
        let start = usize::try_from(number(50_000)).expect("small");
        let len = usize::try_from(number(9_999) + 1).expect("small");
        let deed = match number(8) {
            0 | 1 => {
                let _ = writeln!(text, "f{file} sync");
                continue;
            }
            2 => {
                let _ = writeln!(text, "f{file} trim {start} {len}");
                Deed::Trim { start, len }
            }
            _ => {
                let _ = writeln!(text, "f{file} write {start} {len}");
                writes += 1;
                Deed::Write {
                    number: writes,
                    start,
                    len,
                }
            }
        };
        deeds.push((line, file, deed));
    }
    (text, deeds)
}

fn start(trace: &Path, into: &Path, options: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_extentwise"))
        .arg("replay")
        .arg(trace)
        .arg("--into")
        .arg(into)
        .args(["--json-lines", "--cache-size=96K", "--folio-size=16K"])
        .args(options)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command runs")
}

/// Asserts that every byte of a file is what it was at line `synced`, or what a
/// later line made it.
fn holds(bytes: &[u8], deeds: &[(u64, u64, Deed)], file: u64, synced: u64) {
    let mut right = vec![0; FILE_LEN];
    let mut later: Vec<Vec<u8>> = vec![Vec::new(); FILE_LEN];
    let mut len_min = 0;
    for (line, _, deed) in deeds.iter().filter(|(_, of, _)| *of == file) {
        let (start, new) = match *deed {
            Deed::Write { number, start, len } => {
                let mut new = vec![0; len];
                pattern::fill(&mut new, start as u64, number);
                if *line < synced {
                    len_min = len_min.max(start + len);
                }
                (start, new)
            }
            Deed::Trim { start, len } => (start, vec![0; len]),
        };
        for (at, byte) in (start..).zip(new) {
            if *line < synced {
                right[at] = byte;
            } else {
                later[at].push(byte);
            }
        }
    }
    assert!(
        bytes.len() >= len_min,
        "f{file}: {} of {len_min} bytes",
        bytes.len()
    );
    for (at, byte) in bytes.iter().enumerate() {
        assert!(
            *byte == right[at] || later[at].contains(byte),
            "f{file}: byte {at} is {byte:#04x}, was {:#04x} at the sync of line {synced}",
            right[at]
        );
    }
}

#[test]
fn what_a_sync_had_reported_is_on_the_file_after_kill_9() {
    let folder = tempfile::tempdir().expect("a folder");
    for (nth, options) in [
        &["--device=buffered"][..],
        &["--device=uring"],
        &["--device=buffered", "--threads=3"],
        &["--device=direct", "--threads=2"],
    ]
    .into_iter()
    .enumerate()
    {
        let (text, deeds) = trace(nth as u64 * 31 + 7);
        let path = folder.path().join("trace");
        fs::write(&path, text).expect("written");
        let into = folder.path().join(nth.to_string());
        let mut child = start(&path, &into, options);
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut lines = stdout.lines();
        let mut told = Vec::new();
        told.extend(lines.by_ref().take(40).map(|line| line.expect("text")));
        child.kill().expect("it runs still");
        told.extend(lines.map_while(Result::ok));
        let status = child.wait().expect("it ends");
        if status.code().is_some() {
            let mut text = String::new();
            let _ = child
                .stderr
                .take()
                .expect("piped")
                .read_to_string(&mut text);
            assert!(
                text.contains("has no direct I/O") || text.contains("is not available"),
                "{options:?}: {text}"
            );
            eprintln!("SKIPPED: {options:?}: {text}");
            continue;
        }
        let mut synced = BTreeMap::new();
        // The last line may be torn: it was not told then.
        for line in told
            .iter()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        {
            let line = &line["synced"];
            let path = line["path"].as_str().expect("a path").to_owned();
            synced.insert(path, line["line"].as_u64().expect("a line"));
        }
        assert!(told.len() >= 40 && !synced.is_empty(), "{options:?}");
        for file in 0..FILES {
            let path = into.join(format!("f{file}"));
            let line = synced.get(&path.display().to_string());
            let bytes = fs::read(&path).expect("the file is there");
            holds(&bytes, &deeds, file, line.copied().unwrap_or(0));
        }
    }
}

#[test]
fn an_interrupted_replay_exits_130_and_says_up_to_where_it_came() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace");
    let (text, deeds) = trace(99);
    fs::write(&path, text).expect("written");
    for (nth, options) in [&["--threads=2"][..], &[]].into_iter().enumerate() {
        let into = folder.path().join(nth.to_string());
        let mut child = start(&path, &into, options);
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("a sync");
        let pid = child.id().to_string();
        let kill = Command::new("kill").args(["-s", "INT", &pid]).status();
        assert!(kill.expect("kill runs").success());
        let mut rest = String::new();
        stdout.read_to_string(&mut rest).expect("text");
        let output = child.wait_with_output().expect("it ends");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(130), "{options:?}: {stderr}");
        assert!(
            stderr.contains("interrupted: the trace was replayed up to line "),
            "{stderr}"
        );
        assert!(!rest.contains("summary"), "{rest}");
        let last = rest.lines().last().unwrap_or(&line).to_owned();
        let last: Value = serde_json::from_str(&last).expect("JSON");
        let line = last["synced"]["line"].as_u64().expect("a line");
        let synced = last["synced"]["path"].as_str().expect("a path");
        let file = synced.chars().last().and_then(|last| last.to_digit(10));
        let bytes = fs::read(synced).expect("the file is there");
        holds(&bytes, &deeds, u64::from(file.expect("a digit")), line);
    }
}
