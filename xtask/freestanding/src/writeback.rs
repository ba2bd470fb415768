//! Three folios are written back over three ordered extents.
//!
//! ```text
//! block    0   1   2   3 | 4   5   6   7 | 8   9   10  11
//! extent   A   A   A   A | A   -   B   B | C   C   C   C
//! end of the file                              ^
//! ```
//! B is refused by the device, block 5 has no extent, blocks 10 and 11 lie past the end.

use core::hint::black_box;

use extentwise_core::folio::FolioState;
use extentwise_core::geometry::{
    BlockSize, DiskByte, FileOffset, FileRange, FolioGeometry, LenBytes,
};
use extentwise_core::ordered::{
    FinishObserver, FixedStore, NewOrdered, OrderedExtent, OrderedTable, Outcome, Record,
};
use extentwise_core::writeback::{
    self, Bio, BioAssembler, BioLimits, PassError, PassReport, Piece, Segment, Stride, Submit,
    WritebackPass,
};

use crate::Fault;

const BLOCK: u64 = 4096;
const FOLIO: u64 = 4 * BLOCK;
const I_SIZE: u64 = 9 * BLOCK + 100;
/// Of A, B and C, from their first block on.
const EXTENTS: [(u64, u64, u64); 3] = [
    (0, 5 * BLOCK, 1 << 20),
    (6 * BLOCK, 2 * BLOCK, 2 << 20),
    (8 * BLOCK, 4 * BLOCK, 3 << 20),
];

type Segments = heapless::Vec<Segment, 4>;
type Folio = FolioState<[u64; 3]>;
type Table = OrderedTable<FixedStore<3>>;

/// A device that remembers what it was asked for.
pub(crate) struct Device {
    refused_piece: Option<usize>,
    pieces: usize,
    bios: heapless::Vec<Bio<Segments>, 4>,
    zeroed: heapless::Vec<FileRange, 4>,
    double_finishes: usize,
    /// Bios and ranges that its memory had no room for.
    forgotten: usize,
}

/// The device refused a piece.
pub(crate) struct Refused;

impl Device {
    pub(crate) const fn that_takes_all() -> Self {
        Self {
            refused_piece: None,
            pieces: 0,
            bios: heapless::Vec::new(),
            zeroed: heapless::Vec::new(),
            double_finishes: 0,
            forgotten: 0,
        }
    }

    /// Refuses the piece of this number, from 0.
    pub(crate) const fn that_refuses(piece: usize) -> Self {
        let mut device = Self::that_takes_all();
        device.refused_piece = Some(piece);
        device
    }
}

impl FinishObserver for Device {
    fn completed(&mut self, _: &OrderedExtent) {}

    fn double_finish(&mut self, _: FileRange) {
        self.double_finishes += 1;
    }
}

impl Submit<Segments> for Device {
    type Error = Refused;

    fn zero(&mut self, range: FileRange) {
        if self.zeroed.push(range).is_err() {
            self.forgotten += 1;
        }
    }

    fn queue(&mut self, _: &Piece) -> Result<(), Refused> {
        let piece = self.pieces;
        self.pieces += 1;
        if self.refused_piece == Some(piece) {
            return Err(Refused);
        }
        Ok(())
    }

    fn send(&mut self, bio: Bio<Segments>) {
        if self.bios.push(bio).is_err() {
            self.forgotten += 1;
        }
    }
}

pub(crate) fn run(mut device: Device) -> Result<(), Fault> {
    let block_size = BlockSize::new(BLOCK).map_err(|_| Fault::Setup)?;
    let mut folios = [
        dirty_folio(0, block_size)?,
        dirty_folio(FOLIO, block_size)?,
        dirty_folio(2 * FOLIO, block_size)?,
    ];
    let mut table = Table::new(block_size);
    for (file, len, disk) in EXTENTS {
        let (file, len) = (FileOffset::new(file), LenBytes::new(len));
        let extent = NewOrdered::plain(file, len, DiskByte::new(disk));
        table.insert(extent).map_err(|_| Fault::Setup)?;
    }

    let mut bios = BioAssembler::new(BioLimits::UNLIMITED);
    let first = pass(&mut folios[0], &mut table, &mut bios, &mut device)?;
    let second = pass(&mut folios[1], &mut table, &mut bios, &mut device)?;
    let third = pass(&mut folios[2], &mut table, &mut bios, &mut device)?;
    if let Some(bio) = bios.take() {
        device.send(bio);
    }

    check_reports(&first, &second, &third)?;
    check_bios(&device)?;
    complete(&mut device, &mut table, &mut folios);
    Fault::DoubleFinish.unless(device.double_finishes == 0)?;
    let idle = |folio: &Folio| !folio.is_dirty() && !folio.is_in_writeback();
    Fault::FolioState.unless(folios.iter().all(idle))?;
    check_extents(&mut table)
}

