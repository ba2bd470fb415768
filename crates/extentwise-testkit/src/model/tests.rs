//! The model allows what it must, refuses what it must, and finds broken caches.

use arbitrary::{Arbitrary, Unstructured};
use extentwise_device::ErrorClass;

use super::*;

const UNIT: usize = 4;

fn model() -> Model {
    Model::new(ModelGeometry {
        files: 1,
        unit: UNIT,
        size_max: 64,
    })
}

fn sync(model: &mut Model) {
    let sync = model.sync_begin(0);
    model.sync_end(sync);
}

fn allowed(model: &Model, seen: &[u8]) -> bool {
    model.crash_allows(0, seen).is_ok()
}

#[test]
fn c1_reads_past_the_end_are_short_and_gaps_are_zeros() {
    let mut model = model();
    model.write(0, 3, b"ab");
    assert_eq!(model.read(0, 0, 100), b"\0\0\0ab");
    assert_eq!(model.read(0, 4, 100), b"b");
    assert_eq!(model.read(0, 5, 1), b"");
    assert_eq!(model.read(0, usize::MAX, usize::MAX), b"");
    model.resize(0, 7);
    model.punch(0, 3, 1);
    assert_eq!(model.bytes(0), b"\0\0\0\0b\0\0");
    model.resize(0, 4);
    model.resize(0, 6);
    assert_eq!(model.bytes(0), b"\0\0\0\0\0\0");
    assert!(model.check_read(0, 0, 9, &[0; 6]).is_ok());
    assert!(model.check_read(0, 0, 9, &[0; 7]).is_err());
    assert_eq!(model.check_read(0, 2, 2, &[0, 1]).unwrap_err().offset, 3);
}

#[test]
fn a_crash_leaves_what_was_synced_or_anything_since_unit_by_unit() {
    let mut model = model();
    model.write(0, 0, b"aaaabbbb");
    sync(&mut model);
    model.write(0, 2, b"cccc");
    model.write(0, 0, b"d");
    for (seen, may) in [
        (&b"aaaabbbb"[..], true),
        (b"aaccbbbb", true),
        (b"aaaaccbb", true),
        (b"dacccCbb", false),
        (b"dacccc", false),
        (b"daccccbb", true),
        (b"daaabbbb", false),
        (b"\0\0\0\0bbbb", false),
        (b"", false),
        (b"aaaabbbbb", false),
    ] {
        let seen_text = String::from_utf8_lossy(seen);
        assert_eq!(allowed(&model, seen), may, "{seen_text}");
    }
    assert_eq!(model.crash_states(0), 6);
    sync(&mut model);
    assert!(allowed(&model, b"daccccbb"));
    assert!(!allowed(&model, b"aaaabbbb"), "older than the sync");
    assert_eq!(model.crash_states(0), 1);
}

#[test]
fn a_crash_before_any_sync_may_leave_nothing() {
    let mut model = model();
    assert!(allowed(&model, b""));
    assert!(!allowed(&model, b"\0"));
    model.write(0, 0, b"abcdef");
    for seen in [&b""[..], b"abcdef", b"abcd\0\0", b"\0\0\0\0ef"] {
        assert!(allowed(&model, seen));
    }
    assert!(!allowed(&model, b"abcd"), "never had that size");
    assert!(!allowed(&model, b"ab\0\0ef"), "never had that unit");
}

#[test]
fn c4_a_sync_covers_what_was_there_when_it_began() {
    let mut model = model();
    model.write(0, 0, b"aaaa");
    let sync = model.sync_begin(0);
    model.write(0, 0, b"bbbb");
    model.write(0, 4, b"cccc");
    model.sync_end(sync);
    assert!(allowed(&model, b"aaaa"), "the later write was not covered");
    assert!(allowed(&model, b"bbbb\0\0\0\0"));
    assert!(!allowed(&model, b""));
    assert!(!allowed(&model, b"\0\0\0\0"));
}

