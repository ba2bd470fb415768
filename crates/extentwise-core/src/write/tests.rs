//! The walk of one write, over small folios searched whole.

use super::*;
use crate::folio::FolioState;
use crate::geometry::{
    BlockIndex, BlockRange, BlockSize, FileOffset, FileRange, FolioGeometry, LenBytes,
};

const B: u64 = 512;

type Log = heapless::Vec<Ask<&'static str>, 32>;

fn geometry(blocks: u64) -> FolioGeometry {
    let block_size = BlockSize::new(B).unwrap();
    FolioGeometry::new(FileOffset::ZERO, LenBytes::new(blocks * B), block_size).unwrap()
}

fn range(start: u64, end: u64) -> FileRange {
    FileRange::new(FileOffset::new(start), FileOffset::new(end)).unwrap()
}

fn one(block: usize) -> BlockRange {
    BlockRange::one(BlockIndex::new(block))
}

/// A folio with its mappings, and what the device and file system answer.
#[derive(Clone)]
struct Setup {
    folio: FolioState<[u64; 3]>,
    maps: MappingState<[u64; 4]>,
    kind: MappingKind,
    /// Whether an answer holds for one block or for all of them.
    wide: bool,
    fail_map: Option<usize>,
    fail_read: [bool; 4],
}

impl Setup {
    fn new(blocks: u64) -> Self {
        let geometry = geometry(blocks);
        Self {
            folio: FolioState::empty(geometry).unwrap(),
            maps: MappingState::empty(geometry).unwrap(),
            kind: MappingKind::New,
            wide: false,
            fail_map: None,
            fail_read: [false; 4],
        }
    }

    fn mapped(mut self, block: usize, flags: MappingFlags) -> Self {
        self.maps.replace(one(block), flags | MappingFlags::MAPPED);
        self
    }

    fn uptodate(mut self, block: usize) -> Self {
        self.folio.mark_uptodate(one(block));
        self
    }

    /// Runs a write to its end; reads are answered last first.
    fn write(&mut self, bytes: FileRange, copied: u64) -> Log {
        let mut log = Log::new();
        let mut write = BufferedWrite::begin(&self.folio, bytes).unwrap();
        loop {
            let mut cx = WriteContext {
                folio: &mut self.folio,
                maps: &mut self.maps,
            };
            let ask = write.step(&mut cx);
            log.push(ask).unwrap();
            match ask {
                Ask::Map(block) => {
                    let failed = self.fail_map == Some(block.get());
                    let range = if self.wide {
                        cx.folio.geometry().range()
                    } else {
                        cx.folio.geometry().bytes_of(BlockRange::one(block))
                    };
                    let mapping = Mapping {
                        kind: self.kind,
                        range,
                    };
                    write.mapped(if failed { Err("map") } else { Ok(mapping) }, &mut cx);
                }
                Ask::WaitForReads => {
                    for block in (0..4).rev().map(BlockIndex::new) {
                        let failed = self.fail_read[block.get()];
                        let result = if failed { Err("read") } else { Ok(()) };
                        write.read_done(block, result, &mut cx);
                    }
                }
                Ask::Copy => write.commit(LenBytes::new(copied), &mut cx),
                Ask::Committed(_) | Ask::Failed(_) => return log,
                Ask::Zero(_) | Ask::Read(_) | Ask::PublishSize(_) => {}
            }
        }
    }

    fn is_dirty(&self, block: usize) -> bool {
        self.folio.dirty().test(BlockIndex::new(block))
    }

    fn is_uptodate(&self, block: usize) -> bool {
        self.folio.is_block_uptodate(BlockIndex::new(block))
    }

    fn flags(&self, block: usize) -> MappingFlags {
        self.maps.flags(BlockIndex::new(block))
    }
}

fn zeroed(log: &Log) -> u64 {
    let bytes = |ask: &Ask<_>| match ask {
        Ask::Zero(range) => range.len().get(),
        _ => 0,
    };
    log.iter().map(bytes).sum()
}

fn reads(log: &Log) -> usize {
    log.iter().filter(|ask| matches!(ask, Ask::Read(_))).count()
}

fn last(log: &Log) -> Ask<&'static str> {
    *log.last().unwrap()
}

