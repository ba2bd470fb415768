//! The pass, its bios and delayed allocation, without a heap.

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

type Folio = FolioState<[u64; 1]>;
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
    let submit = *folio.dirty();
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

#[test]
fn w6_a_run_is_cut_at_extents_and_each_piece_is_counted() {
    let mut folio = folio_at(0, &[(0, 8)]);
    let mut table = table_of(&[(0, 3), (3, 16)]);
    let (mut bios, mut device) = (no_limits(), Device::default());
    let report = pass(&mut folio, &mut table, &mut bios, &mut device, 16 * B);
    assert_eq!(device.queued, [(0, 3), (3, 8)]);
    assert_eq!(report.counts.submitted.get(), 8 * B);
    assert_eq!(report.counts.total().get(), 8 * B);
    assert_eq!((report.error, report.folio_dirty), (None, false));
    device.sent.extend(bios.take());
    assert_eq!(device.sent.len(), 2);
    assert!(folio.is_in_writeback());
    assert_eq!(complete(&mut device, &mut folio, &mut table), 1);
    assert!(!folio.is_in_writeback());
    assert_eq!(device.completed, 1);
}

#[test]
fn w4_w5_a_run_is_split_at_eof_and_its_tail_truncates_every_extent() {
    let mut folio = folio_at(0, &[(0, 16)]);
    let mut table = table_of(&[(0, 6), (6, 8), (10, 12)]);
    let (mut bios, mut device) = (no_limits(), Device::default());
    let report = pass(&mut folio, &mut table, &mut bios, &mut device, 4 * B - 100);
    assert_eq!(device.queued, [(0, 4)]);
    assert_eq!(device.beyond, [(4, 16)]);
    let zeroed = device.zeroed.unwrap();
    assert_eq!(
        (zeroed.start().get(), zeroed.end().get()),
        (4 * B - 100, 4 * B)
    );
    assert_eq!(report.counts.beyond_eof.get(), 12 * B);
    assert!(!folio.is_dirty());
    let kept = |block: u64| {
        let extent = table.lookup(FileOffset::new(block * B)).unwrap();
        (
            extent.truncated_len().get() / B,
            extent.bytes_left().get() / B,
        )
    };
    assert_eq!((kept(0), kept(6), kept(10)), ((4, 4), (0, 0), (0, 0)));
    let bio = bios.take().unwrap();
    assert_eq!(
        (bio.len().get(), bio.valid_len().get()),
        (4 * B, 4 * B - 100)
    );
}

#[test]
fn w10_a_pass_wholly_past_eof_leaves_the_folio_clean() {
    let mut folio = folio_at(16, &[(0, 16)]);
    let mut table = table_of(&[(16, 32)]);
    let (mut bios, mut device) = (no_limits(), Device::default());
    let report = pass(&mut folio, &mut table, &mut bios, &mut device, 16 * B);
    assert!(!report.folio_dirty);
    assert_eq!(report.writeback, WritebackEnd::NotNow);
    assert!(bios.take().is_none() && device.queued.is_empty());
    assert_eq!(device.completed, 1);
}

#[test]
fn w8_a_refusal_fails_its_piece_and_spares_its_neighbours() {
    let mut folio = folio_at(0, &[(0, 2), (4, 6), (8, 10)]);
    let mut table = table_of(&[(0, 2), (4, 6), (8, 10)]);
    let mut bios = no_limits();
    let mut device = Device {
        refuse: Some(1),
        ..Device::default()
    };
    let report = pass(&mut folio, &mut table, &mut bios, &mut device, 16 * B);
    let file_offset = FileOffset::new(4 * B);
    let error = "no room in the queue";
    assert_eq!(
        report.error,
        Some(PassError::Refused { file_offset, error })
    );
    assert_eq!(report.counts.refused.get(), 2 * B);
    assert_eq!(report.counts.submitted.get(), 4 * B);
    assert!(!folio.is_dirty());
    assert_eq!(folio.writeback().count_in(run_of(0, 16)), 4);
    let refused = table.lookup(file_offset).unwrap();
    assert!(
        refused
            .flags()
            .contains(OrderedFlags::IO_DONE | OrderedFlags::IO_ERROR)
    );
    device.sent.extend(bios.take());
    assert_eq!(complete(&mut device, &mut folio, &mut table), 1);
    let good = table.lookup(FileOffset::ZERO).unwrap();
    assert!(!good.flags().contains(OrderedFlags::IO_ERROR));
}