#[test]
fn a_sync_of_a_range_covers_units_inside_and_a_size_that_reaches_them() {
    let mut model = model();
    model.write(0, 0, b"aaaabbbbccccdd");
    let sync = model.sync_range_begin(0, 3, 6);
    model.sync_end(sync);
    assert!(allowed(&model, b"\0\0\0\0bbbb\0\0\0\0\0\0"));
    assert!(!allowed(&model, b"aaaa\0\0\0\0ccccdd"));
    assert!(!allowed(&model, b""));
    let sync = model.sync_range_begin(0, 12, 100);
    model.sync_end(sync);
    assert!(
        !allowed(&model, b"aaaabbbbcccc\0\0"),
        "up to the end of file"
    );
    assert!(allowed(&model, b"\0\0\0\0bbbb\0\0\0\0dd"));
}

#[test]
fn a_failed_sync_promises_nothing() {
    let mut model = model();
    model.write(0, 0, b"aaaa");
    drop(model.sync_begin(0));
    assert!(allowed(&model, b""));
}

#[test]
fn a_size_that_shrank_may_be_the_old_one_with_old_content() {
    let mut model = model();
    model.write(0, 0, b"aaaabbbb");
    sync(&mut model);
    model.resize(0, 2);
    assert!(allowed(&model, b"aaaabbbb"));
    assert!(allowed(&model, b"aa"));
    sync(&mut model);
    assert!(!allowed(&model, b"aaaabbbb"));
    model.resize(0, 8);
    assert!(allowed(&model, b"aa\0\0\0\0\0\0"));
    assert!(
        !allowed(&model, b"aaaabbbb"),
        "stale bytes past the old end"
    );
}

#[test]
fn after_recovery_what_was_found_is_all_that_is() {
    let mut model = model();
    model.write(0, 0, b"aaaabbbb");
    assert!(model.recover(0, b"zzzzbbbb").is_err());
    model.recover(0, b"\0\0\0\0bbbb").unwrap();
    assert_eq!(model.bytes(0), b"\0\0\0\0bbbb");
    assert!(!allowed(&model, b"aaaabbbb"));
    assert!(allowed(&model, b"\0\0\0\0bbbb"));
}

/// A cache of byte vectors, with a bug.
struct Vectors {
    files: Vec<Vec<u8>>,
    bug: Bug,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    KeepsBytesPastTheEnd,
    PunchesOneByteMore,
    LosesTheLastByteOfAWrite,
    ReadsOneByteMore,
    FailsSync,
    LosesAFileOnReopen,
    BreaksItsInvariant,
}

impl Subject for Vectors {
    fn write(&mut self, file: usize, offset: u64, bytes: &[u8]) -> Result<usize, ErrorClass> {
        let offset = usize::try_from(offset).unwrap();
        let content = &mut self.files[file];
        let end = offset + bytes.len();
        if !bytes.is_empty() && content.len() < end {
            content.resize(end, 0);
        }
        let lost = usize::from(self.bug == Bug::LosesTheLastByteOfAWrite);
        let len = bytes.len().saturating_sub(lost);
        if len > 0 {
            content[offset..offset + len].copy_from_slice(&bytes[..len]);
        }
        Ok(bytes.len())
    }

    fn read(&mut self, file: usize, offset: u64, buffer: &mut [u8]) -> Result<usize, ErrorClass> {
        let content = &self.files[file];
        let start = usize::try_from(offset).unwrap().min(content.len());
        let len = buffer.len().min(content.len() - start);
        buffer[..len].copy_from_slice(&content[start..start + len]);
        let more = usize::from(self.bug == Bug::ReadsOneByteMore);
        Ok(buffer.len().min(len + more))
    }

    fn resize(&mut self, file: usize, size: u64) -> Result<(), ErrorClass> {
        let size = usize::try_from(size).unwrap();
        let new = match self.bug {
            Bug::KeepsBytesPastTheEnd => 7,
            _ => 0,
        };
        self.files[file].resize(size, new);
        Ok(())
    }

