//! Every rule of the format refuses what breaks it, and names the key.

use extentwise_scenario::{BLOCKS_MAX, Invalid, Scenario, parse::parse_line};
use serde_json::{Map, Value, json};

fn writeback() -> Value {
    json!({
        "kind": "writeback", "name": "base", "block_size": 4096, "i_size": 100_000,
        "folios": [
            {"pos": 0, "size": 16384, "submit": [[4096, 8192]], "dirty": [[0, 12288]],
             "range": [0, 8192]},
            {"pos": 65536, "size": 65536, "submit": []},
        ],
        "ordered": [
            {"file_offset": 8192, "num_bytes": 8192, "disk_bytenr": 1_048_576, "offset": 4096,
             "disk_num_bytes": 16384, "flags": ["prealloc"], "finished": [[8192, 12288]]},
            {"file_offset": 0, "num_bytes": 8192, "disk_bytenr": 2_097_152},
        ],
        "bio": {"max_bytes": 8192, "max_segments": 2}, "refuse": [3, 1],
        "fail_io": [[1, 2], [5, 9]], "complete": false,
    })
}

fn write_begin() -> Value {
    json!({
        "kind": "write_begin", "name": "base", "block_size": 1024,
        "folio": {"pos": 4096, "size": 4096, "uptodate": false}, "from": 100, "to": 3000,
        "buffers": [["uptodate", "mapped"], [], ["mapped", "new"], []],
        "map": [{"block": 1, "result": "new"}], "default_map": "delay", "fail_read": [2],
        "copied": 2000,
    })
}

fn extent_buffer() -> Value {
    json!({
        "kind": "extent_buffer", "name": "base", "node_size": 16384, "page_size": 4096,
        "start": 32768, "backing": "mapped",
        "ops": [
            {"op": "write", "offset": 1, "hex": "00fF"},
            {"op": "set", "offset": 2, "width": 2, "value": "65535"},
            {"op": "fill", "offset": 0, "len": 9, "byte": 255},
            {"op": "csum", "algorithm": "blake2b"},
        ],
    })
}

/// The base with the value at `pointer` replaced, or put there.
fn changed(mut base: Value, pointer: &str, value: Value) -> String {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    match base.pointer_mut(parent).unwrap() {
        Value::Object(entries) => {
            entries.insert(key.to_owned(), value);
        }
        Value::Array(items) => items[key.parse::<usize>().unwrap()] = value,
        other => panic!("nothing can be changed in {other}"),
    }
    base.to_string()
}

fn refusal(line: &str) -> Invalid {
    match parse_line(line) {
        Ok(_) => panic!("accepted: {line}"),
        Err(invalid) => invalid,
    }
}

/// Each row: what is changed, to what, the key that must be named, and a part
/// of the reason.
fn check_refusals(base: fn() -> Value, rows: &[(&str, Value, &str, &str)]) {
    let accepted = parse_line(&base().to_string());
    assert!(accepted.is_ok(), "the base is valid: {accepted:?}");
    for (pointer, value, key, reason) in rows {
        let line = changed(base(), pointer, value.clone());
        let invalid = refusal(&line);
        assert_eq!(invalid.key, *key, "{pointer} = {value}: {invalid}");
        assert!(
            invalid.reason.contains(reason),
            "{pointer} = {value}: {invalid}"
        );
        if *pointer != "/name" {
            assert_eq!(invalid.name.as_deref(), Some("base"), "{pointer} = {value}");
        }
    }
}