#[test]
fn w9_the_first_error_is_kept() {
    let mut folio = folio_at(0, &[(0, 2), (4, 6)]);
    let mut table = table_of(&[(4, 6)]);
    let mut bios = no_limits();
    let mut device = Device {
        refuse: Some(0),
        ..Device::default()
    };
    let report = pass(&mut folio, &mut table, &mut bios, &mut device, 16 * B);
    let file_offset = FileOffset::ZERO;
    assert_eq!(
        report.error,
        Some(PassError::MissingOrdered { file_offset })
    );
    assert_eq!(report.counts.total().get(), 4 * B);
    assert_eq!(report.writeback, WritebackEnd::Ended);
}

#[test]
fn w11_a_bio_completed_between_steps_ends_writeback_once() {
    let mut folio = folio_at(0, &[(0, 2), (4, 6)]);
    let mut table = table_of(&[(0, 16)]);
    let mut bios = no_limits();
    let mut steps = begin(&mut folio, 16 * B, Stride::Extent);
    let mut ended = 0;
    loop {
        let mut cx = PassContext {
            folio: &mut folio,
            table: &mut table,
            bios: &mut bios,
            observer: &mut (),
        };
        match steps.step(&mut cx) {
            Step::Send(bio) => {
                complete_bio(&bio, &Ok::<(), ()>(()), &mut table, &mut ());
                let end = folio.end_writeback_bytes(bio.file_range());
                assert_eq!(end, WritebackEnd::NotNow);
            }
            Step::Done(report) => {
                ended += usize::from(report.writeback == WritebackEnd::Ended);
                break;
            }
            _ => {}
        }
    }
    let last = bios.take().unwrap();
    let end = folio.end_writeback_bytes(last.file_range());
    ended += usize::from(end == WritebackEnd::Ended);
    assert_eq!(ended, 1);
}

#[test]
fn w1_only_submitted_blocks_in_range_change() {
    let mut folio = folio_at(0, &[(0, 12)]);
    let mut table = table_of(&[(0, 16)]);
    let (mut bios, mut device) = (no_limits(), Device::default());
    let mut submit = BlockBitmap::<[u64; 1]>::empty(16).unwrap();
    submit.set(run_of(0, 8));
    let size = FileOffset::new(16 * B);
    let steps =
        WritebackPass::begin(&mut folio, submit, bytes(4, 10), size, Stride::Extent).unwrap();
    let report = run(steps, &mut folio, &mut table, &mut bios, &mut device);
    assert_eq!(device.queued, [(4, 8)]);
    assert!(report.folio_dirty);
    let mut dirty = folio.dirty().runs(run_of(0, 16));
    assert_eq!(dirty.next(), Some(run_of(0, 4)));
    assert_eq!(dirty.next(), Some(run_of(8, 12)));
}

#[test]
fn w1_input_that_breaks_a_rule_is_refused_and_holds_nothing() {
    let mut folio = folio_at(0, &[(0, 2)]);
    let size = FileOffset::new(16 * B);
    let whole = folio.geometry().range();
    let mut begin = |submit: BlockBitmap<[u64; 1]>, range| {
        WritebackPass::<_, ()>::begin(&mut folio, submit, range, size, Stride::Extent).err()
    };
    let small = BlockBitmap::empty(8).unwrap();
    assert_eq!(
        begin(small, whole),
        Some(PassInputError::BitmapSize {
            bitmap: 8,
            folio: 16
        })
    );
    let mut clean = BlockBitmap::empty(16).unwrap();
    clean.set(run_of(1, 3));
    assert_eq!(
        begin(clean, whole),
        Some(PassInputError::NotDirty(BlockIndex::new(2)))
    );
    let none = BlockBitmap::empty(16).unwrap();
    let odd = FileRange::new(FileOffset::new(1), FileOffset::new(B)).unwrap();
    assert_eq!(begin(none, odd), Some(PassInputError::Range(odd)));
    assert_eq!(
        begin(none, bytes(15, 17)),
        Some(PassInputError::Range(bytes(15, 17)))
    );
    folio.start_writeback(run_of(0, 1));
    assert_eq!(folio.end_writeback(run_of(0, 1)), WritebackEnd::Ended);
}

