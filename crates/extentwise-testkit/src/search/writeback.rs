//! Writeback: places, passes over folios, bios that end.

use extentwise_core::bitmap::BlockBitmap;
use extentwise_core::geometry::{BlockRange, DiskByte, FileRange, LenBytes};
use extentwise_core::ordered::{
    FinishObserver, InsertError, NewOrdered, OrderedExtent, OrderedFlags, OrderedKind, Record,
};
use extentwise_core::write::MappingFlags;
use extentwise_core::writeback::{
    Bio, BioAssembler, BioLimits, PassContext, Step, Stride, WritebackPass, complete_bio,
};

use super::shape::{HALVES_MAX, Mistake};
use super::world::{Answer, BLOCK, Flight, Segments, World, halves_of, offset_of, range_of};

/// Whether a pass meets a refusal (W8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refuse {
    Nothing,
    First,
}

/// The ordered extents that became done.
#[derive(Default)]
struct Done {
    extents: Vec<OrderedExtent>,
    twice: Option<FileRange>,
}

impl FinishObserver for Done {
    fn completed(&mut self, extent: &OrderedExtent) {
        self.extents.push(*extent);
    }

    fn double_finish(&mut self, range: FileRange) {
        self.twice = Some(range);
    }
}

/// A folio of a pass, and its blocks to submit.
type Planned = (usize, BlockBitmap<[u64; 1]>);