// A table reads as one row a line.
#[rustfmt::skip]
#[test]
fn writeback_rules_refuse_what_breaks_them() {
    let max = u64::MAX;
    check_refusals(
        writeback,
        &[
            ("/kind", json!("readahead"), "kind", "\"readahead\" is unknown"),
            ("/kind", json!(7), "kind", "7 is not a string"),
            ("/name", json!(null), "name", "null is not a string"),
            ("/block_size", json!(0), "block_size", "0 is not a power of two"),
            ("/block_size", json!(256), "block_size", "from 512"),
            ("/block_size", json!(131_072), "block_size", "to 65536"),
            ("/i_size", json!(-1), "i_size", "-1 is not an integer"),
            ("/i_size", json!(1.5), "i_size", "1.5 is not an integer"),
            ("/i_size", json!("4096"), "i_size", "\"4096\" is not an integer"),
            ("/i_sise", json!(1), "i_sise", "unknown key"),
            ("/folios", json!({}), "folios", "an object is not a list"),
            ("/folios/0", json!(1), "folios[0]", "1 is not an object"),
            ("/folios/0/len", json!(1), "folios[0].len", "unknown key"),
            ("/folios/0/size", json!(12288), "folios[0].size", "12288 is not a power of two"),
            ("/folios/0/size", json!(2048), "folios[0].size", "the block size 4096"),
            ("/folios/0/size", json!(0), "folios[0].size", "0 is not a power of two"),
            ("/folios/0/pos", json!(4096), "folios[0].pos", "multiple of the folio's size"),
            ("/folios/0/pos", json!(131_072), "folios[0].submit", "not inside the folio"),
            ("/folios/1/pos", json!(max - 65535), "folios[1].size", "above 2^64-1"),
            ("/folios/1/pos", json!(0), "folios[1].pos", "ascending and disjoint"),
            ("/folios/0/submit", json!([[4096, 8193]]), "folios[0].submit", "[4096, 8193]"),
            ("/folios/0/submit", json!([[4096, 4096]]), "folios[0].submit", "empty"),
            ("/folios/0/submit", json!([[8192, 4096]]), "folios[0].submit", "backwards"),
            ("/folios/0/submit", json!([[0, 8192], [4096, 12288]]), "folios[0].submit", "disjoint"),
            ("/folios/0/submit", json!([[8192, 12288], [0, 4096]]), "folios[0].submit", "ascending"),
            ("/folios/0/submit", json!([[8192, 16384]]), "folios[0].submit", "[12288, 16384] is not dirty"),
            ("/folios/0/submit", json!([[0, 1, 2]]), "folios[0].submit[0]", "3 items"),
            ("/folios/0/submit", json!([[0, -4096]]), "folios[0].submit[0][1]", "-4096"),
            ("/folios/0/dirty", json!([[0, 20480]]), "folios[0].dirty", "not inside the folio"),
            ("/folios/0/dirty", json!([[1, 4096]]), "folios[0].dirty", "block size"),
            ("/folios/0/range", json!([0, 20480]), "folios[0].range", "not inside the folio"),
            ("/folios/0/range", json!([0, 100]), "folios[0].range", "block size"),
            ("/folios/0/range", json!([8192, 4096]), "folios[0].range", "backwards"),
            ("/ordered/1/file_offset", json!(100), "ordered[1].file_offset", "block size"),
            ("/ordered/1/file_offset", json!(4096), "ordered[1]", "overlaps ordered[0] [8192, 16384]"),
            ("/ordered/1/file_offset", json!(max - 4095), "ordered[1].num_bytes", "above 2^64-1"),
            ("/ordered/1/num_bytes", json!(0), "ordered[1].num_bytes", "has bytes"),
            ("/ordered/1/num_bytes", json!(1), "ordered[1].num_bytes", "block size"),
            ("/ordered/1/disk_bytenr", json!(1), "ordered[1].disk_bytenr", "block size"),
            ("/ordered/1/disk_bytenr", json!(max - 4095), "ordered[1].disk_bytenr", "above 2^64-1"),
            ("/ordered/0/offset", json!(1), "ordered[0].offset", "block size"),
            ("/ordered/0/offset", json!(12288), "ordered[0].disk_num_bytes", "below offset"),
            ("/ordered/1/offset", json!(max - 4095), "ordered[1].offset", "above 2^64-1"),
            ("/ordered/0/disk_num_bytes", json!(8192), "ordered[0].disk_num_bytes", "below offset"),
            ("/ordered/0/disk_num_bytes", json!(16385), "ordered[0].disk_num_bytes", "block size"),
            ("/ordered/0/flags", json!(["nocow", "prealloc"]), "ordered[0].flags", "at most one"),
            ("/ordered/0/flags", json!(["nocow", "nocow"]), "ordered[0].flags", "stands twice"),
            ("/ordered/0/flags", json!(["io_done"]), "ordered[0].flags[0]", "unknown"),
            ("/ordered/0/finished", json!([[0, 4096]]), "ordered[0].finished", "not inside"),
            ("/ordered/0/finished", json!([[8192, 9000]]), "ordered[0].finished", "block size"),
            ("/ordered/0/finished", json!([[8192, 16384]]), "ordered[0].finished", "whole"),
            ("/ordered/0/finished", json!([[8192, 12288], [12288, 16384]]), "ordered[0].finished", "whole"),
            ("/bio", json!([]), "bio", "not an object"),
            ("/bio/max_bytes", json!(0), "bio.max_bytes", "positive multiple"),
            ("/bio/max_bytes", json!(6000), "bio.max_bytes", "6000 is not"),
            ("/bio/max_segments", json!(0), "bio.max_segments", "at least 1"),
            ("/refuse", json!([1, 2, 1]), "refuse", "1 stands twice"),
            ("/refuse", json!([0.5]), "refuse[0]", "0.5 is not an integer"),
            ("/fail_io", json!([[5, 9], [1, 2]]), "fail_io", "ascending"),
            ("/fail_io", json!([[5, 5]]), "fail_io", "empty"),
            ("/complete", json!(1), "complete", "neither true nor false"),
        ],
    );
}