#[test]
fn after_the_end_a_pass_reports_nothing_more() {
    let mut folio = folio_at(0, &[(0, 2)]);
    let mut table = table_of(&[(0, 16)]);
    let mut bios = no_limits();
    let mut steps = begin(&mut folio, 16 * B, Stride::Extent);
    let mut reports = 0;
    for _ in 0..8 {
        let mut cx = PassContext {
            folio: &mut folio,
            table: &mut table,
            bios: &mut bios,
            observer: &mut (),
        };
        steps.refuse("nothing was offered", &mut cx);
        if let Step::Done(report) = steps.step(&mut cx) {
            reports += usize::from(!report.counts.total().is_zero());
        } else {
            // Accepts the piece, so that the refusal above finds none.
            let _ = steps.step(&mut cx);
        }
    }
    assert!(reports <= 1);
}

#[test]
fn s1_pieces_of_two_extents_or_with_a_gap_do_not_share_a_bio() {
    let mut folio = folio_at(0, &[(0, 2), (3, 4)]);
    let mut table = Table::new(block_size());
    // Adjacent on the device, adjacent in the file, but two extents.
    for (start, end) in [(0, 1), (1, 16)] {
        let len = LenBytes::new((end - start) * B);
        let spec = NewOrdered::plain(FileOffset::new(start * B), len, DiskByte::new(start * B));
        table.insert(spec).unwrap();
    }
    let (mut bios, mut device) = (no_limits(), Device::default());
    let _ = pass(&mut folio, &mut table, &mut bios, &mut device, 16 * B);
    device.sent.extend(bios.take());
    let sent = device.sent.iter().map(|bio| in_blocks(bio.file_range()));
    assert!(sent.eq([(0, 1), (1, 2), (3, 4)]));
}

#[test]
fn s1_a_bio_goes_on_across_folios_and_s2_folio_borders_make_segments() {
    let mut table = table_of(&[(0, 64)]);
    let (mut bios, mut device) = (no_limits(), Device::default());
    for (pos, dirty) in [(0, (12, 16)), (16, (0, 16)), (32, (0, 1))] {
        let mut folio = folio_at(pos, &[dirty]);
        let _ = pass(&mut folio, &mut table, &mut bios, &mut device, 64 * B);
    }
    let bio = bios.take().unwrap();
    assert!(device.sent.is_empty());
    let parts = bio
        .segments()
        .iter()
        .map(|segment| in_blocks(segment.range()));
    assert!(parts.eq([(12, 16), (16, 32), (32, 33)]));
    assert_eq!(bio.disk_bytenr(), DiskByte::new(12 * B));
}

#[test]
fn s2_bios_are_filled_to_the_brim() {
    let limits = |max_bytes, max_segments| {
        let max_bytes = Some(LenBytes::new(max_bytes));
        BioLimits::new(max_bytes, NonZeroUsize::new(max_segments), block_size()).unwrap()
    };
    let sent = |limits| {
        let mut table = table_of(&[(0, 64)]);
        let (mut bios, mut device) = (Bios::new(limits), Device::default());
        for pos in [0, 16] {
            let mut folio = folio_at(pos, &[(0, 16)]);
            let _ = pass(&mut folio, &mut table, &mut bios, &mut device, 64 * B);
        }
        device.sent.extend(bios.take());
        let lens = device.sent.iter().map(|bio| bio.len().get() / B);
        lens.collect::<heapless::Vec<_, 16>>()
    };
    assert_eq!(sent(limits(6 * B, 8)), [6, 6, 6, 6, 6, 2]);
    assert_eq!(sent(limits(1024 * B, 1)), [16, 16]);
    assert_eq!(sent(BioLimits::UNLIMITED), [32]);
    let odd = LenBytes::new(B + 1);
    assert_eq!(
        BioLimits::new(Some(odd), None, block_size()),
        Err(BioLimitsError(odd))
    );
    let none = LenBytes::ZERO;
    assert_eq!(
        BioLimits::new(Some(none), None, block_size()),
        Err(BioLimitsError(none))
    );
}