#[test]
fn v13_both_stop_conditions_visit_the_same_blocks() {
    for blocks in 1..=8_u64 {
        for from in 0..blocks * 4 {
            for to in from + 1..=blocks * 4 {
                for uptodate in [false, true] {
                    // Blocks of 4 bytes in a ring, as the published walk has them.
                    let visited = |goes_on: &dyn Fn(u64, u64) -> bool| {
                        let (mut block, mut start, mut seen) = (0, 0, 0);
                        while goes_on(block, start) {
                            seen += 1;
                            block = (block + 1) % blocks;
                            start += 4;
                        }
                        seen
                    };
                    let published = visited(&|block, start| {
                        (block != 0 || start == 0) && !(uptodate && start >= to)
                    });
                    let shorter = visited(&|block, start| start < to || (!uptodate && block != 0));
                    assert_eq!(published, shorter);
                    assert!(published * 4 >= to && published <= blocks);
                }
            }
        }
    }
}

#[test]
fn v1_v2_blocks_outside_a_write_on_an_uptodate_folio_are_not_visited() {
    let mut setup = Setup::new(4)
        .mapped(0, MappingFlags::NEW)
        .mapped(3, MappingFlags::NEW);
    setup.folio.mark_folio_uptodate();
    let log = setup.write(range(B + 7, 2 * B), B - 7);
    assert_eq!(log[0], Ask::Map(BlockIndex::new(1)));
    assert_eq!((zeroed(&log), reads(&log)), (0, 0));
    let stale = MappingFlags::MAPPED | MappingFlags::NEW;
    assert_eq!((setup.flags(0), setup.flags(3)), (stale, stale));
    assert_eq!(setup.flags(2), MappingFlags::empty());
    assert_eq!(setup.flags(1), MappingFlags::MAPPED);
    assert!(setup.is_dirty(1) && !setup.is_dirty(0) && !setup.is_dirty(2));
}

#[test]
fn v3_bytes_of_an_uptodate_block_are_never_zeroed() {
    let mut setup = Setup::new(4).uptodate(1);
    let log = setup.write(range(B + 1, 2 * B - 1), B - 2);
    assert_eq!((zeroed(&log), reads(&log)), (0, 0));
    assert_eq!(last(&log), Ask::Committed(LenBytes::new(B - 2)));
}

#[test]
fn v4_only_partly_covered_blocks_with_data_are_read() {
    let mapped = MappingFlags::empty();
    for (flags, expected) in [
        (mapped, (0, 2)),
        (MappingFlags::DELAY, (200, 0)),
        (MappingFlags::UNWRITTEN, (200, 0)),
        (MappingFlags::NEW, (200, 0)),
    ] {
        let mut setup = Setup::new(4);
        for block in 0..4 {
            setup = setup.mapped(block, flags);
        }
        let log = setup.write(range(100, 4 * B - 100), 4 * B - 200);
        assert_eq!((zeroed(&log), reads(&log)), expected);
        assert!(setup.folio.is_uptodate());
        assert!((0..4).all(|block| setup.is_dirty(block)));
        assert!((0..4).all(|block| !setup.flags(block).contains(MappingFlags::NEW)));
    }
}

#[test]
fn v5_a_mapping_error_wins_over_failed_reads_which_are_waited_for() {
    let mut setup = Setup::new(4).mapped(0, MappingFlags::empty());
    setup.fail_map = Some(2);
    setup.fail_read = [true; 4];
    let log = setup.write(range(1, 3 * B), 0);
    let block = BlockIndex::new(2);
    assert_eq!(
        last(&log),
        Ask::Failed(WriteError::Map {
            block,
            error: "map"
        })
    );
    assert!(log.contains(&Ask::WaitForReads));

    let mut setup = Setup::new(4)
        .mapped(0, MappingFlags::empty())
        .mapped(1, MappingFlags::empty());
    setup.fail_read = [true; 4];
    let log = setup.write(range(1, B + 1), B);
    let block = BlockIndex::new(0);
    assert_eq!(
        last(&log),
        Ask::Failed(WriteError::Read {
            block,
            error: "read"
        })
    );
}

#[test]
fn v6_an_error_settles_the_new_blocks_of_this_write_only() {
    // Block 1 carries a stale NEW, block 0 becomes new, block 2 fails.
    let mut setup = Setup::new(4)
        .mapped(1, MappingFlags::NEW)
        .mapped(3, MappingFlags::NEW);
    setup.fail_map = Some(2);
    let log = setup.write(range(10, 4 * B), 0);
    // The head of block 0 for V3, its part inside the write for V6.
    let zeros = log.iter().filter_map(|ask| match ask {
        Ask::Zero(range) => Some(*range),
        _ => None,
    });
    assert!(zeros.eq([range(0, 10), range(10, B)]));
    assert!(setup.is_dirty(0) && setup.is_uptodate(0));
    assert!(!setup.is_dirty(1) && !setup.is_uptodate(1));
    assert_eq!(setup.flags(0), MappingFlags::MAPPED);
    assert!(setup.flags(3).contains(MappingFlags::NEW));
    assert!(!setup.folio.is_uptodate());
}

