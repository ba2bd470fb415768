//! Rows 14 and 15: accesses to a block of 16 KiB against the plain slice operation, and
//! the three backings against each other: getting and mapping a buffer against what
//! each access then saves.

use std::cmp::Ordering;
use std::hint::black_box;

use extentwise_checksum::Algorithm;
use extentwise_core::extent_buffer::{BlockMemory, CSUM_BYTES, ExtentBuffer};
use extentwise_memory::{Backing, Content, Folio, NodeGeometry, NodeMemory, NodePool};

use crate::paired::{Effort, Paired, median, pair};
use crate::row::{Bar, Outcome, Row};

const NODE: usize = 16384;
/// A move of 4 KiB over edges of pages on both sides.
const SMALL_MOVE: Move = Move {
    dst: 2048,
    src: 7680,
    len: 4096,
};
/// A move of nearly the whole block, as making room for an item is.
const LARGE_MOVE: Move = Move {
    dst: 128,
    src: 0,
    len: NODE - 128,
};
/// Accesses in a batch, so that reading the clock does not count.
const BATCH: u32 = 64;

type Block = ExtentBuffer<NodeMemory>;

#[derive(Clone, Copy)]
struct Move {
    dst: usize,
    src: usize,
    len: usize,
}

/// On a block, with as many bytes beside it; false where it was refused.
type Access = fn(&mut Block, &mut [u8]) -> bool;

pub(crate) fn rows(effort: Effort) -> Vec<Outcome> {
    let mut rows = Vec::new();
    for (id, backing) in [("14", Backing::Contiguous), ("backings", Backing::Mapped)] {
        rows.extend(against_plain(id, backing, effort));
    }
    let accesses: [(&str, Option<f64>, Access); 5] = [
        ("move of 4 KiB", Some(1.0 / 1.5), |block, _| {
            move_inside(block, SMALL_MOVE)
        }),
        ("read of 16 KiB", None, |block, out| {
            block.read(0, black_box(out)).is_ok()
        }),
        ("write of 16 KiB", None, |block, bytes| {
            block.write(0, black_box(bytes)).is_ok()
        }),
        ("comparison of 16 KiB", None, |block, bytes| {
            block
                .compare(0, black_box(bytes))
                .is_ok_and(Ordering::is_eq)
        }),
        ("crc32c of 16 KiB", None, |block, _| csum(block)),
    ];
    let mut savings = Vec::new();
    for (what, guard, access) in accesses {
        let paired = scattered(access, effort);
        savings.push((what, paired.ours - paired.peer));
        let bar = guard.map_or(Bar::NONE, Bar::only_guard);
        rows.push(Row::of_times("backings", format!("{what}, scattered"), bar, paired).into());
    }
    print_getting(&savings, effort);
    rows
}

/// The operations on one slice.
fn against_plain(id: &'static str, backing: Backing, effort: Effort) -> Vec<Outcome> {
    let bar = match backing {
        Backing::Contiguous => Bar::goal(0.95).guard(1.0 / 1.1),
        _ => Bar::only_guard(1.0 / 1.1),
    };
    let rounds = effort.pairs();
    let name = |what: &str| format!("{what}, {}", backing.name());
    let memory = || Folio::copied(&content()).expect("memory for a block");
    let mut block = block(backing);
    let (mut plain, same) = (memory(), memory());
    let (mut out, mut other_out) = (memory(), memory());
    let mut rows: Vec<Outcome> = Vec::new();
    let mut row = |id, what: &str, paired| {
        rows.push(Row::of_times(id, name(what), bar, paired).into());
    };
    let read = pair(
        rounds,
        || time(|| block.read(0, black_box(&mut out)).is_ok()),
        "plain slice",
        || {
            time(|| {
                black_box(&mut *other_out).copy_from_slice(black_box(&plain));
                true
            })
        },
    );
    row(id, "read of 16 KiB", read);
    let write = pair(
        rounds,
        || time(|| block.write(0, black_box(&same)).is_ok()),
        "plain slice",
        || {
            time(|| {
                black_box(&mut *plain).copy_from_slice(black_box(&same));
                true
            })
        },
    );
    row(id, "write of 16 KiB", write);
    for (what, places) in [
        ("move of 4 KiB", SMALL_MOVE),
        ("move of nearly all", LARGE_MOVE),
    ] {
        let moved = pair(
            rounds,
            || time(|| move_inside(&mut block, places)),
            "plain slice",
            || {
                time(|| {
                    let Move { dst, src, len } = black_box(places);
                    black_box(&mut *plain).copy_within(src..src + len, dst);
                    true
                })
            },
        );
        row(id, what, moved);
    }
    // The moves changed both alike.
    let moved = Folio::copied(&plain).expect("memory for a block");
    let compared = pair(
        rounds,
        || {
            time(|| {
                block
                    .compare(0, black_box(&moved))
                    .is_ok_and(Ordering::is_eq)
            })
        },
        "plain slice",
        || time(|| black_box(&*plain).cmp(black_box(&moved[..])).is_eq()),
    );
    row(id, "comparison of 16 KiB", compared);
    let summed = pair(
        rounds,
        || time(|| csum(&mut block)),
        "bare crc-fast",
        || {
            time(|| {
                let bytes = &black_box(&*plain)[CSUM_BYTES..];
                let algorithm = crc_fast::CrcAlgorithm::Crc32Iscsi;
                black_box(crc_fast::checksum(algorithm, bytes)) != 1
            })
        },
    );
    let id = if id == "14" { "15" } else { id };
    row(id, "crc32c of 16 KiB", summed);
    rows
}