#[test]
fn stepping_by_blocks_decides_the_same_as_by_extents() {
    for bits in 0..1_u64 << 10 {
        for i_size in [0, 1, 5 * B - 1, 5 * B, 5 * B + 1, u64::MAX] {
            let outcome = |stride| {
                let mut folio = folio_at(0, &[]);
                for block in (0..10).filter(|block| bits >> block & 1 == 1) {
                    folio.mark_dirty(run_of(block, block + 1));
                }
                let mut table = table_of(&[(0, 3), (4, 6), (6, 16)]);
                let (mut bios, mut device) = (no_limits(), Device::default());
                let steps = begin(&mut folio, i_size, stride);
                let report = run(steps, &mut folio, &mut table, &mut bios, &mut device);
                device.sent.extend(bios.take());
                let extents = table.iter_in(bytes(0, 16)).copied();
                (
                    report,
                    device.sent,
                    extents.collect::<heapless::Vec<_, 8>>(),
                )
            };
            assert_eq!(outcome(Stride::Extent), outcome(Stride::Block));
        }
    }
}

/// What a missing extent did to its neighbours.
#[derive(Debug, PartialEq)]
struct AfterMissing {
    doubles: u64,
    /// Blocks finished without ever being written.
    lost: u64,
}

/// The mistake of the published patch: where the extent is missing, the whole
/// rest of the run is cleaned and finished, but the loop steps one block on.
fn published_missing(folio: &mut Folio, table: &mut Table, device: &mut Device) {
    let mut cur = 0;
    while let Some(run) = folio.dirty().next_run(run_of(cur, 16)) {
        let (start, end) = (run.start().get(), run.end().get());
        let at = folio.geometry().offset_of(run.start());
        if table.lookup(at).is_some() {
            folio.clear_dirty(run);
            device.queued.push((start as u64, end as u64)).unwrap();
            table.finish(bytes(start as u64, end as u64), IoOutcome::Skipped, device);
            cur = end;
        } else {
            let rest = bytes(start as u64, end as u64);
            table.finish(rest, IoOutcome::Skipped, device);
            folio.clear_dirty(run_of(start, start + 1));
            cur = start + 1;
        }
    }
}

#[test]
fn w7_a_missing_extent_does_not_finish_its_neighbour_as_the_published_patch_does() {
    let observe = |published: bool| {
        let mut folio = folio_at(0, &[(0, 4)]);
        let mut table = table_of(&[(1, 4)]);
        let (mut bios, mut device) = (no_limits(), Device::default());
        if published {
            published_missing(&mut folio, &mut table, &mut device);
        } else {
            let report = pass(&mut folio, &mut table, &mut bios, &mut device, 16 * B);
            assert_eq!(device.missing, [(0, 1)]);
            let file_offset = FileOffset::ZERO;
            assert_eq!(
                report.error,
                Some(PassError::MissingOrdered { file_offset })
            );
            device.sent.extend(bios.take());
        }
        let unwritten = device.completed as u64;
        complete(&mut device, &mut folio, &mut table);
        AfterMissing {
            doubles: device.doubles,
            lost: unwritten,
        }
    };
    let right = AfterMissing {
        doubles: 0,
        lost: 0,
    };
    assert_eq!(observe(false), right);
    assert_ne!(observe(true), right);
}

/// The mistake of the published patch: the cut is measured from the start of
/// the range, also for an extent that begins behind it.
fn published_cut(extent: &OrderedExtent, range: FileRange) -> u64 {
    let kept = range.start().get().wrapping_sub(extent.file_offset().get());
    extent.truncated_len().get().min(kept)
}

