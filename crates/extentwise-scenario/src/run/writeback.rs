//! A writeback scenario through the core's pass, bios and ordered extents.

use std::num::NonZeroUsize;
use std::ops::Range;

use extentwise_core::bitmap::{BlockBitmap, words_for};
use extentwise_core::folio::FolioState;
use extentwise_core::geometry::{
    BlockSize, DiskByte, FileOffset, FileRange, FolioGeometry, LenBytes,
};
use extentwise_core::ordered::{
    self, FinishObserver, IoOutcome, NewOrdered, OrderedFlags, OrderedTable, Record, TreeStore,
};
use extentwise_core::writeback::{
    Bio, BioAssembler, BioLimits, PassError, Piece, Segment, Stride, Submit, WritebackPass,
    complete_bio, run,
};

use crate::result::{
    BioResult, Event, FolioResult, OrderedFlag, OrderedResult, Outcome, WritebackError,
    WritebackErrorKind, WritebackResult,
};
use crate::{FolioPass, OrderedExtent, OrderedKind, WritebackScenario};

/// Decides a writeback scenario extent by extent.
#[must_use]
pub fn writeback(scenario: &WritebackScenario) -> WritebackResult {
    let block_size = BlockSize::new(scenario.block_size).unwrap_or(BlockSize::MIN);
    let mut table = OrderedTable::<TreeStore>::new(block_size);
    let mut device = Device::new(scenario);
    for extent in &scenario.ordered {
        insert(extent, &mut table, &mut device);
    }

    let mut bios = BioAssembler::<Vec<Segment>>::new(limits(scenario, block_size));
    let mut folios = Vec::with_capacity(scenario.folios.len());
    let mut error = None;
    for input in &scenario.folios {
        let Some(mut folio) = folio_of(input, block_size) else {
            continue;
        };
        if let Some(pass) = begin(&mut folio, input, scenario.i_size) {
            let report = run(pass, &mut folio, &mut table, &mut bios, &mut device);
            error = error.or(report.error);
        }
        folios.push(folio);
    }
    device.sent.extend(bios.take());

    let io_failed = scenario.complete && complete(scenario, &mut folios, &mut table, &mut device);
    WritebackResult {
        name: scenario.name.clone(),
        events: device.events,
        bios: device.sent.iter().map(bio_result).collect(),
        ordered: table.iter_in(EVERYTHING).map(ordered_result).collect(),
        folios: folios.iter().map(folio_result).collect(),
        error: error.as_ref().map(submission_error),
        mapping_error: io_failed || error.is_some(),
        double_finish: merged(device.doubles),
    }
}

type Folio = FolioState<Vec<u64>>;

/// From the first byte of a file to the last: where the range cannot be made,
/// it is empty, but it can.
const EVERYTHING: FileRange = match FileRange::new(FileOffset::ZERO, FileOffset::MAX) {
    Some(range) => range,
    None => unreachable!(),
};

/// The device of a scenario: refuses what it is told to, keeps what it is sent.
struct Device {
    refuse: Vec<u64>,
    attempts: u64,
    events: Vec<Event>,
    sent: Vec<Bio<Vec<Segment>>>,
    doubles: Vec<Range<u64>>,
}

/// The refusal of a queue attempt.
#[derive(Clone, Copy, Debug)]
struct Refusal;

impl Device {
    fn new(scenario: &WritebackScenario) -> Self {
        let mut refuse = scenario.refuse.clone();
        refuse.sort_unstable();
        Self {
            refuse,
            attempts: 0,
            events: Vec::new(),
            sent: Vec::new(),
            doubles: Vec::new(),
        }
    }
}

impl FinishObserver for Device {
    fn double_finish(&mut self, range: FileRange) {
        self.doubles.push(range.start().get()..range.end().get());
    }
}

impl Submit<Vec<Segment>> for Device {
    type Error = Refusal;

    fn zero(&mut self, range: FileRange) {
        let (file_offset, len) = pair(range);
        self.events.push(Event::Zero { file_offset, len });
    }

