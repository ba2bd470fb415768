//! What the three backings cost: accesses to a block of 16 KiB against the
//! plain slice operation and against each other, and getting and mapping a
//! buffer against what each access then saves.
//!
//! Both sides of a row run in turn in one process; the ratio is the median of
//! the ratios of the pairs. A ratio past its limit fails the benchmark.
#![allow(
    missing_docs,
    reason = "a benchmark has no callers; the lint would ask for docs on its main function's crate"
)]

use std::cmp::Ordering;
use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use extentwise_checksum::Algorithm;
use extentwise_core::extent_buffer::{BlockMemory, CSUM_BYTES, ExtentBuffer};
use extentwise_memory::{Backing, Content, Folio, NodeGeometry, NodeMemory, NodePool};

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
const PAIRS: usize = 401;

type Block = ExtentBuffer<NodeMemory>;

#[derive(Clone, Copy)]
struct Move {
    dst: usize,
    src: usize,
    len: usize,
}

/// On a block, with as many bytes beside it; false where it was refused.
type Access = fn(&mut Block, &mut [u8]) -> bool;

fn main() -> ExitCode {
    let mut rows = Vec::new();
    for backing in [Backing::Contiguous, Backing::Mapped] {
        rows.extend(against_plain(backing));
    }
    let accesses: [(&str, Option<f64>, Access); 5] = [
        ("move of 4 KiB", Some(1.5), |block, _| {
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
    for (what, limit, access) in accesses {
        let row = Row::scattered(what, limit, access);
        savings.push((what, row.this_ns - row.other_ns));
        rows.push(row);
    }
    println!(
        "{:46} {:>9} {:>9} {:>8} {:>8}",
        "extent-buffer", "this ns", "other ns", "ratio", "limit"
    );
    rows.iter().for_each(Row::print);
    print_getting(&savings);
    ExitCode::from(u8::from(rows.iter().any(Row::is_over)))
}

/// The operations on one slice.
fn against_plain(backing: Backing) -> Vec<Row> {
    const LIMIT: f64 = 1.1;
    let name = |what: &str| format!("{what}, {} / plain slice", backing.name());
    let mut block = block(backing);
    let mut plain = Folio::copied(&content()).expect("memory for a block");
    let mut out = Folio::zeroed(NODE).expect("memory for a block");
    let mut other_out = Folio::zeroed(NODE).expect("memory for a block");
    let same = Folio::copied(&content()).expect("memory for a block");
    let mut rows = Vec::new();
    rows.push(Row::paired(
        name("read of 16 KiB"),
        Some(LIMIT),
        || time(|| block.read(0, black_box(&mut out)).is_ok()),
        || {
            time(|| {
                black_box(&mut *other_out).copy_from_slice(black_box(&plain));
                true
            })
        },
    ));
    rows.push(Row::paired(
        name("write of 16 KiB"),
        Some(LIMIT),
        || time(|| block.write(0, black_box(&same)).is_ok()),
        || {
            time(|| {
                black_box(&mut *plain).copy_from_slice(black_box(&same));
                true
            })
        },
    ));
    for (what, places) in [
        ("move of 4 KiB", SMALL_MOVE),
        ("move of nearly all", LARGE_MOVE),
    ] {
        rows.push(Row::paired(
            name(what),
            Some(LIMIT),
            || time(|| move_inside(&mut block, places)),
            || {
                time(|| {
                    let Move { dst, src, len } = black_box(places);
                    black_box(&mut *plain).copy_within(src..src + len, dst);
                    true
                })
            },
        ));
    }
    // The moves changed both alike.
    let moved = Folio::copied(&plain).expect("memory for a block");
    rows.push(Row::paired(
        name("comparison of 16 KiB"),
        Some(LIMIT),
        || {
            time(|| {
                block
                    .compare(0, black_box(&moved))
                    .is_ok_and(Ordering::is_eq)
            })
        },
        || time(|| black_box(&*plain).cmp(black_box(&moved[..])).is_eq()),
    ));
    rows.push(Row::paired(
        format!("crc32c of 16 KiB, {} / bare crate", backing.name()),
        Some(LIMIT),
        || time(|| csum(&mut block)),
        || {
            time(|| {
                let bytes = &black_box(&*plain)[CSUM_BYTES..];
                let algorithm = crc_fast::CrcAlgorithm::Crc32Iscsi;
                black_box(crc_fast::checksum(algorithm, bytes)) != 1
            })
        },
    ));
    rows
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

/// Nanoseconds of one access.
fn time(mut access: impl FnMut() -> bool) -> f64 {
    let start = Instant::now();
    let mut all = true;
    for _ in 0..BATCH {
        all &= access();
    }
    let elapsed = start.elapsed().as_secs_f64();
    assert!(all, "no access was refused");
    elapsed * 1e9 / f64::from(BATCH)
}

/// One comparison: medians of the times, and of the ratios pair by pair.
struct Row {
    name: String,
    limit: Option<f64>,
    this_ns: f64,
    other_ns: f64,
    ratio: f64,
}

impl Row {
    fn paired(
        name: String,
        limit: Option<f64>,
        mut this: impl FnMut() -> f64,
        mut other: impl FnMut() -> f64,
    ) -> Self {
        let pairs: Vec<(f64, f64)> = (0..PAIRS).map(|_| (this(), other())).collect();
        let median_of = |value: fn(&(f64, f64)) -> f64| median(pairs.iter().map(value).collect());
        Self {
            name,
            limit,
            this_ns: median_of(|pair| pair.0),
            other_ns: median_of(|pair| pair.1),
            ratio: median_of(|pair| pair.0 / pair.1),
        }
    }

    /// The same access to scattered pages, and to one piece of memory.
    fn scattered(what: &str, limit: Option<f64>, access: Access) -> Self {
        let mut scattered = block(Backing::Scattered);
        let mut contiguous = block(Backing::Contiguous);
        // Aligned alike: where source and destination of a copy begin in their
        // pages makes more of a difference than all else on some processors.
        let bytes = || Folio::copied(&content()).expect("memory for a block");
        let (mut bytes, mut other_bytes) = (bytes(), bytes());
        Self::paired(
            format!("{what}, scattered / contiguous"),
            limit,
            || time(|| access(&mut scattered, &mut bytes)),
            || time(|| access(&mut contiguous, &mut other_bytes)),
        )
    }

    fn is_over(&self) -> bool {
        self.limit.is_some_and(|limit| self.ratio > limit)
    }

    fn print(&self) {
        let limit = self
            .limit
            .map_or("-".to_owned(), |limit| format!("{limit:.2}"));
        println!(
            "{:46} {:>9.1} {:>9.1} {:>8.3} {limit:>8}{}",
            self.name,
            self.this_ns,
            self.other_ns,
            self.ratio,
            if self.is_over() { "  OVER" } else { "" }
        );
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// What it takes to get a buffer whose pages are all touched, and after how
/// many accesses a mapping has paid for itself, by what each saves.
fn print_getting(savings: &[(&str, f64)]) {
    println!(
        "\n{:46} {:>9} {:>9}",
        "getting 16 KiB in pages of 4 KiB", "new ns", "reused ns"
    );
    let [_, mapped, scattered] = Backing::ALL.map(|backing| {
        let cost = (get_ns(backing, 0), get_ns(backing, NODE));
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
fn get_ns(backing: Backing, kept_bytes_max: usize) -> f64 {
    let mut pool = NodePool::new(kept_bytes_max);
    let samples = (0..PAIRS).map(|_| {
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