fn dirty_folio(pos: u64, block_size: BlockSize) -> Result<Folio, Fault> {
    let (pos, size) = (FileOffset::new(pos), LenBytes::new(FOLIO));
    let geometry = FolioGeometry::new(pos, size, block_size).map_err(|_| Fault::Setup)?;
    let mut folio = Folio::empty(geometry).map_err(|_| Fault::Setup)?;
    folio.mark_dirty(geometry.all());
    Ok(folio)
}

fn pass(
    folio: &mut Folio,
    table: &mut Table,
    bios: &mut BioAssembler<Segments>,
    device: &mut Device,
) -> Result<PassReport<Refused>, Fault> {
    let submit = folio.dirty().copied_to([0; 1]).map_err(|_| Fault::Setup)?;
    let range = folio.geometry().range();
    // Hidden from the optimiser, or it might decide the scenario at compile time.
    let i_size = FileOffset::new(black_box(I_SIZE));
    let pass = WritebackPass::begin(folio, submit, range, i_size, Stride::Extent)
        .map_err(|_| Fault::Setup)?;
    Ok(writeback::run(pass, folio, table, bios, device))
}

/// Submitted, refused, past the end and missing, in blocks.
fn blocks(report: &PassReport<Refused>) -> [u64; 4] {
    let counts = report.counts;
    [
        counts.submitted,
        counts.refused,
        counts.beyond_eof,
        counts.missing,
    ]
    .map(|len| len.get() / BLOCK)
}

fn check_reports(
    first: &PassReport<Refused>,
    second: &PassReport<Refused>,
    third: &PassReport<Refused>,
) -> Result<(), Fault> {
    Fault::RefusedBytes.unless(second.counts.refused.get() == 2 * BLOCK)?;
    Fault::Counts.unless(blocks(first) == [4, 0, 0, 0])?;
    Fault::Counts.unless(blocks(second) == [1, 2, 0, 1])?;
    Fault::Counts.unless(blocks(third) == [2, 0, 2, 0])?;
    let gap = FileOffset::new(5 * BLOCK);
    Fault::FirstError.unless(matches!(
        second.error,
        Some(PassError::MissingOrdered { file_offset }) if file_offset == gap
    ))?;
    Fault::FirstError.unless(first.error.is_none() && third.error.is_none())
}

/// A bio of A over the border of two folios, sent before the gap, and one of C.
fn check_bios(device: &Device) -> Result<(), Fault> {
    let numbers = |bio: &Bio<Segments>| {
        let (disk, len, valid) = (bio.disk_bytenr(), bio.len(), bio.valid_len());
        (disk.get(), len.get(), valid.get(), bio.segments().len())
    };
    let whole = (1 << 20, 5 * BLOCK, 5 * BLOCK, 2);
    let last = (3 << 20, 2 * BLOCK, BLOCK + 100, 1);
    Fault::Bios.unless(device.forgotten == 0)?;
    Fault::Bios.unless(device.bios.iter().map(numbers).eq([whole, last]))?;

    let tail = FileRange::new(FileOffset::new(I_SIZE), FileOffset::new(10 * BLOCK));
    Fault::Zeroing.unless(device.zeroed.iter().copied().eq(tail))
}

fn complete(device: &mut Device, table: &mut Table, folios: &mut [Folio]) {
    for bio in core::mem::take(&mut device.bios) {
        let result = Ok::<(), Refused>(());
        let _ = writeback::complete_bio(&bio, &result, table, device);
        for segment in bio.segments() {
            for folio in &mut *folios {
                let _ = folio.end_writeback_bytes(segment.range());
            }
        }
    }
}

fn check_extents(table: &mut Table) -> Result<(), Fault> {
    let insert = |file: u64, len: u64, disk: u64| {
        let file = FileRange::at(FileOffset::new(file), LenBytes::new(len)).unwrap_or_default();
        let disk = DiskByte::new(disk);
        let record = Record::Insert { file, disk };
        Outcome {
            record,
            release: None,
        }
    };
    let released = Outcome {
        record: Record::Nothing,
        release: Some((DiskByte::new(2 << 20), LenBytes::new(2 * BLOCK))),
    };
    let expected = [
        insert(0, 5 * BLOCK, 1 << 20),
        released,
        insert(8 * BLOCK, 2 * BLOCK, 3 << 20),
    ];

    let i_size = FileOffset::new(I_SIZE);
    let mut recorded = FileOffset::ZERO;
    for ((file, _, _), expected) in EXTENTS.into_iter().zip(expected) {
        let at = FileOffset::new(file);
        let id = table.lookup(at).ok_or(Fault::Outcome)?.id();
        let extent = table.remove(id, at).ok_or(Fault::Outcome)?;
        Fault::Outcome.unless(extent.outcome() == Some(expected))?;
        recorded = extent.recorded_size(recorded, i_size);
    }
    Fault::Outcome.unless(table.is_empty())?;
    Fault::RecordedSize.unless(recorded == i_size)
}