/// The same access to scattered pages, and to one piece of memory.
fn scattered(access: Access, effort: Effort) -> Paired {
    let mut scattered = block(Backing::Scattered);
    let mut contiguous = block(Backing::Contiguous);
    // Aligned alike: where source and destination of a copy begin in their
    // pages makes more of a difference than all else on some processors.
    let bytes = || Folio::copied(&content()).expect("memory for a block");
    let (mut bytes, mut other_bytes) = (bytes(), bytes());
    pair(
        effort.pairs(),
        || time(|| access(&mut scattered, &mut bytes)),
        "contiguous",
        || time(|| access(&mut contiguous, &mut other_bytes)),
    )
}

fn csum(block: &mut Block) -> bool {
    black_box(Algorithm::Crc32c.of(black_box(block))).is_ok()
}

fn move_inside(block: &mut Block, places: Move) -> bool {
    let Move { dst, src, len } = black_box(places);
    block
        .copy_within(dst as u64, src as u64, len as u64)
        .is_ok()
}

fn geometry() -> NodeGeometry {
    NodeGeometry::new(NODE, 4096).expect("sizes of blocks and pages")
}

fn content() -> Vec<u8> {
    (0..NODE).map(|at| at.to_le_bytes()[0] ^ 0x5a).collect()
}

fn block(backing: Backing) -> Block {
    let mut pool = NodePool::new(0);
    let memory = pool
        .get(geometry(), backing, Content::Zeroed)
        .expect("memory for a block");
    assert_eq!(memory.backing(), backing, "the machine has this backing");
    let mut block = ExtentBuffer::zeroed(0, memory);
    block.write(0, &content()).expect("the block's size");
    block
}

/// Nanoseconds of one access, none of which may be refused.
fn time(mut access: impl FnMut() -> bool) -> f64 {
    let mut all = true;
    let nanos = crate::paired::time(BATCH, || all &= access());
    assert!(all, "no access was refused");
    nanos
}

/// What it takes to get a buffer whose pages are all touched, and after how
/// many accesses a mapping has paid for itself, by what each saves.
fn print_getting(savings: &[(&str, f64)], effort: Effort) {
    println!(
        "\n{:46} {:>9} {:>9}",
        "getting 16 KiB in pages of 4 KiB", "new ns", "reused ns"
    );
    let [_, mapped, scattered] = Backing::ALL.map(|backing| {
        let cost = (get_ns(backing, 0, effort), get_ns(backing, NODE, effort));
        println!("{:46} {:>9.0} {:>9.0}", backing.name(), cost.0, cost.1);
        cost
    });
    println!(
        "\n{:46} {:>9} {:>9} {:>8}",
        "a mapping instead of scattered pages pays after", "new", "reused", "saves ns"
    );
    for (what, saving_ns) in savings {
        let after = |this: f64, other: f64| {
            if *saving_ns > 0.0 {
                format!("{:.0}", ((this - other).max(0.0) / saving_ns).ceil())
            } else {
                "never".to_owned()
            }
        };
        let (new, reused) = (after(mapped.0, scattered.0), after(mapped.1, scattered.1));
        println!("{what:46} {new:>9} {reused:>9} {saving_ns:>8.1}");
    }
}

/// Nanoseconds to get a buffer, touch each page and give it back, to a pool
/// that keeps so much.
fn get_ns(backing: Backing, kept_bytes_max: usize, effort: Effort) -> f64 {
    let mut pool = NodePool::new(kept_bytes_max);
    let samples = (0..effort.pairs()).map(|_| {
        time(|| {
            let Ok(mut memory) = pool.get(geometry(), backing, Content::Any) else {
                return false;
            };
            for page in 0..4 {
                if let Some(byte) = memory.chunk_mut(page * 4096).first_mut() {
                    *byte = 1;
                }
            }
            let as_wanted = memory.backing() == backing;
            pool.give_back(black_box(memory));
            as_wanted
        })
    });
    median(samples.collect())
}
