//! Writing back the dirty data of one file (W1-W15, S1-S4).
//!
//! Delayed allocation is the identity here: a byte of the file lies on the
//! device, which is a file too, where it lies in the file.

use std::io::IoSlice;
use std::time::Instant;

use anyhow::{Error, Result, bail};
use extentwise_core::geometry::{DiskByte, FileOffset, FileRange, LenBytes};
use extentwise_core::ordered::{FinishObserver, NewOrdered, OrderedExtent};
use extentwise_core::write::MappingFlags;
use extentwise_core::writeback::{
    self, Bio, BioAssembler, BioLimits, PassError, Piece, Segment, Stride, Submit, WritebackPass,
};

use super::cache::FileCache;
use super::device::{DeviceFile, SLICES_MAX, Written};
use super::memory::Memory;
use crate::replay::report::Work;

type FileBio = Bio<Vec<Segment>>;

/// Writes back every dirty block of the file and waits for it: plans ordered
/// extents, passes over each dirty folio with one bio in progress across them,
/// completes the bios. Costs nothing if nothing is dirty.
pub(super) fn write_back(
    cache: &mut FileCache,
    device: &DeviceFile,
    stride: Stride,
    work: &mut Work,
) -> Result<()> {
    if cache.dirty.is_empty() {
        return Ok(());
    }
    let started = Instant::now();
    plan_ordered(cache, work)?;
    // A bio is one call: it meets at most one chunk of memory more than it fills.
    let bytes_max = (SLICES_MAX as u64 - 1) * cache.memory.chunk_size();
    let limits = BioLimits::new(Some(LenBytes::new(bytes_max)), None, cache.block_size)?;
    let mut bios = BioAssembler::new(limits);
    let mut sent = Sent::default();
    for pos in cache.dirty.clone() {
        pass_over(cache, pos, stride, &mut bios, device, &mut sent)?;
        work.folio_passes += 1;
        complete(cache, &mut sent)?;
    }
    if let Some(bio) = bios.take() {
        let mut submitter = Submitter {
            memory: &mut cache.memory,
            device,
            sent: &mut sent,
        };
        submitter.send(bio);
        complete(cache, &mut sent)?;
    }
    work.bios += sent.bios;
    work.device_writes += sent.written.calls;
    work.device_bytes += sent.written.bytes;
    if let Some(error) = sent.error {
        return Err(error);
    }
    cache.all_clean();
    let elapsed = started.elapsed().as_nanos();
    work.writeback
        .record(u64::try_from(elapsed).unwrap_or(u64::MAX));
    Ok(())
}

/// Makes ordered extents for all dirty runs; runs that touch across folios are
/// one, up to the longest extent.
fn plan_ordered(cache: &mut FileCache, work: &mut Work) -> Result<()> {
    let mut runs: Vec<FileRange> = Vec::new();
    for pos in &cache.dirty {
        let Some(folio) = cache.folios.get(pos) else {
            continue;
        };
        let geometry = folio.state.geometry();
        for run in folio.state.dirty().runs(geometry.all()) {
            let run = geometry.bytes_of(run);
            match runs.last_mut() {
                Some(last) if last.end() == run.start() => {
                    *last = FileRange::new(last.start(), run.end()).unwrap_or(*last);
                }
                _ => runs.push(run),
            }
        }
    }
    for run in runs {
        let mut start = run.start().get();
        while start < run.end().get() {
            let len = (run.end().get() - start).min(cache.geometry.max_extent());
            let (file_offset, disk) = (FileOffset::new(start), DiskByte::new(start));
            let extent = NewOrdered::plain(file_offset, LenBytes::new(len), disk);
            cache.ordered.insert(extent)?;
            work.ordered_extents += 1;
            start += len;
        }
    }
    Ok(())
}

fn pass_over(
    cache: &mut FileCache,
    pos: u64,
    stride: Stride,
    bios: &mut BioAssembler<Vec<Segment>>,
    device: &DeviceFile,
    sent: &mut Sent,
) -> Result<()> {
    let Some(folio) = cache.folios.get_mut(&pos) else {
        bail!("the folio at {pos} is dirty and not cached");
    };
    let submit = folio.state.dirty().clone();
    let range = folio.state.geometry().range();
    let pass = WritebackPass::begin(&mut folio.state, submit, range, cache.i_size, stride)?;
    let mut submitter = Submitter {
        memory: &mut cache.memory,
        device,
        sent,
    };
    let report = writeback::run(
        pass,
        &mut folio.state,
        &mut cache.ordered,
        bios,
        &mut submitter,
    );
    match report.error {
        Some(error @ PassError::MissingOrdered { .. }) => bail!("folio at {pos}: {error}"),
        // Refused because a bio failed before; that error ends the replay.
        Some(PassError::Refused { .. }) | None => Ok(()),
    }
}