impl World<'_> {
    /// Writes back what is dirty in some folios, with bios over their borders;
    /// false where nothing is, or no room is left for what would be under way.
    pub(super) fn pass(
        &mut self,
        folios: core::ops::Range<usize>,
        refuse: Refuse,
    ) -> Result<bool, String> {
        let is_wide = folios.len() > 1;
        let planned: Vec<Planned> = folios
            .filter_map(|folio| Some((folio, self.submittable(folio)?)))
            .collect();
        // Of one folio only, it is the pass over that folio.
        if planned.len() < if is_wide { 2 } else { 1 } || !self.allocate(&planned)? {
            return Ok(false);
        }
        let block_limit = self
            .shape
            .bio_blocks
            .map(|blocks| LenBytes::new(blocks * BLOCK));
        let limits = BioLimits::new(block_limit, None, self.block_size);
        let mut bios = BioAssembler::new(limits.map_err(|error| error.to_string())?);
        let mut done = Done::default();
        for planned in planned {
            self.pass_over(planned, refuse, &mut bios, &mut done)?;
        }
        if let Some(bio) = bios.take() {
            self.send(bio)?;
        }
        self.settle(done)?;
        Ok(true)
    }

    /// A bio is answered.
    pub(super) fn complete(&mut self, nth: usize, answer: Answer) -> Result<bool, String> {
        let flight = self.flights.remove(nth);
        let range = flight.bio.file_range();
        let result = match answer {
            Answer::Written => {
                let halves = halves_of(range);
                self.disk[halves.clone()].copy_from_slice(&flight.bytes[halves]);
                Ok(())
            }
            Answer::Failed => Err(()),
        };
        let mut done = Done::default();
        let finished = complete_bio(&flight.bio, &result, &mut self.table, &mut done);
        if finished.bytes != range.len() {
            return Err(format!(
                "a bio of {} finishes {finished:?} (O4)",
                range.len()
            ));
        }
        if self.mistake == Mistake::WritebackEndsWithTheBio {
            self.end_writeback(range);
        }
        self.settle(done)?;
        Ok(true)
    }

    /// Dirty blocks of a folio that no ordered extent covers; `None`: there are
    /// none.
    fn submittable(&self, folio: usize) -> Option<BlockBitmap<[u64; 1]>> {
        let state = &self.folios[folio].as_ref()?.state;
        let geometry = state.geometry();
        let mut submit = state.dirty().copied_to([0]).ok()?;
        for run in state.writeback().runs(geometry.all()) {
            submit.clear(run);
        }
        for extent in self.table.iter_in(geometry.range()) {
            submit.clear(geometry.blocks_meeting(extent.range()));
        }
        submit.any().then_some(submit)
    }

    /// Makes ordered extents for what is to be submitted below the size: in
    /// place where data is on record, else new. False where no room is left.
    fn allocate(&mut self, planned: &[Planned]) -> Result<bool, String> {
        let mut blocks = Vec::new();
        for (folio, submit) in planned {
            let first = self.folio_halves(*folio).start / 2;
            let all = BlockRange::clamped(0, self.shape.blocks);
            for run in submit.runs(all) {
                blocks.extend(first + run.start().get()..first + run.end().get());
            }
        }
        blocks.retain(|block| 2 * block < self.size);
        let mut rest = &blocks[..];
        while let Some(&first) = rest.first() {
            let kind = |block: usize| self.mapped & 1 << block != 0;
            let mut len = 1;
            while rest.get(len) == Some(&(first + len)) && kind(first + len) == kind(first) {
                len += 1;
            }
            rest = &rest[len..];
            let start = offset_of(2 * first);
            let len = LenBytes::new(len as u64 * BLOCK);
            let new = NewOrdered {
                kind: if kind(first) {
                    OrderedKind::Nocow
                } else {
                    OrderedKind::Plain
                },
                ..NewOrdered::plain(start, len, DiskByte::new(start.get()))
            };
            match self.table.insert(new) {
                Ok(_) => {}
                Err(InsertError::Full) => return Ok(false),
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(true)
    }

    fn pass_over(
        &mut self,
        (folio, submit): Planned,
        refuse: Refuse,
        bios: &mut BioAssembler<Segments>,
        done: &mut Done,
    ) -> Result<(), String> {
        let Some(mut cached) = self.folios[folio].take() else {
            return Ok(());
        };
        let geometry = cached.state.geometry();
        let size = offset_of(self.size);
        let begun = WritebackPass::<_, ()>::begin(
            &mut cached.state,
            submit,
            geometry.range(),
            size,
            Stride::Extent,
        );
        let mut pass = begun.map_err(|error| error.to_string())?;
        let mut refusing = refuse == Refuse::First;
        let mut refused = None;
        loop {
            let mut cx = PassContext {
                folio: &mut cached.state,
                table: &mut self.table,
                bios: &mut *bios,
                observer: &mut *done,
            };
            match pass.step(&mut cx) {
                Step::Zero(range) => self.bytes[halves_of(range)].fill(0),
                Step::Queue(piece) if refusing => {
                    refusing = false;
                    pass.refuse((), &mut cx);
                    refused = Some(piece.range);
                }
                Step::Queue(piece) => {
                    if let Some(barrier) = &mut self.barrier {
                        barrier.sent |= piece.range.contains(offset_of(barrier.at));
                    }
                }
                Step::Send(bio) => self.send(bio)?,
                Step::BeyondEof(range) if range.end() <= size => {
                    return Err(format!("{range} is passed over, below the size (W5)"));
                }
                Step::BeyondEof(_) => {}
                Step::MissingOrdered(range) => {
                    return Err(format!("{range} has no ordered extent (W7)"));
                }
                Step::Done(_) => break,
            }
        }
        // What was turned away is dirty before anybody else looks (C2).
        if let Some(range) = refused
            && self.mistake != Mistake::FailedStaysClean
        {
            cached.state.mark_dirty_bytes(range);
        }
        self.folios[folio] = Some(cached);
        Ok(())
    }

    fn send(&mut self, bio: Bio<Segments>) -> Result<(), String> {
        let range = bio.file_range();
        let mut bytes = [0; HALVES_MAX];
        let halves = halves_of(range);
        bytes[halves.clone()].copy_from_slice(&self.bytes[halves.clone()]);
        let tail = &bytes[self.size.clamp(halves.start, halves.end)..halves.end];
        if range.start() >= offset_of(self.size) || tail.iter().any(|value| *value != 0) {
            return Err(format!("{range} is sent past the end (W4, S4)"));
        }
        let flight = Flight { bio, bytes };
        let sent = self.flights.push(flight);
        sent.map_err(|_| "more bios than blocks".to_owned())
    }

    /// Puts on record what the extents that are done say, or makes their data
    /// dirty again; then their writeback ends (O5, C2).
    fn settle(&mut self, done: Done) -> Result<(), String> {
        if let Some(range) = done.twice {
            return Err(format!("{range} is finished twice (O4)"));
        }
        for extent in done.extents {
            let removed = self.table.remove(extent.id(), extent.file_offset());
            let extent = removed.ok_or("an extent is done twice (O4)")?;
            let outcome = extent.outcome().ok_or("a done extent has no outcome")?;
            if extent.flags().contains(OrderedFlags::IO_ERROR) {
                self.make_dirty_again(&extent);
            } else {
                self.put_on_record(&extent, outcome.record);
            }
            self.end_writeback(extent.range());
        }
        Ok(())
    }

    fn make_dirty_again(&mut self, extent: &OrderedExtent) {
        if let Some(sync) = &mut self.sync {
            sync.failed = true;
        }
        let range = extent.range();
        if let Some(barrier) = &mut self.barrier
            && range.contains(offset_of(barrier.at))
        {
            barrier.sent = false;
        }
        if self.mistake == Mistake::FailedStaysClean {
            return;
        }
        let below_size = range_of(0, self.size.next_multiple_of(2));
        let Some(range) = range.overlap(below_size) else {
            return;
        };
        for cached in self.folios.iter_mut().flatten() {
            cached.state.mark_dirty_bytes(range);
        }
    }

    fn put_on_record(&mut self, extent: &OrderedExtent, record: Record) {
        let whole = extent.range();
        let recorded = match record {
            Record::Insert { .. } if self.mistake == Mistake::TruncatedIsRecorded => Some(whole),
            Record::Insert { file, .. } | Record::Convert { file, .. } => Some(file),
            Record::Nothing => None,
        };
        if let Some(file) = recorded {
            let halves = halves_of(file);
            for block in halves.start / 2..halves.end / 2 {
                self.mapped |= 1 << block;
            }
            for cached in self.folios.iter_mut().flatten() {
                let blocks = cached.state.geometry().blocks_inside(file);
                cached.maps.replace(blocks, MappingFlags::MAPPED);
            }
        }
        if let Some(barrier) = self.barrier
            && barrier.sent
            && whole.contains(offset_of(barrier.at))
        {
            self.barrier = None;
        }
        let size = extent.recorded_size(offset_of(self.pending), offset_of(self.size));
        self.pending = halves_of(FileRange::clamped(size, size)).start;
        self.record_size();
    }

    fn end_writeback(&mut self, range: FileRange) {
        for cached in self.folios.iter_mut().flatten() {
            let _ = cached.state.end_writeback_bytes(range);
        }
    }
}