#[rustfmt::skip]
#[test]
fn write_begin_rules_refuse_what_breaks_them() {
    check_refusals(
        write_begin,
        &[
            ("/block_size", json!(1000), "block_size", "1000 is not a power of two"),
            ("/folio", json!([]), "folio", "not an object"),
            ("/folio/pos", json!(1024), "folio.pos", "multiple of the folio's size"),
            ("/folio/size", json!(512), "folio.size", "512 is not"),
            ("/folio/uptodate", json!("yes"), "folio.uptodate", "neither true nor false"),
            ("/folio/dirty", json!(true), "folio.dirty", "unknown key"),
            ("/from", json!(3000), "from", "3000 is not below to"),
            ("/from", json!(3001), "from", "3001 is not below to"),
            ("/to", json!(4097), "to", "behind the end of the folio"),
            ("/buffers", json!([[], [], []]), "buffers", "3 entries; the folio has 4 blocks"),
            ("/buffers/1", json!(["new"]), "buffers[1]", "\"new\" without \"mapped\""),
            ("/buffers/1", json!(["delay"]), "buffers[1]", "\"delay\" without"),
            ("/buffers/1", json!(["unwritten"]), "buffers[1]", "\"unwritten\" without"),
            ("/buffers/1", json!(["dirty"]), "buffers[1]", "\"dirty\" without \"uptodate\""),
            ("/buffers/1", json!(["uptodate", "uptodate"]), "buffers[1]", "stands twice"),
            ("/buffers/1", json!(["async"]), "buffers[1][0]", "\"async\" is unknown"),
            ("/map/0/block", json!(4), "map[0].block", "4 is not one of the folio's 4 blocks"),
            ("/map/0/result", json!("hole"), "map[0].result", "\"hole\" is unknown"),
            ("/map", json!([{"block": 1, "result": "new"}, {"block": 1, "result": "delay"}]), "map", "1 stands twice"),
            ("/default_map", json!("none"), "default_map", "unknown"),
            ("/fail_read", json!([4]), "fail_read[0]", "4 is not one"),
            ("/fail_read", json!([1, 1]), "fail_read", "1 stands twice"),
            ("/copied", json!(2901), "copied", "2901 is more than the 2900 bytes"),
            ("/copied", json!(null), "copied", "null is not an integer"),
        ],
    );
}