#[test]
fn o3_a_hole_before_the_extent_does_not_underflow_as_the_published_patch_does() {
    let range = bytes(4, 16);
    let mut table = table_of(&[(8, 9)]);
    let published = published_cut(table.lookup(FileOffset::new(8 * B)).unwrap(), range);
    let done = table.truncate(range);
    let expected = Truncated {
        extents: 1,
        hole_bytes: LenBytes::new(11 * B),
    };
    assert_eq!(done, expected);
    let kept = table
        .lookup(FileOffset::new(8 * B))
        .unwrap()
        .truncated_len();
    assert_eq!(kept, LenBytes::ZERO);
    assert_ne!(
        published, 0,
        "the mistake keeps bytes past the end of the file"
    );
}

/// Gives two blocks at a time, until it has none left.
struct Allocator {
    left: usize,
    misplace: bool,
    released: usize,
}

impl Allocate for Allocator {
    type Error = &'static str;

    fn allocate(&mut self, range: FileRange) -> Result<NewOrdered, &'static str> {
        self.left = self.left.checked_sub(1).ok_or("no space")?;
        let len = LenBytes::new(range.len().get().min(2 * B));
        let start = if self.misplace {
            15 * B
        } else {
            range.start().get()
        };
        Ok(NewOrdered::plain(
            FileOffset::new(start),
            len,
            DiskByte::new(start),
        ))
    }
    fn release(&mut self, _: NewOrdered) {
        self.released += 1;
    }
}

fn allocate(
    table: &mut Table,
    allocator: &mut Allocator,
) -> (Result<(), AllocationFailure<&'static str>>, usize, usize) {
    let folio = folio_at(0, &[(0, 10)]);
    let mut submit = *folio.dirty();
    let done = allocate_missing(folio.geometry(), &mut submit, table, allocator);
    let left = submit.count_in(run_of(0, 16));
    (done, left, table.len())
}

#[test]
fn w14_every_gap_gets_extents_and_those_there_stay() {
    let mut table = table_of(&[(3, 5)]);
    let mut allocator = Allocator {
        left: 99,
        misplace: false,
        released: 0,
    };
    // [0,2) [2,3) (3,5) [5,7) [7,9) [9,10)
    assert_eq!(allocate(&mut table, &mut allocator), (Ok(()), 10, 6));
}

#[test]
fn w14_a_failed_allocation_leaves_the_submit_bitmap_and_keeps_its_class() {
    let mut table = table_of(&[(3, 5), (8, 9)]);
    let mut allocator = Allocator {
        left: 1,
        misplace: false,
        released: 0,
    };
    let (done, left, extents) = allocate(&mut table, &mut allocator);
    let failed = FileOffset::new(2 * B);
    assert_eq!(done, Err(AllocationFailure::Allocator(failed, "no space")));
    assert_eq!((left, extents, allocator.released), (5, 3, 0));
}

#[test]
fn w14_an_allocation_that_cannot_be_used_is_released() {
    let mut table = table_of(&[]);
    let mut allocator = Allocator {
        left: 1,
        misplace: true,
        released: 0,
    };
    let (done, left, extents) = allocate(&mut table, &mut allocator);
    assert_eq!(done, Err(AllocationFailure::Misplaced(FileOffset::ZERO)));
    assert_eq!((left, extents, allocator.released), (0, 0, 1));
    let mut full = table_of(&[
        (20, 21),
        (22, 23),
        (24, 25),
        (26, 27),
        (28, 29),
        (30, 31),
        (32, 33),
        (34, 35),
    ]);
    let mut allocator = Allocator {
        left: 9,
        misplace: false,
        released: 0,
    };
    let (done, left, _) = allocate(&mut full, &mut allocator);
    let error = InsertError::Full;
    assert_eq!(
        done,
        Err(AllocationFailure::Insert(FileOffset::ZERO, error))
    );
    assert_eq!((left, allocator.released), (0, 1));
}