#[test]
fn v7_an_error_does_not_clear_folio_uptodate() {
    let mut setup = Setup::new(4);
    setup.folio.mark_folio_uptodate();
    setup.fail_map = Some(1);
    let log = setup.write(range(0, 2 * B), 0);
    assert!(matches!(last(&log), Ask::Failed(_)));
    assert!(setup.folio.is_uptodate());
    assert_eq!(zeroed(&log), 0);
    assert!(setup.is_dirty(0) && !setup.is_dirty(1));
}

#[test]
fn v8_a_short_copy_commits_nothing_on_a_folio_that_is_not_uptodate() {
    // Block 0 is uptodate and met by the copied bytes; block 1 becomes new.
    let mut setup = Setup::new(4).mapped(0, MappingFlags::empty()).uptodate(0);
    let log = setup.write(range(0, 2 * B), B + 100);
    assert_eq!(last(&log), Ask::Committed(LenBytes::ZERO));
    assert!(
        setup.is_dirty(0),
        "eviction would take back what readers saw"
    );
    assert!(setup.is_dirty(1) && setup.is_uptodate(1));
    assert_eq!(zeroed(&log), B);
    assert!(!log.iter().any(|ask| matches!(ask, Ask::PublishSize(_))));
}

#[test]
fn v8_a_short_copy_stands_on_an_uptodate_folio() {
    let mut setup = Setup::new(4);
    setup.folio.mark_folio_uptodate();
    let log = setup.write(range(0, 4 * B), B + 1);
    assert_eq!(last(&log), Ask::Committed(LenBytes::new(B + 1)));
    assert!(log.contains(&Ask::PublishSize(FileOffset::new(B + 1))));
    assert_eq!(zeroed(&log), 0);
    // Zero-new makes the rest dirty, for it was allocated by this write.
    assert!((0..4).all(|block| setup.is_dirty(block)));
    assert!((0..4).all(|block| !setup.flags(block).contains(MappingFlags::NEW)));
}

#[test]
fn v10_a_block_that_could_not_be_read_is_not_uptodate() {
    let mut setup = Setup::new(4)
        .mapped(0, MappingFlags::empty())
        .mapped(1, MappingFlags::empty());
    setup.fail_read = [true, false, false, false];
    let log = setup.write(range(1, 2 * B - 1), 0);
    assert!(matches!(last(&log), Ask::Failed(WriteError::Read { .. })));
    assert!(!setup.is_uptodate(0) && setup.is_uptodate(1));
    assert!(!setup.folio.is_dirty());
}

#[test]
fn v11_an_answer_that_misses_the_block_is_an_error() {
    let mut setup = Setup::new(4);
    let mut write = BufferedWrite::<()>::begin(&setup.folio, range(B, 2 * B)).unwrap();
    let mut cx = WriteContext {
        folio: &mut setup.folio,
        maps: &mut setup.maps,
    };
    let block = BlockIndex::new(1);
    assert_eq!(write.step(&mut cx), Ask::Map(block));
    assert_eq!(
        write.step(&mut cx),
        Ask::Map(block),
        "unanswered: asked again"
    );
    let mapping = Mapping {
        kind: MappingKind::Mapped,
        range: range(B, 2 * B - 1),
    };
    write.mapped(Ok(mapping), &mut cx);
    assert_eq!(
        write.step(&mut cx),
        Ask::Failed(WriteError::BadMapping { block })
    );
    assert_eq!(setup.flags(1), MappingFlags::empty());
}

#[test]
fn v14_the_size_is_published_before_the_blocks_are_dirty() {
    let mut setup = Setup::new(4);
    let mut write = BufferedWrite::<()>::begin(&setup.folio, range(0, 700)).unwrap();
    let mut published = false;
    loop {
        let mut cx = WriteContext {
            folio: &mut setup.folio,
            maps: &mut setup.maps,
        };
        match write.step(&mut cx) {
            Ask::Map(_) => {
                let mapping = Mapping {
                    kind: MappingKind::New,
                    range: range(0, 4 * B),
                };
                write.mapped(Ok(mapping), &mut cx);
            }
            Ask::Copy => write.commit(LenBytes::MAX, &mut cx),
            Ask::PublishSize(end) => {
                assert_eq!(end, FileOffset::new(700));
                assert!(!cx.folio.is_dirty());
                published = true;
            }
            Ask::Committed(len) => {
                assert_eq!(len, LenBytes::new(700));
                break;
            }
            _ => {}
        }
    }
    assert!(published && setup.folio.is_dirty());
}

