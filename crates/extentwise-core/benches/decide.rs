//! What deciding costs: the pass over a folio extent by extent against the
//! same pass stepped block by block, and the walk of a small cached overwrite
//! on a large folio against a small one.
//!
//! Both sides of a row run in turn in one process; the ratio is the median of
//! the ratios of the pairs. A ratio past its limit fails the benchmark.
#![allow(
    missing_docs,
    reason = "a benchmark has no callers; the lint would ask for docs on its main function's crate"
)]

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use extentwise_core::bitmap::BlockBitmap;
use extentwise_core::folio::FolioState;
use extentwise_core::geometry::{
    BlockRange, BlockSize, DiskByte, FileOffset, FileRange, FolioGeometry, LenBytes,
};
use extentwise_core::ordered::{FinishObserver, NewOrdered, OrderedTable, TreeStore};
use extentwise_core::write::{Ask, BufferedWrite, MappingFlags, MappingState, WriteContext};
use extentwise_core::writeback::{
    Bio, BioAssembler, BioLimits, Piece, Segment, Stride, Submit, WritebackPass, run,
};

const B: u64 = 4096;
/// Blocks of a 2 MiB folio.
const BLOCKS: usize = 512;
/// Folios in a batch, so that reading the clock does not count.
const BATCH: u32 = 64;
const PAIRS: usize = 301;

type Words = [u64; BLOCKS / 64];
type Folio = FolioState<Words>;
type Segments = heapless::Vec<Segment, 1>;