    fn queue(&mut self, piece: &Piece) -> Result<(), Refusal> {
        let (file_offset, len) = pair(piece.range);
        let attempt = self.attempts;
        self.attempts += 1;
        if self.refuse.binary_search(&attempt).is_ok() {
            self.events.push(Event::Refused { file_offset, len });
            return Err(Refusal);
        }
        self.events.push(Event::Submit {
            file_offset,
            len,
            disk_bytenr: piece.disk.get(),
        });
        Ok(())
    }

    fn send(&mut self, bio: Bio<Vec<Segment>>) {
        self.sent.push(bio);
    }

    fn beyond_eof(&mut self, range: FileRange) {
        let (file_offset, len) = pair(range);
        self.events.push(Event::BeyondEof { file_offset, len });
    }

    fn missing_ordered(&mut self, range: FileRange) {
        let (file_offset, len) = pair(range);
        self.events.push(Event::MissingOrdered { file_offset, len });
    }
}

fn insert(extent: &OrderedExtent, table: &mut OrderedTable<TreeStore>, device: &mut Device) {
    let spec = NewOrdered {
        file_offset: FileOffset::new(extent.file_offset),
        num_bytes: LenBytes::new(extent.num_bytes),
        disk_bytenr: DiskByte::new(extent.disk_bytenr),
        offset: LenBytes::new(extent.offset),
        disk_num_bytes: LenBytes::new(extent.disk_num_bytes),
        kind: match extent.kind {
            OrderedKind::Plain => ordered::OrderedKind::Plain,
            OrderedKind::Nocow => ordered::OrderedKind::Nocow,
            OrderedKind::Prealloc => ordered::OrderedKind::Prealloc,
        },
    };
    if table.insert(spec).is_err() {
        return;
    }
    for range in &extent.finished {
        if let Some(range) = file_range(range) {
            table.finish(range, IoOutcome::Skipped, device);
        }
    }
}

fn limits(scenario: &WritebackScenario, block_size: BlockSize) -> BioLimits {
    let max_segments = usize::try_from(scenario.bio.max_segments).unwrap_or(usize::MAX);
    BioLimits::new(
        Some(LenBytes::new(scenario.bio.max_bytes)),
        NonZeroUsize::new(max_segments),
        block_size,
    )
    .unwrap_or(BioLimits::UNLIMITED)
}

fn folio_of(input: &FolioPass, block_size: BlockSize) -> Option<Folio> {
    let pos = FileOffset::new(input.pos);
    let geometry = FolioGeometry::new(pos, LenBytes::new(input.size), block_size).ok()?;
    let words = vec![0; 3 * words_for(geometry.blocks())];
    let mut folio = FolioState::new(geometry, words).ok()?;
    for range in &input.dirty {
        folio.mark_dirty_bytes(file_range(range)?);
    }
    Some(folio)
}

fn begin(
    folio: &mut Folio,
    input: &FolioPass,
    i_size: u64,
) -> Option<WritebackPass<Vec<u64>, Refusal>> {
    let geometry = folio.geometry();
    let words = vec![0; words_for(geometry.blocks())];
    let mut submit = BlockBitmap::cleared(words, geometry.blocks()).ok()?;
    for range in &input.submit {
        submit.set(geometry.blocks_meeting(file_range(range)?));
    }
    let range = file_range(&input.range)?;
    WritebackPass::begin(
        folio,
        submit,
        range,
        FileOffset::new(i_size),
        Stride::Extent,
    )
    .ok()
}