#[test]
fn v16_an_abandoned_write_leaves_no_new_behind() {
    let mut setup = Setup::new(4);
    let log = setup.write(range(7, 3 * B), 0);
    assert_eq!(last(&log), Ask::Committed(LenBytes::ZERO));
    for block in 0..3 {
        assert_eq!(setup.flags(block), MappingFlags::MAPPED);
        assert!(setup.is_dirty(block) && setup.is_uptodate(block));
    }
    assert!(!setup.folio.is_uptodate());
}

#[test]
fn a_write_that_does_not_fit_is_refused() {
    let setup = Setup::new(4);
    let begin = |range| BufferedWrite::<()>::begin(&setup.folio, range).err();
    assert_eq!(begin(range(5, 5)), Some(WriteInputError::Empty));
    let outside = range(0, 4 * B + 1);
    assert_eq!(begin(outside), Some(WriteInputError::Outside(outside)));
}

#[test]
fn answers_that_were_not_asked_for_change_nothing() {
    let mut setup = Setup::new(4);
    let mut write = BufferedWrite::<()>::begin(&setup.folio, range(0, B)).unwrap();
    let mut cx = WriteContext {
        folio: &mut setup.folio,
        maps: &mut setup.maps,
    };
    write.read_done(BlockIndex::new(0), Ok(()), &mut cx);
    write.commit(LenBytes::new(1), &mut cx);
    let mapping = Mapping {
        kind: MappingKind::Mapped,
        range: range(0, B),
    };
    write.mapped(Ok(mapping), &mut cx);
    assert!(!cx.folio.is_block_uptodate(BlockIndex::new(0)));
    assert_eq!(write.step(&mut cx), Ask::Map(BlockIndex::new(0)));
}

/// All states of four blocks from five, all writes on half-block borders, all
/// kinds, both folio states: an answer for the whole folio decides the same as
/// one a block, and the bits keep their promises.
#[test]
fn wide_mapping_answers_decide_as_narrow_ones_over_all_small_folios() {
    let kinds = [
        MappingKind::Mapped,
        MappingKind::New,
        MappingKind::Delay,
        MappingKind::Unwritten,
    ];
    for states in 0..5_usize.pow(4) {
        for uptodate in [false, true] {
            let mut setup = Setup::new(4);
            for block in 0..4 {
                setup = match states / 5_usize.pow(u32::try_from(block).unwrap()) % 5 {
                    0 => setup,
                    1 => setup.mapped(block, MappingFlags::empty()),
                    2 => setup.mapped(block, MappingFlags::NEW),
                    3 => setup.mapped(block, MappingFlags::UNWRITTEN),
                    _ => setup.uptodate(block),
                };
            }
            if uptodate {
                setup.folio.mark_folio_uptodate();
            }
            for kind in kinds {
                setup.kind = kind;
                for from in 0..8 {
                    for to in from + 1..=8 {
                        check_one_write(&setup, range(from * B / 2, to * B / 2));
                    }
                }
            }
        }
    }
}

fn check_one_write(setup: &Setup, bytes: FileRange) {
    let (mut narrow, mut wide) = (setup.clone(), setup.clone());
    wide.wide = true;
    let len = bytes.len().get();
    let narrow_log = narrow.write(bytes, len);
    let wide_log = wide.write(bytes, len);
    let without_maps = |log: &Log| {
        let rest = log.iter().filter(|ask| !matches!(ask, Ask::Map(_)));
        rest.copied().collect::<Log>()
    };
    assert_eq!(without_maps(&narrow_log), without_maps(&wide_log));
    assert!(reads(&narrow_log) <= 2);
    assert_eq!(last(&narrow_log), Ask::Committed(LenBytes::new(len)));
    let written = narrow.folio.geometry().blocks_meeting(bytes);
    for block in 0..4 {
        assert_eq!(narrow.flags(block), wide.flags(block));
        assert_eq!(narrow.is_uptodate(block), wide.is_uptodate(block));
        let inside = written.contains(BlockIndex::new(block));
        assert_eq!(narrow.is_dirty(block), inside);
        if inside {
            assert!(narrow.is_uptodate(block));
            assert!(!narrow.flags(block).contains(MappingFlags::NEW));
        } else {
            assert_eq!(narrow.flags(block), setup.flags(block));
            assert_eq!(narrow.is_uptodate(block), setup.is_uptodate(block));
        }
    }
    let all = (0..4).all(|block| narrow.is_uptodate(block));
    assert_eq!(narrow.folio.is_uptodate(), all);
}