#[rustfmt::skip]
#[test]
fn extent_buffer_rules_refuse_what_breaks_them() {
    check_refusals(
        extent_buffer,
        &[
            ("/node_size", json!(2048), "node_size", "2048 is not a power of two from 4096"),
            ("/node_size", json!(131_072), "node_size", "to 65536"),
            ("/node_size", json!(12288), "node_size", "12288 is not"),
            ("/node_size", json!(u64::MAX), "node_size", "is not"),
            ("/page_size", json!(8192), "page_size", "8192 is none of"),
            ("/page_size", json!(0), "page_size", "0 is none of"),
            ("/start", json!(4096), "start", "multiple of the node size"),
            ("/backing", json!("huge"), "backing", "backings are contiguous, mapped, scattered"),
            ("/backing", json!(1), "backing", "1 is not a string"),
            ("/ops", json!({}), "ops", "not a list"),
            ("/ops/0", json!("read"), "ops[0]", "not an object"),
            ("/ops/0/op", json!("erase"), "ops[0].op", "\"erase\" is unknown"),
            ("/ops/0/op", json!(3), "ops[0].op", "3 is not a string"),
            ("/ops/0/op", json!("read"), "ops[0].hex", "unknown key"),
            ("/ops/0/len", json!(1), "ops[0].len", "unknown key"),
            ("/ops/0/offset", json!(-1), "ops[0].offset", "not an integer"),
            ("/ops/0/hex", json!("123"), "ops[0].hex", "3 hex digits"),
            ("/ops/0/hex", json!("1x"), "ops[0].hex", "other characters"),
            ("/ops/0/hex", json!("é"), "ops[0].hex", "other characters"),
            ("/ops/0/hex", json!("+1"), "ops[0].hex", "other characters"),
            ("/ops/1/width", json!(3), "ops[1].width", "3 is none of 1, 2, 4 and 8"),
            ("/ops/1/width", json!(1), "ops[1].value", "65535 is wider than 1 bytes"),
            ("/ops/1/value", json!("65536"), "ops[1].value", "wider than 2 bytes"),
            ("/ops/1/value", json!("18446744073709551616"), "ops[1].value", "not a decimal number"),
            ("/ops/1/value", json!("+1"), "ops[1].value", "not a decimal number"),
            ("/ops/1/value", json!(""), "ops[1].value", "not a decimal number"),
            ("/ops/1/value", json!("0x1"), "ops[1].value", "not a decimal number"),
            ("/ops/1/value", json!(1), "ops[1].value", "not a string"),
            ("/ops/2/byte", json!(256), "ops[2].byte", "256 is above 255"),
            ("/ops/3/algorithm", json!("md5"), "ops[3].algorithm", "algorithms are crc32c"),
        ],
    );
}

#[test]
fn dirty_in_an_uptodate_folio_needs_no_flag_of_its_own() {
    let mut base = write_begin();
    base["folio"]["uptodate"] = json!(true);
    assert!(parse_line(&changed(base, "/buffers/1", json!(["dirty"]))).is_ok());
}

#[test]
fn every_required_key_is_missed() {
    for (base, required) in [
        (
            writeback(),
            &[
                "/kind",
                "/name",
                "/block_size",
                "/i_size",
                "/folios",
                "/ordered",
                "/folios/0/pos",
                "/folios/0/size",
                "/folios/0/submit",
                "/ordered/1/file_offset",
                "/ordered/1/num_bytes",
                "/ordered/1/disk_bytenr",
            ][..],
        ),
        (
            write_begin(),
            &[
                "/kind",
                "/name",
                "/block_size",
                "/folio",
                "/from",
                "/to",
                "/folio/pos",
                "/folio/size",
                "/folio/uptodate",
                "/map/0/block",
                "/map/0/result",
            ][..],
        ),
        (
            extent_buffer(),
            &[
                "/name",
                "/node_size",
                "/page_size",
                "/start",
                "/backing",
                "/ops",
                "/ops/0/op",
                "/ops/0/offset",
                "/ops/0/hex",
                "/ops/1/width",
                "/ops/1/value",
                "/ops/2/byte",
                "/ops/3/algorithm",
            ][..],
        ),
    ] {
        for pointer in required {
            let mut scenario = base.clone();
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            let parent = scenario.pointer_mut(parent).unwrap();
            parent.as_object_mut().unwrap().remove(key);
            let invalid = refusal(&scenario.to_string());
            assert!(invalid.key.ends_with(key), "{pointer}: {invalid}");
            assert!(invalid.reason.contains("missing"), "{pointer}: {invalid}");
        }
    }
}