/// Completes all bios in the order sent; whether one of them failed.
fn complete(
    scenario: &WritebackScenario,
    folios: &mut [Folio],
    table: &mut OrderedTable<TreeStore>,
    device: &mut Device,
) -> bool {
    let sent = std::mem::take(&mut device.sent);
    let mut any_failed = false;
    for bio in &sent {
        let start = bio.disk_bytenr().get();
        let end = start.saturating_add(bio.len().get());
        let failed = scenario
            .fail_io
            .iter()
            .any(|range| range.start < end && start < range.end);
        any_failed |= failed;
        let result = if failed { Err(Refusal) } else { Ok(()) };
        complete_bio(bio, &result, table, device);
        for segment in bio.segments() {
            let index = folios
                .partition_point(|folio| folio.geometry().range().end() <= segment.file_offset);
            if let Some(folio) = folios.get_mut(index) {
                // Nobody waits for a folio of a scenario.
                let _ = folio.end_writeback_bytes(segment.range());
            }
        }
    }
    device.sent = sent;
    any_failed
}

fn bio_result(bio: &Bio<Vec<Segment>>) -> BioResult {
    BioResult {
        disk_bytenr: bio.disk_bytenr().get(),
        len: bio.len().get(),
        valid_len: bio.valid_len().get(),
        segments: bio
            .segments()
            .iter()
            .map(|segment| [segment.file_offset.get(), segment.len.get()])
            .collect(),
    }
}

fn ordered_result(extent: &ordered::OrderedExtent) -> OrderedResult {
    let names = [
        (OrderedFlags::IO_DONE, OrderedFlag::IoDone),
        (OrderedFlags::IO_ERROR, OrderedFlag::IoError),
        (OrderedFlags::NOCOW, OrderedFlag::Nocow),
        (OrderedFlags::PREALLOC, OrderedFlag::Prealloc),
        (OrderedFlags::TRUNCATED, OrderedFlag::Truncated),
    ];
    OrderedResult {
        file_offset: extent.file_offset().get(),
        num_bytes: extent.num_bytes().get(),
        bytes_left: extent.bytes_left().get(),
        truncated_len: extent.truncated_len().get(),
        flags: names
            .into_iter()
            .filter(|(flag, _)| extent.flags().contains(*flag))
            .map(|(_, name)| name)
            .collect(),
        outcome: extent.outcome().map(|outcome| {
            let triple = |file: FileRange, disk: DiskByte| {
                [file.start().get(), file.len().get(), disk.get()]
            };
            Outcome {
                insert: match outcome.record {
                    Record::Insert { file, disk } => Some(triple(file, disk)),
                    Record::Convert { .. } | Record::Nothing => None,
                },
                convert: match outcome.record {
                    Record::Convert { file, disk } => Some(triple(file, disk)),
                    Record::Insert { .. } | Record::Nothing => None,
                },
                release: outcome.release.map(|(disk, len)| [disk.get(), len.get()]),
            }
        }),
    }
}

fn folio_result(folio: &Folio) -> FolioResult {
    let geometry = folio.geometry();
    let ranges = |bitmap: BlockBitmap<&[u64]>| {
        bitmap
            .runs(geometry.all())
            .map(|run| geometry.bytes_of(run))
            .map(|range| [range.start().get(), range.end().get()])
            .collect()
    };
    FolioResult {
        pos: geometry.pos().get(),
        dirty: ranges(folio.dirty()),
        writeback: ranges(folio.writeback()),
    }
}

fn submission_error(error: &PassError<Refusal>) -> WritebackError {
    match error {
        PassError::MissingOrdered { file_offset } => WritebackError {
            kind: WritebackErrorKind::MissingOrdered,
            file_offset: file_offset.get(),
        },
        PassError::Refused { file_offset, .. } => WritebackError {
            kind: WritebackErrorKind::Refused,
            file_offset: file_offset.get(),
        },
    }
}

/// Sorts and joins ranges into `[start, len]` pairs.
fn merged(mut ranges: Vec<Range<u64>>) -> Vec<[u64; 2]> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
        .into_iter()
        .map(|range| [range.start, range.end - range.start])
        .collect()
}

fn file_range(range: &Range<u64>) -> Option<FileRange> {
    FileRange::new(FileOffset::new(range.start), FileOffset::new(range.end))
}

fn pair(range: FileRange) -> (u64, u64) {
    (range.start().get(), range.len().get())
}