    fn punch(&mut self, file: usize, offset: u64, len: u64) -> Result<(), ErrorClass> {
        let more = u64::from(self.bug == Bug::PunchesOneByteMore);
        let content = &mut self.files[file];
        let end = usize::try_from(offset + len + more).unwrap();
        let end = end.min(content.len());
        let start = usize::try_from(offset).unwrap().min(end);
        content[start..end].fill(0);
        Ok(())
    }

    fn sync(&mut self, _file: usize) -> Result<(), ErrorClass> {
        match self.bug {
            Bug::FailsSync => Err(ErrorClass::Io),
            _ => Ok(()),
        }
    }

    fn sync_range(&mut self, file: usize, _offset: u64, _len: u64) -> Result<(), ErrorClass> {
        self.sync(file)
    }

    fn reopen(&mut self, file: usize) -> Result<(), ErrorClass> {
        if self.bug == Bug::LosesAFileOnReopen {
            self.files[file].clear();
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        match self.bug {
            Bug::BreaksItsInvariant => Err("a count is wrong".to_owned()),
            _ => Ok(()),
        }
    }
}

fn drawn(seed: u64) -> Vec<Op> {
    let bytes = crate::seed::bytes(seed, 1000);
    let mut bytes = Unstructured::new(&bytes);
    let op = || Op::arbitrary(&mut bytes).ok();
    std::iter::from_fn(op).take(60).collect()
}

fn outcome(bug: Bug, refusals: Refusals) -> Result<Summary, Mismatch> {
    let mut all = Summary::default();
    for seed in 0..50 {
        let mut model = Model::new(ModelGeometry::TINY);
        let files = vec![Vec::new(); 2];
        let mut subject = Vectors { files, bug };
        let summary = run(&mut subject, &mut model, drawn(seed), refusals)?;
        all.ops += summary.ops;
        all.compared += summary.compared;
        all.syncs += summary.syncs;
        all.errors += summary.errors;
    }
    Ok(all)
}

#[test]
fn a_good_cache_agrees_and_every_broken_one_is_found() {
    let summary = outcome(Bug::None, Refusals::Forbidden).unwrap();
    assert!(summary.ops > 1000 && summary.compared > 100_000);
    assert!(summary.syncs > 100 && summary.errors == 0);
    for bug in [
        Bug::KeepsBytesPastTheEnd,
        Bug::PunchesOneByteMore,
        Bug::LosesTheLastByteOfAWrite,
        Bug::ReadsOneByteMore,
        Bug::FailsSync,
        Bug::LosesAFileOnReopen,
        Bug::BreaksItsInvariant,
    ] {
        let found = outcome(bug, Refusals::Forbidden);
        assert!(found.is_err(), "{bug:?}: {found:?}");
    }
    let summary = outcome(Bug::FailsSync, Refusals::Allowed).unwrap();
    assert!(summary.errors > 100 && summary.syncs == 0);
}

#[test]
fn drawn_operations_stay_in_bounds_and_often_cross_the_end() {
    let mut model = Model::new(ModelGeometry::TINY);
    let (mut writes, mut crossing) = (0, 0);
    for seed in 0..200 {
        for op in drawn(seed) {
            if let Call::Write {
                file,
                offset,
                len,
                fill,
            } = model.call(&op)
            {
                let end = model.bytes(file).len();
                assert!(offset + len <= ModelGeometry::TINY.size_max);
                writes += 1;
                crossing += u32::from(offset <= end && offset + len > end);
                model.write(file, offset, &pattern(fill, offset, len));
            }
            if let Call::Resize { file, size } = model.call(&op) {
                model.resize(file, size);
            }
        }
    }
    assert!(
        crossing * 5 > writes,
        "{crossing} of {writes} cross the end"
    );
}