#[test]
fn optional_keys_have_the_defaults_of_the_format() {
    let line = r#"{"kind":"writeback","name":"n","block_size":512,"i_size":0,
        "folios":[{"pos":0,"size":1024,"submit":[[0,512]]}],
        "ordered":[{"file_offset":0,"num_bytes":512,"disk_bytenr":0,"offset":512}],
        "bio":{"max_segments":7}}"#;
    let Ok(Scenario::Writeback(scenario)) = parse_line(line) else {
        panic!("refused");
    };
    assert_eq!(scenario.folios[0].dirty, scenario.folios[0].submit);
    assert_eq!(scenario.folios[0].range, 0..1024);
    assert_eq!(scenario.ordered[0].disk_num_bytes, 1024);
    assert_eq!(
        (scenario.bio.max_bytes, scenario.bio.max_segments),
        (1 << 20, 7)
    );
    assert!(scenario.complete && scenario.refuse.is_empty() && scenario.fail_io.is_empty());
}

#[test]
fn a_key_that_stands_twice_is_refused() {
    let line = writeback().to_string().replacen('{', r#"{"i_size":5,"#, 1);
    let invalid = refusal(&line);
    assert_eq!(
        (invalid.key.as_str(), invalid.reason.as_str()),
        ("i_size", "the key stands twice")
    );
}

#[test]
fn a_number_above_64_bits_is_refused() {
    let line = writeback()
        .to_string()
        .replace("100000", "18446744073709551616");
    let invalid = refusal(&line);
    assert_eq!(invalid.key, "i_size");
    assert!(
        invalid.reason.contains("not an integer from 0 to 2^64-1"),
        "{invalid}"
    );
    for huge in ["1e400", "-1e400"] {
        let invalid = refusal(&writeback().to_string().replace("100000", huge));
        assert!(invalid.reason.starts_with("not JSON: "), "{invalid}");
    }
}

#[test]
fn more_blocks_than_the_limit_are_refused_before_memory_is_asked_for() {
    let size = 512 * BLOCKS_MAX;
    let mut folios = vec![json!({"pos": 0, "size": size, "submit": []})];
    let scenario = |folios: &Vec<Value>| {
        json!({"kind": "writeback", "name": "n", "block_size": 512, "i_size": 0,
               "folios": folios, "ordered": []})
        .to_string()
    };
    assert!(parse_line(&scenario(&folios)).is_ok());
    folios.push(json!({"pos": size, "size": 512, "submit": []}));
    let invalid = refusal(&scenario(&folios));
    assert_eq!(invalid.key, "folios");
    assert!(
        invalid.reason.contains(&BLOCKS_MAX.to_string()),
        "{invalid}"
    );

    let invalid = refusal(
        &json!({"kind": "write_begin", "name": "n", "block_size": 512,
                "folio": {"pos": 0, "size": 1_u64 << 63, "uptodate": false}, "from": 0, "to": 1})
        .to_string(),
    );
    assert_eq!(invalid.key, "folio.size");
    assert!(
        invalid.reason.contains(&BLOCKS_MAX.to_string()),
        "{invalid}"
    );
}

#[test]
fn hostile_text_is_refused_with_a_reason() {
    let deep = "[".repeat(100_000);
    let nested = Value::Object(Map::from_iter([("a".to_owned(), writeback())])).to_string();
    for text in [
        "",
        " ",
        "{",
        "}",
        "null",
        "[]",
        "3",
        "\"x\"",
        "{}",
        "{\"kind\":",
        "{\"kind\":\"writeback\"",
        "\u{0}",
        "{\"a\":1,}",
        "{\"kind\":\"writeback\"}x",
        &deep,
        &nested,
    ] {
        let invalid = refusal(text);
        assert!(!invalid.reason.is_empty(), "{text:.40}");
        assert!(invalid.to_string().len() < 400, "{invalid}");
    }
}

#[test]
fn a_long_or_odd_value_is_quoted_in_short_and_in_one_line() {
    let line = changed(writeback(), "/i_size", json!("\n".repeat(10_000)));
    let text = refusal(&line).to_string();
    assert!(text.len() < 300 && !text.contains('\n'), "{text}");
}