/// Completes the bios that were sent: their bytes are finished, dirty again if
/// they failed, and last no longer in writeback (C2). Extents that are done
/// raise the recorded size (S4) and leave the table.
fn complete(cache: &mut FileCache, sent: &mut Sent) -> Result<()> {
    for (bio, result) in sent.unfinished.drain(..) {
        writeback::complete_bio(&bio, &result, &mut cache.ordered, &mut sent.finished);
        for segment in bio.segments() {
            let range = segment.range();
            let pos = cache.folio_pos(range.start().get());
            let Some(folio) = cache.folios.get_mut(&pos) else {
                bail!("the folio at {pos} left the cache while in writeback");
            };
            let blocks = folio.state.geometry().blocks_inside(range);
            match result {
                Ok(()) => folio.maps.replace(blocks, MappingFlags::MAPPED),
                Err(Failed) => folio.state.mark_dirty(blocks),
            }
            // Nobody waits for the folio: the pass and this are one thread.
            let _ = folio.state.end_writeback(blocks);
        }
    }
    if let Some(range) = sent.finished.double {
        bail!("the bytes {range} were finished twice");
    }
    for done in sent.finished.extents.drain(..) {
        if let Some(extent) = cache.ordered.remove(done.id(), done.file_offset()) {
            cache.recorded_size = extent.recorded_size(cache.recorded_size, cache.i_size);
        }
    }
    Ok(())
}

/// A bio could not be written; why is in [`Sent::error`].
#[derive(Clone, Copy, Debug)]
struct Failed;

/// What was sent of one file.
#[derive(Default)]
struct Sent {
    /// Bios that the device has answered and nobody completed.
    unfinished: Vec<(FileBio, Result<(), Failed>)>,
    finished: FinishedExtents,
    bios: u64,
    written: Written,
    error: Option<Error>,
}

/// Ordered extents that are done and not on record yet.
#[derive(Default)]
struct FinishedExtents {
    extents: Vec<OrderedExtent>,
    double: Option<FileRange>,
}

impl FinishObserver for FinishedExtents {
    fn completed(&mut self, extent: &OrderedExtent) {
        self.extents.push(*extent);
    }

    fn double_finish(&mut self, range: FileRange) {
        self.double.get_or_insert(range);
    }
}

/// Takes pieces and bios to the file, at once.
struct Submitter<'a> {
    memory: &'a mut Memory,
    device: &'a DeviceFile,
    sent: &'a mut Sent,
}

impl Submitter<'_> {
    /// Writes the valid bytes of the bio: the file must not get an end that is
    /// rounded to blocks.
    fn write(&self, bio: &FileBio) -> Result<Written> {
        let start = bio.file_range().start();
        let valid = FileRange::new(start, bio.valid_end()).unwrap_or_default();
        let pieces = self.memory.pieces(valid);
        let mut slices: Vec<_> = pieces.map(|(_, bytes)| IoSlice::new(bytes)).collect();
        let len: usize = slices.iter().map(|slice| slice.len()).sum();
        if len as u64 != bio.valid_len().get() {
            bail!("the bytes {valid} are to be written and not cached");
        }
        self.device.write(&mut slices, bio.disk_bytenr().get())
    }
}

impl FinishObserver for Submitter<'_> {
    fn completed(&mut self, extent: &OrderedExtent) {
        self.sent.finished.completed(extent);
    }

    fn double_finish(&mut self, range: FileRange) {
        self.sent.finished.double_finish(range);
    }
}

impl Submit<Vec<Segment>> for Submitter<'_> {
    type Error = Failed;

    fn zero(&mut self, range: FileRange) {
        self.memory.zero(range);
    }

    fn queue(&mut self, _piece: &Piece) -> Result<(), Failed> {
        // After a failure the replay ends; nothing more is written.
        match self.sent.error {
            None => Ok(()),
            Some(_) => Err(Failed),
        }
    }

    fn send(&mut self, bio: FileBio) {
        let result = match self.write(&bio) {
            Ok(written) => {
                self.sent.written.calls += written.calls;
                self.sent.written.bytes += written.bytes;
                Ok(())
            }
            Err(error) => {
                self.sent.error.get_or_insert(error);
                Err(Failed)
            }
        };
        self.sent.bios += 1;
        self.sent.unfinished.push((bio, result));
    }
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a write failed before")
    }
}
