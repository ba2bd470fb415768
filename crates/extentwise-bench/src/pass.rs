//! Passes over folios, ready to be timed.

use std::hint::black_box;
use std::time::Instant;

use extentwise_core::bitmap::words_for;
use extentwise_core::folio::FolioState;
use extentwise_core::geometry::{
    BlockIndex, BlockRange, BlockSize, DiskByte, FileOffset, FileRange, FolioGeometry, LenBytes,
};
use extentwise_core::ordered::{FinishObserver, NewOrdered, OrderedTable, TreeStore};
use extentwise_core::writeback::{
    Bio, BioAssembler, BioLimits, Piece, Segment, Stride, Submit, WritebackPass, run,
};

use crate::bits::Shape;

pub(crate) const BLOCK: u64 = 4096;
/// Blocks of a folio of 2 MiB.
pub(crate) const BLOCKS: usize = 512;
/// Blocks of the largest folio here, 16 MiB.
const BLOCKS_MAX: usize = 4096;

type Segments = heapless::Vec<Segment, 1>;

/// A folio, the extents of its file, and room for many passes.
#[derive(Debug)]
pub(crate) struct Passes<W> {
    dirty: FolioState<W>,
    table: OrderedTable<TreeStore>,
    bios: BioAssembler<Segments>,
    sink: Sink,
}

impl Passes<[u64; 3 * BLOCKS / 64]> {
    /// A folio of 2 MiB of which these blocks are dirty; extents are so many
    /// blocks long.
    pub(crate) fn new(dirty: Shape, extent_blocks: usize) -> Self {
        let folio = FolioState::empty(geometry(BLOCKS)).expect("the words fit");
        Self::of(folio, dirty, extent_blocks)
    }
}

impl Passes<Vec<u64>> {
    /// A folio of any size up to 16 MiB.
    pub(crate) fn sized(blocks: usize, dirty: Shape) -> Self {
        let words = vec![0; 3 * words_for(blocks)];
        let folio = FolioState::new(geometry(blocks), words);
        Self::of(folio.expect("the words fit"), dirty, BLOCKS_MAX)
    }
}

impl<W: AsRef<[u64]> + AsMut<[u64]> + Clone> Passes<W> {
    fn of(mut folio: FolioState<W>, dirty: Shape, extent_blocks: usize) -> Self {
        let blocks = folio.geometry().blocks();
        for (block, dirty) in dirty.blocks(blocks).into_iter().enumerate() {
            if dirty {
                folio.mark_dirty(BlockRange::one(BlockIndex::new(block)));
            }
        }
        Self {
            dirty: folio,
            table: table_of(blocks.max(extent_blocks), extent_blocks),
            bios: BioAssembler::new(BioLimits::UNLIMITED),
            sink: Sink::default(),
        }
    }

    /// Nanoseconds of one pass, over so many; setting up apart.
    pub(crate) fn time(&mut self, stride: Stride, passes: usize) -> f64 {
        let mut folios = vec![self.dirty.clone(); passes];
        let start = Instant::now();
        for folio in &mut folios {
            self.pass(folio, stride);
        }
        let elapsed = start.elapsed().as_secs_f64();
        black_box((self.sink.0, &folios));
        elapsed * 1e9 / passes as f64
    }

    /// Passes over copies of the folio, so many.
    pub(crate) fn repeat(&mut self, stride: Stride, passes: u32) {
        for _ in 0..passes {
            let mut folio = self.dirty.clone();
            self.pass(&mut folio, stride);
            black_box(&folio);
        }
    }

    #[inline(never)]
    fn pass(&mut self, folio: &mut FolioState<W>, stride: Stride) {
        let range = folio.geometry().range();
        let submit = self.dirty.dirty();
        let pass = WritebackPass::begin(folio, submit, range, FileOffset::MAX, stride)
            .expect("the submit bitmap is the dirty one");
        let report = run(pass, folio, &mut self.table, &mut self.bios, &mut self.sink);
        black_box(report.counts);
        if let Some(bio) = self.bios.take() {
            self.sink.send(bio);
        }
    }
}

/// Nanoseconds of one step of a chain of shifts that each need the one before: the
/// speed of the machine at this moment, and of nothing else.
pub(crate) fn clock_step_ns() -> f64 {
    const STEPS: u32 = 20_000;
    let start = Instant::now();
    let mut state = black_box(1_u64);
    for _ in 0..STEPS {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    black_box(state);
    start.elapsed().as_secs_f64() * 1e9 / f64::from(STEPS)
}

pub(crate) fn geometry(blocks: usize) -> FolioGeometry {
    let size = LenBytes::new(blocks as u64 * BLOCK);
    FolioGeometry::new(FileOffset::ZERO, size, block_size()).expect("a folio at 0")
}

pub(crate) fn block_size() -> BlockSize {
    BlockSize::new(BLOCK).expect("a power of two in bounds")
}

/// Extents that touch in the file and leave a gap on the device.
fn table_of(blocks: usize, extent_blocks: usize) -> OrderedTable<TreeStore> {
    let mut table = OrderedTable::new(block_size());
    let len = extent_blocks as u64 * BLOCK;
    for start in (0..blocks / extent_blocks).map(|nth| nth as u64 * len) {
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
#[derive(Debug, Default)]
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