fn main() -> ExitCode {
    let rows = [
        Row::of_pass("2 MiB all dirty, one extent", 1.0 / 50.0, |_| true, BLOCKS),
        Row::of_pass(
            "alternating dirty, one extent",
            1.0,
            |block| block % 2 == 0,
            BLOCKS,
        ),
        Row::of_pass("2 MiB all dirty, one extent a block", 1.0, |_| true, 1),
        Row::of_walk("1 KiB overwrite, 2 MiB / 4 KiB folio", 1.5),
    ];
    println!(
        "{:38} {:>9} {:>9} {:>8} {:>8}",
        "decide", "this ns", "other ns", "ratio", "limit"
    );
    let mut failed = false;
    for row in &rows {
        failed |= row.ratio > row.limit;
        println!(
            "{:38} {:>9.1} {:>9.1} {:>8.4} {:>8.4}{}",
            row.name,
            row.this_ns,
            row.other_ns,
            row.ratio,
            row.limit,
            if row.ratio > row.limit { "  OVER" } else { "" }
        );
    }
    if failed {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// One comparison: medians of the times, and of the ratios pair by pair.
struct Row {
    name: &'static str,
    limit: f64,
    this_ns: f64,
    other_ns: f64,
    ratio: f64,
}

impl Row {
    fn paired(
        name: &'static str,
        limit: f64,
        mut this: impl FnMut() -> f64,
        mut other: impl FnMut() -> f64,
    ) -> Self {
        let pairs: Vec<(f64, f64)> = (0..PAIRS).map(|_| (this(), other())).collect();
        let median_of = |value: fn(&(f64, f64)) -> f64| {
            let mut values: Vec<f64> = pairs.iter().map(value).collect();
            values.sort_by(f64::total_cmp);
            values[PAIRS / 2]
        };
        Self {
            name,
            limit,
            this_ns: median_of(|pair| pair.0),
            other_ns: median_of(|pair| pair.1),
            ratio: median_of(|pair| pair.0 / pair.1),
        }
    }

    /// Extent by extent against block by block: these blocks are dirty, and
    /// extents are so many blocks long.
    fn of_pass(
        name: &'static str,
        limit: f64,
        dirty: fn(usize) -> bool,
        extent_blocks: usize,
    ) -> Self {
        let folio = dirty_folio(dirty);
        let mut table = table_of(extent_blocks);
        let mut other_table = table_of(extent_blocks);
        Self::paired(
            name,
            limit,
            || time_passes(&folio, &mut table, Stride::Extent),
            || time_passes(&folio, &mut other_table, Stride::Block),
        )
    }

    /// The same small write into an uptodate folio of 512 blocks, and of one.
    fn of_walk(name: &'static str, limit: f64) -> Self {
        Self::paired(name, limit, || time_walks(BLOCKS), || time_walks(1))
    }
}

fn geometry(blocks: usize) -> FolioGeometry {
    let block_size = BlockSize::new(B).expect("a power of two in bounds");
    let size = LenBytes::new(blocks as u64 * B);
    FolioGeometry::new(FileOffset::ZERO, size, block_size).expect("a folio at 0")
}

fn dirty_folio(dirty: fn(usize) -> bool) -> Folio {
    let mut folio = Folio::empty(geometry(BLOCKS)).expect("the words fit");
    let all = folio.geometry().all();
    let mut bits = BlockBitmap::<Words>::empty(BLOCKS).expect("the words fit");
    bits.set(all);
    for block in (0..BLOCKS).filter(|block| dirty(*block)) {
        let index = extentwise_core::geometry::BlockIndex::new(block);
        folio.mark_dirty(BlockRange::one(index));
    }
    folio
}

/// Extents that touch in the file and leave a gap on the device.
fn table_of(extent_blocks: usize) -> OrderedTable<TreeStore> {
    let mut table = OrderedTable::new(BlockSize::new(B).expect("a power of two in bounds"));
    let len = extent_blocks as u64 * B;
    for start in (0..BLOCKS as u64 * B).step_by(extent_blocks * 4096) {
        let spec = NewOrdered::plain(
            FileOffset::new(start),
            LenBytes::new(len),
            DiskByte::new(start * 2),
        );
        table.insert(spec).expect("extents do not overlap");
    }
    table
}

/// A device that takes everything and looks at it.
#[derive(Default)]
struct Sink(u64);

impl FinishObserver for Sink {}

impl Submit<Segments> for Sink {
    type Error = ();

    fn zero(&mut self, range: FileRange) {
        self.0 ^= range.len().get();
    }
    fn queue(&mut self, piece: &Piece) -> Result<(), ()> {
        self.0 ^= piece.disk.get();
        Ok(())
    }
    fn send(&mut self, bio: Bio<Segments>) {
        self.0 ^= bio.len().get();
    }
}

/// Nanoseconds of one pass, setting up apart.
fn time_passes(folio: &Folio, table: &mut OrderedTable<TreeStore>, stride: Stride) -> f64 {
    let mut folios = vec![folio.clone(); BATCH as usize];
    let submit = *folio.dirty();
    let range = folio.geometry().range();
    let mut bios = BioAssembler::<Segments>::new(BioLimits::UNLIMITED);
    let mut sink = Sink::default();
    let start = Instant::now();
    for folio in &mut folios {
        let pass = WritebackPass::begin(folio, submit, range, FileOffset::MAX, stride)
            .expect("the submit bitmap is the dirty one");
        let report = run(pass, folio, table, &mut bios, &mut sink);
        black_box(report.counts);
        if let Some(bio) = bios.take() {
            sink.send(bio);
        }
    }
    let elapsed = start.elapsed().as_secs_f64();
    black_box((sink.0, &folios));
    elapsed * 1e9 / f64::from(BATCH)
}

/// Nanoseconds to prepare and commit one write of 1 KiB.
fn time_walks(blocks: usize) -> f64 {
    const WRITES: u32 = 256;
    let geometry = geometry(blocks);
    let mut folio = Folio::empty(geometry).expect("the words fit");
    let mut maps = MappingState::<Words>::empty(geometry).expect("the words fit");
    folio.mark_folio_uptodate();
    maps.replace(geometry.all(), MappingFlags::MAPPED);
    let last = geometry.size().get() - B;
    let write_at = FileOffset::new(last + 1024);
    let range = FileRange::at(write_at, LenBytes::new(1024)).expect("inside the folio");
    let start = Instant::now();
    for _ in 0..WRITES {
        let mut write = BufferedWrite::<()>::begin(&folio, black_box(range)).expect("it fits");
        let mut cx = WriteContext {
            folio: &mut folio,
            maps: &mut maps,
        };
        loop {
            match write.step(&mut cx) {
                Ask::Copy => write.commit(LenBytes::new(1024), &mut cx),
                Ask::Committed(len) => {
                    black_box(len);
                    break;
                }
                _ => {}
            }
        }
    }
    start.elapsed().as_secs_f64() * 1e9 / f64::from(WRITES)
}
