//! `extentwise replay` as its users run it: the files it leaves are compared with
//! a byte-by-byte application of the trace that shares no code with it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");

/// A folder of its own for a test: a trace in it, and a target beside it.
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

    fn trace(&self, text: &str) -> PathBuf {
        let path = self.path("trace.iolog");
        fs::write(&path, text).expect("the trace is written");
        path
    }

    /// Replays into the folder `out` of this bench.
    fn replay(&self, trace: &Path, options: &[&str]) -> Output {
        let mut command = replay_command(trace, options);
        command.arg("--into").arg(self.path("out"));
        command.output().expect("the command runs")
    }

    fn file(&self, name: &str) -> Vec<u8> {
        fs::read(self.path("out").join(name)).expect("the replayed file")
    }
}

fn replay_command(trace: &Path, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_extentwise"));
    command.arg("replay").arg(trace).args(options);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn succeeds(output: &Output) {
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// Asserts the exit code and a part of the message.
#[track_caller]
fn fails(output: &Output, code: i32, message: &str) {
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert!(stderr.contains(message), "{message:?} is not in {stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
    assert_eq!(text(&output.stdout), "");
}

fn json(output: &Output) -> Value {
    succeeds(output);
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

/// What the files of a trace hold, a byte at a time; by base name.
fn naive(trace: &str) -> BTreeMap<String, Vec<u8>> {
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let (mut version, mut write_number) = (0, 0_u64);
    for line in trace.lines() {
        if let Some(rest) = line.strip_prefix("fio version ") {
            version = rest[..1].parse().expect("a version");
            continue;
        }
        let words: Vec<&str> = line.split(' ').skip(usize::from(version == 3)).collect();
        let name = words[0].rsplit('/').next().expect("a base name");
        let number = |index: usize| -> usize { words[index].parse().expect("a number") };
        let file = files.entry(name.to_owned()).or_default();
        match words[1] {
            "write" => {
                write_number += 1;
                let (start, end) = (number(2), number(2) + number(3));
                if start < end && end > file.len() {
                    file.resize(end, 0);
                }
                for (p, byte) in file.iter_mut().enumerate().take(end).skip(start) {
                    *byte = pattern_byte(p as u64, write_number);
                }
            }
            "trim" => {
                let (start, end) = (number(2), number(2) + number(3));
                file.iter_mut()
                    .take(end)
                    .skip(start)
                    .for_each(|byte| *byte = 0);
            }
            _ => {}
        }
    }
    files
}

fn pattern_byte(p: u64, k: u64) -> u8 {
    let mut z = (p / 8) ^ k.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = z.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^= z >> 31;
    z.to_le_bytes()[usize::try_from(p % 8).expect("below 8")]
}

#[track_caller]
fn holds(bench: &Bench, expected: &BTreeMap<String, Vec<u8>>) {
    for (name, bytes) in expected {
        let found = bench.file(name);
        assert_eq!(found.len(), bytes.len(), "{name}");
        let wrong = found
            .iter()
            .zip(bytes)
            .position(|(found, byte)| found != byte);
        assert_eq!(wrong, None, "{name}");
    }
    let files = fs::read_dir(bench.path("out")).expect("the folder").count();
    assert_eq!(files, expected.len());
}

/// A trace of 400 actions over three files, of any offset and length.
fn random_trace(mut seed: u64) -> String {
    let mut number = move |limit: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % limit
    };
    let mut trace = "fio version 2 iolog\n".to_owned();
    for file in 0..3 {
        let _ = writeln!(trace, "/somewhere/f{file} add\n/somewhere/f{file} open");
    }
    for _ in 0..400 {
        let file = number(3);
        let action = [
            "write", "write", "write", "read", "trim", "sync", "datasync",
        ][usize::try_from(number(7)).expect("below 7")];
        let (offset, len) = (number(300_000), number(40_000));
        let _ = writeln!(trace, "/somewhere/f{file} {action} {offset} {len}");
    }
    trace
}

const GEOMETRIES: [[&str; 3]; 5] = [
    ["--block-size=4096", "--folio-size=2M", "--max-extent=128M"],
    ["--block-size=512", "--folio-size=512", "--max-extent=512"],
    ["--block-size=512", "--folio-size=2M", "--max-extent=1536"],
    ["--block-size=64k", "--folio-size=64k", "--max-extent=128k"],
    ["--block-size=1k", "--folio-size=16k", "--max-extent=1M"],
];

/// Replays in both modes; the files must be as `naive` has them, and the
/// modes must not differ in what they sent.
fn replays_like_the_naive_one(trace: &Path, geometry: [&str; 3]) {
    let expected = naive(&fs::read_to_string(trace).expect("the trace"));
    let counts = ["extent", "block"].map(|mode| {
        let bench = Bench::new();
        let options = [&geometry[..], &["--json", "--mode", mode]].concat();
        let report = json(&bench.replay(trace, &options));
        assert_eq!(report["verified"], true);
        holds(&bench, &expected);
        let keys = [
            "bios",
            "device_writes",
            "device_bytes",
            "dirtied_bytes",
            "ordered_extents",
        ];
        keys.map(|key| report[key].as_u64().expect("a count"))
    });
    assert_eq!(counts[0], counts[1], "{geometry:?}");
}

#[test]
fn the_sequential_example_is_written_as_its_trace_says() {
    let trace = Path::new(EXAMPLES).join("sequential.iolog");
    for geometry in [GEOMETRIES[0], GEOMETRIES[3]] {
        replays_like_the_naive_one(&trace, geometry);
    }
}

#[test]
fn the_mixed_example_is_written_as_its_trace_says() {
    let trace = Path::new(EXAMPLES).join("mixed.iolog");
    for geometry in [GEOMETRIES[0], GEOMETRIES[2], GEOMETRIES[3]] {
        replays_like_the_naive_one(&trace, geometry);
    }
}

#[test]
fn random_traces_are_written_as_they_say_in_every_geometry() {
    for (seed, geometry) in (1..).zip(GEOMETRIES.into_iter().cycle().take(10)) {
        let bench = Bench::new();
        replays_like_the_naive_one(&bench.trace(&random_trace(seed)), geometry);
    }
}

#[test]
fn a_sequential_trace_costs_a_device_write_a_sync() {
    let bench = Bench::new();
    let report = json(&bench.replay(&Path::new(EXAMPLES).join("sequential.iolog"), &["--json"]));
    // Three syncs, and the one at the end.
    assert_eq!(
        (&report["device_writes"], &report["bios"]),
        (&Value::from(4), &Value::from(4))
    );
    assert_eq!(report["device_bytes"], report["written_bytes"]);
    assert_eq!(
        (&report["writes"], &report["syncs"]),
        (&Value::from(32), &Value::from(3))
    );
    assert_eq!(report["files"][0]["size"], 32 << 20);
    let times = &report["writeback_ns"];
    let rows = times["histogram"].as_array().expect("rows");
    let sum: u64 = rows.iter().filter_map(|row| row[2].as_u64()).sum();
    assert_eq!((sum, times["count"].as_u64()), (4, Some(4)));
    assert!(rows.iter().all(|row| row[0].as_u64() < row[1].as_u64()));
}

#[test]
fn the_published_bytes_are_in_the_file() {
    let bench = Bench::new();
    let trace = bench.trace(
        "fio version 2 iolog\nf add\nf open\nf write 0 16\nf write 4096 1\nf write 4093 8\nf close\n",
    );
    succeeds(&bench.replay(&trace, &[]));
    let file = bench.file("f");
    assert_eq!(
        file[..16],
        0xf465_b9a1_6a9e_786e_c982_f6db_67f8_9fe9_u128.to_be_bytes()
    );
    assert_eq!(file[4093..], 0xc254_d08c_3a54_0dce_u64.to_be_bytes());
    assert!(file[16..4093].iter().all(|&byte| byte == 0));
}

#[test]
fn the_summary_is_for_people() {
    let bench = Bench::new();
    let output = bench.replay(&Path::new(EXAMPLES).join("mixed.iolog"), &[]);
    succeeds(&output);
    let stdout = text(&output.stdout);
    for part in [
        "writes per dirtied MiB",
        "bytes per byte dirtied",
        "folios",
        "bios",
        "p99",
        "###",
        "verified",
    ] {
        assert!(stdout.contains(part), "{part} is not in {stdout}");
    }
    assert_eq!(text(&output.stderr), "", "no progress where nobody watches");
}

#[test]
fn several_headers_and_both_versions_make_one_trace() {
    let bench = Bench::new();
    let trace = "fio version 3 iolog\n1 a add\n2 a open\n3 a write 0 100\nfio version 2 iolog\n\
                 b add\na write 50 100\nb write 10 10\nb sync 0 0\nfio version 3 iolog\n7 a add\n\
                 8 a trim 0 60\n9 a close\n";
    succeeds(&bench.replay(&bench.trace(trace), &[]));
    holds(&bench, &naive(trace));
}

#[test]
fn colliding_base_names_get_suffixes_and_nothing_leaves_the_folder() {
    let bench = Bench::new();
    let trace = "fio version 2 iolog\n/a/data add\n/b/data add\n../../data add\n/b/data write 0 5\n\
                 ../../data write 0 7\n";
    let report = json(&bench.replay(&bench.trace(trace), &["--json"]));
    let sizes: Vec<usize> = ["data", "data.1", "data.2"]
        .map(|name| bench.file(name).len())
        .to_vec();
    assert_eq!(sizes, [0, 5, 7]);
    let last = report["files"][2]["path"].as_str().expect("a path");
    assert_eq!(Path::new(last), bench.path("out").join("data.2"));
}

#[test]
fn a_fresh_folder_is_made_and_printed() {
    let bench = Bench::new();
    let trace = bench.trace("fio version 2 iolog\nf add\nf write 0 9\n");
    let output = replay_command(&trace, &["--json"])
        .env("TMPDIR", bench.folder.path())
        .output()
        .expect("the command runs");
    let report = json(&output);
    let path = PathBuf::from(report["files"][0]["path"].as_str().expect("a path"));
    assert_eq!(fs::read(&path).expect("the file").len(), 9);
    let folder = path.parent().and_then(Path::to_str).expect("a folder");
    assert!(text(&output.stderr).contains(folder));
}

#[test]
fn a_trace_can_come_through_a_pipe() {
    let bench = Bench::new();
    let trace = random_trace(77);
    let mut child = replay_command(Path::new("-"), &["--into"])
        .arg(bench.path("out"))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("the command runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin
        .write_all(trace.as_bytes())
        .expect("the trace is read");
    drop(stdin);
    assert!(child.wait().expect("it ends").success());
    holds(&bench, &naive(&trace));
}

#[test]
fn a_file_of_a_terabyte_with_little_in_it_is_verified_at_once() {
    let bench = Bench::new();
    let trace = "fio version 2 iolog\nf add\nf write 1099511627770 10\nf trim 0 1099511627775\n\
                 f write 5000000 3\nf sync\n";
    let report = json(&bench.replay(&bench.trace(trace), &["--json"]));
    assert_eq!(report["files"][0]["size"], 1_099_511_627_780_u64);
    assert_eq!(report["verified_bytes"], 1_099_511_627_780_u64);
}

#[test]
fn a_tail_that_was_trimmed_before_it_was_written_back_keeps_the_size() {
    let bench = Bench::new();
    let trace = "fio version 2 iolog\nf add\nf write 0 20000\nf trim 4096 100000\nf read 0 20000\n\
                 g add\ng write 0 8192\ng trim 0 8192\n";
    succeeds(&bench.replay(&bench.trace(trace), &[]));
    holds(&bench, &naive(trace));
}

#[test]
fn empty_writes_count_and_leave_the_file_as_it_is() {
    let bench = Bench::new();
    let trace =
        "fio version 2 iolog\nf add\nf write 4000 0\nf read 0 10\nf trim 9 0\nf write 0 3\n";
    let report = json(&bench.replay(&bench.trace(trace), &["--json"]));
    assert_eq!(
        (&report["writes"], &report["files"][0]["size"]),
        (&Value::from(2), &Value::from(3))
    );
    holds(&bench, &naive(trace));
}

#[test]
fn a_trace_may_name_more_files_than_can_be_open() {
    let bench = Bench::new();
    let mut trace = "fio version 2 iolog\n".to_owned();
    for file in 0..700 {
        let _ = writeln!(trace, "f{file} add\nf{file} write {file} 10");
    }
    let _ = writeln!(trace, "f3 write 2 2\nf699 sync");
    let path = bench.trace(&trace);
    let output = Command::new("sh")
        .args(["-c", "ulimit -n 300; exec \"$0\" \"$@\""])
        .arg(env!("CARGO_BIN_EXE_extentwise"))
        .args([OsStr::new("replay"), path.as_os_str(), OsStr::new("--into")])
        .arg(bench.path("out"))
        .output()
        .expect("the command runs");
    succeeds(&output);
    holds(&bench, &naive(&trace));
}

#[test]
fn a_bad_line_is_named_and_nothing_is_written() {
    let table = [
        ("hello\n", "line 1: `hello` stands before a header"),
        ("fio version 9 iolog\n", "line 1: version `9`: only 2 and 3"),
        (
            "fio version 2 iolog\nf add\nf write 0 1\nf wrote 0 1\n",
            "line 4: action `wrote`: a log has",
        ),
        (
            "fio version 2 iolog\nf add\nf write 0 -1\n",
            "line 3: length `-1`: must be",
        ),
        (
            "fio version 2 iolog\nf add\ng write 0 1\n",
            "line 3: file `g`: must be added",
        ),
        (
            "fio version 2 iolog\nf add\nf write 9223372036854775800 8\n",
            "line 3: offset 9223372036854775800 and length 8: the sum must be at most",
        ),
        (
            "fio version 2 iolog\nf add\nx/.. add\n",
            "line 3: file `x/..`: must name a file",
        ),
        (
            "fio version 2 iolog\nf add\ndir/ add\n",
            "line 3: file `dir/`: must not end",
        ),
        ("", "line 1: "),
    ];
    for (trace, message) in table {
        let bench = Bench::new();
        fails(&bench.replay(&bench.trace(trace), &[]), 1, message);
        assert!(!bench.path("out").exists(), "{trace}");
    }
}

#[test]
fn bytes_that_are_no_log_are_refused() {
    let bench = Bench::new();
    let binary = bench.path("binary");
    fs::write(&binary, [0, 159, 255, 10].repeat(5000)).expect("written");
    fails(&bench.replay(&binary, &[]), 1, "line 1: ");
    fails(
        &bench.replay(Path::new("/dev/zero"), &[]),
        1,
        "line 1: a line has at most 8192 bytes",
    );
    fails(&bench.replay(bench.folder.path(), &[]), 1, "Is a directory");
    fails(
        &bench.replay(&bench.path("missing"), &[]),
        1,
        "missing: No such file",
    );
}

#[test]
fn a_bad_option_is_named_with_its_rule() {
    let bench = Bench::new();
    let trace = bench.trace("fio version 2 iolog\nf add\nf write 0 1\n");
    let table = [
        (
            1,
            ["--folio-size", "3M"],
            "--folio-size 3M: must be a power of two from 4K",
        ),
        (
            1,
            ["--folio-size", "2k"],
            "--folio-size 2K: must be a power of two from 4K",
        ),
        (1, ["--folio-size", "0"], "--folio-size 0: must be"),
        (
            1,
            ["--block-size", "100"],
            "--block-size 100: must be a power of two from 512",
        ),
        (
            1,
            ["--max-extent", "5000"],
            "--max-extent 5000: must be a multiple",
        ),
        (
            2,
            ["--folio-size", "big"],
            "'big' for '--folio-size <SIZE>': must be a number",
        ),
        (2, ["--mode", "page"], "'page' for '--mode <MODE>'"),
        (2, ["--unknown", "1"], "unexpected argument '--unknown'"),
    ];
    for (code, options, message) in table {
        fails(&bench.replay(&trace, &options), code, message);
    }
    assert!(!bench.path("out").exists());
}

#[test]
fn existing_files_are_refused_before_anything_is_written() {
    let bench = Bench::new();
    let trace = bench.trace("fio version 2 iolog\na add\nb add\na write 0 1\nb write 0 1\n");
    fs::create_dir(bench.path("out")).expect("a folder");
    fs::write(bench.path("out/b"), "precious").expect("a file");
    fails(
        &bench.replay(&trace, &[]),
        1,
        "b: exists already; --overwrite",
    );
    assert_eq!(bench.file("b"), b"precious");
    assert!(!bench.path("out/a").exists());
    succeeds(&bench.replay(&trace, &["--overwrite"]));
    assert_eq!((bench.file("a").len(), bench.file("b").len()), (1, 1));
}

#[test]
fn overwriting_follows_no_link_and_spares_the_trace() {
    let bench = Bench::new();
    let text = "fio version 2 iolog\na add\nlink add\na write 0 1\n";
    fs::create_dir(bench.path("out")).expect("a folder");
    fs::write(bench.path("outside"), "precious").expect("a file");
    std::os::unix::fs::symlink(bench.path("outside"), bench.path("out/link")).expect("a link");
    let trace = bench.path("out/a");
    fs::write(&trace, text).expect("a trace with a name that it uses");
    fails(
        &bench.replay(&trace, &["--overwrite"]),
        1,
        "a: is the trace itself",
    );
    fails(
        &bench.replay(&bench.trace(text), &["--overwrite"]),
        1,
        "link: only a plain file",
    );
    assert_eq!(
        fs::read(bench.path("outside")).expect("it stays"),
        b"precious"
    );
    assert_eq!(fs::read(&trace).expect("it stays"), text.as_bytes());
}

/// A first file that fits, and a second that does not.
const TOO_MUCH: &str = "fio version 2 iolog\nsmall add\nlarge add\nsmall write 0 70000\nsmall sync\n\
                        large write 0 8000000\nlarge sync\nsmall write 0 1\n";

#[test]
fn a_file_over_the_size_limit_ends_the_replay_and_others_stay() {
    let bench = Bench::new();
    let path = bench.trace(TOO_MUCH);
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 2000; exec \"$0\" \"$@\""])
        .arg(env!("CARGO_BIN_EXE_extentwise"))
        .args([OsStr::new("replay"), path.as_os_str(), OsStr::new("--into")])
        .arg(bench.path("out"))
        .output()
        .expect("the command runs");
    fails(&output, 1, "line 7: ");
    fails(&output, 1, "large: writing at ");
    fails(&output, 1, "File too large");
    let expected = naive("fio version 2 iolog\nsmall write 0 70000\n");
    assert_eq!(bench.file("small"), expected["small"]);
}

#[test]
fn a_full_disk_ends_the_replay_and_files_written_before_stay() {
    let bench = Bench::new();
    let out = bench.path("out");
    fs::create_dir(&out).expect("a folder");
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=1M", "tmpfs"])
        .arg(&out)
        .output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        // Past the capture of the test harness, so that it is seen.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED a_full_disk: a small tmpfs to fill up needs the right to mount"
        );
        return;
    }
    let output = bench.replay(&bench.trace(TOO_MUCH), &[]);
    let small = fs::read(out.join("small"));
    let unmounted = Command::new("umount").arg(&out).status();
    assert!(unmounted.is_ok_and(|status| status.success()));
    fails(&output, 1, "line 7: ");
    fails(&output, 1, "large: writing at ");
    fails(&output, 1, "No space left on device");
    let expected = naive("fio version 2 iolog\nsmall write 0 70000\n");
    assert_eq!(small.expect("it stays"), expected["small"]);
}

#[test]
fn more_than_the_dirty_limit_is_written_back_without_a_sync() {
    let bench = Bench::new();
    let mut trace = "fio version 2 iolog\nf add\n".to_owned();
    for piece in 0..80 {
        let _ = writeln!(trace, "f write {} 1048576", piece << 20);
    }
    let report = json(&bench.replay(&bench.trace(&trace), &["--json"]));
    assert_eq!(report["writeback_ns"]["count"], 2);
    assert_eq!(report["device_bytes"], 80 << 20);
    assert_eq!(bench.file("f").len(), 80 << 20);
}
