//! The pass, its bios and delayed allocation, without a heap. This file holds
//! what the tests share: a folio of 16 blocks, a table, a device.

mod allocate;
mod bios;
mod pass;
mod published;

use super::*;
use crate::bitmap::BlockBitmap;
use crate::folio::{FolioState, WritebackEnd};
use crate::geometry::{
    BlockIndex, BlockRange, BlockSize, DiskByte, FileOffset, FileRange, FolioGeometry, LenBytes,
};
use crate::ordered::{
    FinishObserver, FixedStore, InsertError, IoOutcome, NewOrdered, OrderedExtent, OrderedFlags,
    OrderedTable, Truncated,
};
use core::num::NonZeroUsize;

const B: u64 = 4096;

type Folio = FolioState<[u64; 3]>;
type Table = OrderedTable<FixedStore<8>>;
type Segments = heapless::Vec<Segment, 8>;
type Bios = BioAssembler<Segments>;

fn bytes(start: u64, end: u64) -> FileRange {
    FileRange::new(FileOffset::new(start * B), FileOffset::new(end * B)).unwrap()
}

fn run_of(start: usize, end: usize) -> BlockRange {
    BlockRange::clamped(start, end)
}

fn block_size() -> BlockSize {
    BlockSize::new(B).unwrap()
}

/// A folio of 16 blocks at block `pos`, with these blocks of it dirty.
fn folio_at(pos: u64, dirty: &[(usize, usize)]) -> Folio {
    let pos = FileOffset::new(pos * B);
    let geometry = FolioGeometry::new(pos, LenBytes::new(16 * B), block_size()).unwrap();
    let mut folio = Folio::empty(geometry).unwrap();
    for (start, end) in dirty {
        folio.mark_dirty(run_of(*start, *end));
    }
    folio
}

/// Extents of these blocks; block `b` of the file lies at disk block `100 b`, so
/// that extents adjacent in the file are not on the device.
fn table_of(extents: &[(u64, u64)]) -> Table {
    let mut table = Table::new(block_size());
    for (start, end) in extents {
        let len = LenBytes::new((end - start) * B);
        let disk = DiskByte::new(start * 100 * B);
        let spec = NewOrdered::plain(FileOffset::new(start * B), len, disk);
        table.insert(spec).unwrap();
    }
    table
}

fn no_limits() -> Bios {
    Bios::new(BioLimits::UNLIMITED)
}

/// Refuses the piece of one ordinal, keeps everything else.
#[derive(Debug, Default, PartialEq)]
struct Device {
    refuse: Option<usize>,
    queued: heapless::Vec<(u64, u64), 16>,
    zeroed: Option<FileRange>,
    sent: heapless::Vec<Bio<Segments>, 16>,
    missing: heapless::Vec<(u64, u64), 16>,
    beyond: heapless::Vec<(u64, u64), 16>,
    doubles: u64,
    completed: usize,
}

fn in_blocks(range: FileRange) -> (u64, u64) {
    (range.start().get() / B, range.end().get() / B)
}

impl FinishObserver for Device {
    fn completed(&mut self, _: &OrderedExtent) {
        self.completed += 1;
    }
    fn double_finish(&mut self, range: FileRange) {
        self.doubles += range.len().get() / B;
    }
}

impl Submit<Segments> for Device {
    type Error = &'static str;

    fn zero(&mut self, range: FileRange) {
        self.zeroed = Some(range);
    }
    fn queue(&mut self, piece: &Piece) -> Result<(), &'static str> {
        self.queued.push(in_blocks(piece.range)).unwrap();
        if self.refuse == Some(self.queued.len() - 1) {
            return Err("no room in the queue");
        }
        Ok(())
    }
    fn send(&mut self, bio: Bio<Segments>) {
        self.sent.push(bio).unwrap();
    }
    fn beyond_eof(&mut self, range: FileRange) {
        self.beyond.push(in_blocks(range)).unwrap();
    }
    fn missing_ordered(&mut self, range: FileRange) {
        self.missing.push(in_blocks(range)).unwrap();
    }
}

fn begin(folio: &mut Folio, i_size: u64, stride: Stride) -> WritebackPass<[u64; 1], &'static str> {
    let submit = folio.dirty().copied_to([0; 1]).unwrap();
    let range = folio.geometry().range();
    WritebackPass::begin(folio, submit, range, FileOffset::new(i_size), stride).unwrap()
}

fn pass(
    folio: &mut Folio,
    table: &mut Table,
    bios: &mut Bios,
    device: &mut Device,
    i_size: u64,
) -> PassReport<&'static str> {
    let pass = begin(folio, i_size, Stride::Extent);
    run(pass, folio, table, bios, device)
}

fn complete(device: &mut Device, folio: &mut Folio, table: &mut Table) -> usize {
    let sent = core::mem::take(&mut device.sent);
    let mut ended = 0;
    for bio in &sent {
        complete_bio(bio, &Ok::<(), ()>(()), table, device);
        for segment in bio.segments() {
            let end = folio.end_writeback_bytes(segment.range());
            ended += usize::from(end == WritebackEnd::Ended);
        }
    }
    ended
}
