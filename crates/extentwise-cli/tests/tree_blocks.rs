//! `extentwise tree-blocks`, as people run it.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use extentwise_btrfs::synthetic::{Copies, Synthetic, at};
use serde_json::{Value, json};
use tempfile::TempDir;

struct Bench {
    folder: TempDir,
}

impl Bench {
    fn new(image: &Synthetic) -> Self {
        let bench = Self {
            folder: TempDir::new().unwrap(),
        };
        fs::write(bench.image(), &image.bytes).unwrap();
        bench
    }

    fn image(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    fn run(&self, options: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_extentwise"));
        command.arg("tree-blocks").args(options).arg(self.image());
        command.output().unwrap()
    }
}

fn dup() -> Synthetic {
    Synthetic::new(Copies::Dup)
}

fn rotten() -> Synthetic {
    let mut image = dup();
    image.block_mut(at::LEAVES[1], 1)[2000] ^= 4;
    image
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

fn parsed(output: &Output) -> Value {
    serde_json::from_str(stdout(output)).unwrap()
}

#[test]
fn a_sound_image_is_a_table_of_trees_and_exits_0() {
    let output = Bench::new(&dup()).run(&[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let expected = "\
btrfs 65787465-6e74-7769-7365-207465737473, generation 9: nodes of 4096 bytes, sectors of 4096, crc32c

tree           levels     nodes    leaves
root                1         0         1
chunk               1         0         1
fs                  2         1         2
checksum            1         0         1
subvolume 256       2         1         2
total                         2         7

7 blocks, read into memory: 7 contiguous, 0 mapped, 0 scattered
nothing is bad
";
    assert_eq!(stdout(&output), expected);
    assert_eq!(stderr(&output), "");
}

#[test]
fn json_has_everything() {
    let output = Bench::new(&dup()).run(&["--json"]);
    assert_eq!(output.status.code(), Some(0));
    let tree = |objectid: u64, nodes: u64, leaves: u64, levels: u64| json!({"objectid": objectid, "nodes": nodes, "leaves": leaves, "levels": levels});
    let expected = json!({
        "nodesize": 4096,
        "sectorsize": 4096,
        "csum": "crc32c",
        "generation": 9,
        "blocks": 9,
        "nodes": 2,
        "leaves": 7,
        "distinct": 7,
        "trees": [
            tree(1, 0, 1, 1),
            tree(3, 0, 1, 1),
            tree(5, 1, 2, 2),
            tree(7, 0, 1, 1),
            tree(256, 1, 2, 2),
        ],
        "bad": [],
        "backing": {"contiguous": 7, "mapped": 0, "scattered": 0},
    });
    assert_eq!(parsed(&output), expected);
}

#[test]
fn every_backing_finds_the_same_and_is_counted() {
    let bench = Bench::new(&rotten());
    let mut found = Vec::new();
    for backing in ["contiguous", "mapped", "scattered"] {
        let mut report = parsed(&bench.run(&["--json", "--backing", backing]));
        assert_eq!(report["backing"][backing], 7, "{report}");
        report["backing"] = Value::Null;
        found.push(report);
        let shown = bench.run(&["--block", "2113536", "--backing", backing]);
        assert_eq!(stdout(&shown), stdout(&bench.run(&["--block", "2113536"])));
    }
    assert_eq!(found[0], found[1]);
    assert_eq!(found[0], found[2]);
}

#[test]
fn a_healed_block_is_told_and_exits_1() {
    let bench = Bench::new(&rotten());
    let output = bench.run(&[]);
    assert_eq!(output.status.code(), Some(1));
    let text = stdout(&output);
    assert!(
        text.contains("\n1 bad:\nblock 2113536, mirror 1: csum "),
        "{text}"
    );
    assert!(
        text.ends_with("; mirror 2 is sound and was used\n"),
        "{text}"
    );

    let output = bench.run(&["--json"]);
    assert_eq!(output.status.code(), Some(1));
    let found = parsed(&output);
    let bad = &found["bad"][0];
    assert_eq!(
        (&bad["bytenr"], &bad["mirror"]),
        (&json!(2_113_536), &json!(1))
    );
    assert_eq!(bad["used"], 2);
    assert_eq!(found["leaves"], 7);
}

#[test]
fn the_image_stays_as_it_is() {
    let bench = Bench::new(&rotten());
    let before = fs::metadata(bench.image()).unwrap().modified().unwrap();
    let mut read_only = fs::metadata(bench.image()).unwrap().permissions();
    read_only.set_readonly(true);
    fs::set_permissions(bench.image(), read_only).unwrap();
    bench.run(&[]);
    bench.run(&["--block", "2113536"]);
    assert_eq!(fs::read(bench.image()).unwrap(), rotten().bytes);
    let after = fs::metadata(bench.image()).unwrap().modified().unwrap();
    assert_eq!(before, after);
}

#[test]
fn one_block_is_shown_with_header_items_and_bytes() {
    let bench = Bench::new(&dup());
    let output = bench.run(&["--block", "0x201000"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    for line in [
        "mirror 1 at byte 151552: sound",
        "mirror 2 at byte 184320: sound",
        "  owner            5",
        "     1  (300 1 0)  2113536  9",
        "  00020  65 78 74 65 6e 74 77 69 73 65 20 74 65 73 74 73  extentwise tests",
        "  *",
        "  01000",
    ] {
        assert!(text.lines().any(|there| there == line), "{line}: {text}");
    }
    let output = bench.run(&["--block", "2109440"]);
    assert!(stdout(&output).contains("\n     0  (257 1 0)  3996..4096\n"));

    let output = Bench::new(&rotten()).run(&["--block", "2113536"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).starts_with("mirror 1 at byte 163840: csum "));
    assert!(stdout(&output).contains("\nheader of mirror 2\n"));
}

#[test]
fn errors_name_the_image_and_exit_1() {
    let bench = Bench::new(&dup());
    let output = bench.run(&["--block", "4096"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).ends_with("image: block 4096: no chunk of metadata maps it\n"));

    fs::write(bench.image(), "short").unwrap();
    let output = bench.run(&["--json"]);
    assert_eq!(output.status.code(), Some(1));
    let told = stderr(&output);
    assert!(
        told.contains("image: no superblock; at 65536: it lies behind the end"),
        "{told}"
    );
    assert_eq!(stdout(&output), "");

    fs::remove_file(bench.image()).unwrap();
    fs::create_dir(bench.image()).unwrap();
    let output = bench.run(&[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("image: neither a file nor a block device"));
}

#[test]
fn a_wrong_command_line_exits_2() {
    let bench = Bench::new(&dup());
    for options in [
        &["--block", "x"][..],
        &["--block", "-1"],
        &["--block", "0x"],
        &["--json", "--block", "4096"],
        &["--backing", "paper"],
        &["a second image"],
    ] {
        assert_eq!(bench.run(options).status.code(), Some(2), "{options:?}");
    }
}
