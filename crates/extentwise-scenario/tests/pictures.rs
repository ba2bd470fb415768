//! Pictures of known cases, letter by letter.

use extentwise_scenario::picture::{Picture, svg};
use extentwise_scenario::{Scenario, oracle, parse};

const WRITEBACK: &str = include_str!("cases/named-writeback.jsonl");
const WRITE_BEGIN: &str = include_str!("cases/named-write_begin.jsonl");

fn draw(scenario: &Scenario) -> Picture {
    match scenario {
        Scenario::Writeback(scenario) => Picture::writeback(scenario, &oracle::writeback(scenario)),
        Scenario::WriteBegin(scenario) => {
            Picture::write_begin(scenario, &oracle::write_begin(scenario))
        }
        Scenario::ExtentBuffer(scenario) => {
            Picture::extent_buffer(scenario, &oracle::extent_buffer(scenario))
        }
    }
}

fn drawn(cases: &str, name: &str) -> String {
    let scenario = parse::scenarios(cases)
        .filter_map(|item| item.scenario.ok())
        .find(|scenario| scenario.name() == name)
        .expect("the case is there");
    draw(&scenario).to_text()
}

#[test]
fn past_eof_pieces_show_where_the_file_ends_and_what_is_given_back() {
    let expected = "\
later OEs past EOF
  writeback, 4 KiB blocks, file size 16 KiB

  folio at 0: 64 KiB, 16 blocks
    before    WWWW....W......W
    OEs       AAAA....B......C
    pass      >>>>....~......~
    after     ................
                  ^ EOF 16 KiB, from this block on nothing is written

  W to write   > submitted   ~ past EOF

  pass
    submit    [0, 16 KiB) of A to disk 1 MiB
    past EOF  [32 KiB, 36 KiB): no I/O, truncates B
    past EOF  [60 KiB, 64 KiB): no I/O, truncates C

  bios
    1   16 KiB to disk 1 MiB: [0, 16 KiB); completed

  ordered extents
    A   [0, 16 KiB) on disk 1 MiB: done, kept 16 KiB at disk 1 MiB
    B   [32 KiB, 36 KiB) on disk 2064 KiB: truncated at 32 KiB, its 4 KiB at disk 2064 KiB are released
    C   [60 KiB, 64 KiB) on disk 3092 KiB: truncated at 60 KiB, its 4 KiB at disk 3092 KiB are released

  errors
    none
";
    assert_eq!(drawn(WRITEBACK, "later OEs past EOF"), expected);
}

#[test]
fn a_completion_error_shows_the_failed_bio_and_what_is_waited_for() {
    let expected = "\
completion error
  writeback, 4 KiB blocks, file size 64 KiB
  I/O fails on disk [1 MiB, 1048577)

  folio at 0: 64 KiB, 16 blocks
    before    WW..WW..........
    OEs       AAAAAAAA........
    pass      >>..>>..........
    after     ................
                              ^ EOF 64 KiB, where the folio ends

  W to write   > submitted

  pass
    submit    [0, 8 KiB) of A to disk 1 MiB
    submit    [16 KiB, 24 KiB) of A to disk 1040 KiB

  bios
    1   8 KiB to disk 1 MiB: [0, 8 KiB); failed
    2   8 KiB to disk 1040 KiB: [16 KiB, 24 KiB); completed

  ordered extents
    A   [0, 32 KiB) on disk 1 MiB: waits for 16 KiB, failed in part

  errors
    the file remembers an error for the next sync
";
    assert_eq!(drawn(WRITEBACK, "completion error"), expected);
}

#[test]
fn a_small_write_shows_what_is_read_and_which_flags_change() {
    let expected = "\
small overwrite, both edges read
  write_begin, 4 KiB blocks, 8000 bytes to be written to [5000, 13000) of the folio
  all of it is copied

  folio at 0, not uptodate: 64 KiB, 16 blocks
    write     ./=/............
    actions   .rmr............
    uptodate  .+++............
    mapped    .+++............
    dirty     .+++............

  / written in part   = written   + flag set   m mapped   r read

  actions
    map   block 1: mapped, the device holds its data
    read  block 1: it is written only in part
    map   block 2: mapped, the device holds its data
    map   block 3: mapped, the device holds its data
    read  block 3: it is written only in part

  outcome
    committed 8000 bytes of 8000 bytes
    the folio is not uptodate
";
    assert_eq!(
        drawn(WRITE_BEGIN, "small overwrite, both edges read"),
        expected
    );
}

#[test]
fn a_block_shows_its_pages_what_was_touched_and_what_each_operation_answered() {
    let line = r#"{"kind":"extent_buffer","name":"edge move","node_size":16384,"page_size":4096,
        "start":1048576,"backing":"scattered","ops":[
        {"op":"move","dst":4032,"src":3968,"len":256},{"op":"fill","offset":8192,"len":1024,"byte":7},
        {"op":"get","offset":16380,"width":8},{"op":"compare","offset":0,"hex":"001f"},
        {"op":"test_bit","offset":0,"bit":9}]}"#;
    let expected = "\
edge move
  extent_buffer, 16 KiB at logical address 1 MiB, scattered

  block: 4 pages of 4 KiB, 256 bytes a column
    pages     AAAAAAAAAAAAAAAABBBBBBBBBBBBBBBBCCCCCCCCCCCCCCCCDDDDDDDDDDDDDDDD
    read      r..............rr...............................................
    written   ...............//...............====............................

  / written in part   = written   r read

  operations
    move       [3968, 4224) to 4032: done
    fill       [8 KiB, 9 KiB) with 07: done
    get        [16380, 16388): leaves the block, refused
    compare    [0, 2) with 001f: equal
    test_bit   bit 9 from 0: 1

  outcome
    1 operation leaves the block: refused, nothing was touched
    sha256 of the block SUM
";
    let text = draw(&parse::parse_line(line).unwrap()).to_text();
    let (front, sum) = text.split_once("sha256 of the block ").unwrap();
    assert_eq!(sum.trim_end().len(), 64);
    assert_eq!(format!("{front}sha256 of the block SUM\n"), expected);
}

#[test]
fn a_block_in_a_larger_page_shows_which_of_them_it_is() {
    let line = r#"{"kind":"extent_buffer","name":"n","node_size":16384,"page_size":65536,
        "start":32768,"backing":"mapped","ops":[]}"#;
    let text = draw(&parse::parse_line(line).unwrap()).to_text();
    assert!(text.contains("number 3 of 4 in a page of 64 KiB"), "{text}");
    assert!(
        text.contains("the other blocks of the page are as they were"),
        "{text}"
    );
}

#[test]
fn a_long_folio_is_squeezed_and_a_single_missing_block_still_shows() {
    let line = r#"{"kind":"writeback","name":"long","block_size":4096,"i_size":2097152,
        "folios":[{"pos":0,"size":2097152,"submit":[[0,2097152]]}],
        "ordered":[{"file_offset":0,"num_bytes":1048576,"disk_bytenr":1048576},
                   {"file_offset":1052672,"num_bytes":1044480,"disk_bytenr":4194304}]}"#;
    let text = draw(&parse::parse_line(line).unwrap()).to_text();
    assert!(text.contains("512 blocks, 8 a column"), "{text}");
    let pass = text.lines().find(|line| line.contains("pass  ")).unwrap();
    assert_eq!(
        pass.trim_start(),
        format!("pass      {}!{}", ">".repeat(32), ">".repeat(31))
    );
}

#[test]
fn every_random_case_has_pictures_of_bounded_width() {
    for cases in [
        include_str!("cases/random-writeback.jsonl"),
        include_str!("cases/random-write_begin.jsonl"),
        include_str!("cases/random-extent_buffer.jsonl"),
    ] {
        for item in parse::scenarios(cases) {
            let picture = draw(&item.scenario.unwrap());
            for line in picture
                .to_text()
                .lines()
                .filter(|line| line.starts_with("    before "))
            {
                assert!(line.len() <= 4 + 10 + 100, "{line}");
            }
            let drawing = svg::document(&[picture]);
            assert!(drawing.starts_with("<svg ") && drawing.ends_with("</svg>\n"));
        }
    }
}

#[test]
fn names_can_neither_move_a_terminal_nor_break_the_drawing() {
    let line = r#"{"kind":"write_begin","name":"\u001b[2J</text><script>&\u0000","block_size":512,
        "folio":{"pos":0,"size":512,"uptodate":true},"from":0,"to":1}"#;
    let picture = draw(&parse::parse_line(line).unwrap());
    assert!(picture.to_text().starts_with("\\u{1b}[2J</text>"));
    let drawing = svg::document(&[picture]);
    assert!(
        drawing.contains("\\u{1b}[2J&lt;/text&gt;&lt;script&gt;&amp;"),
        "{drawing}"
    );
}
