//! Writeback: planning places, passing over folios, completing bios.

use alloc::vec::Vec;

use extentwise_core::bitmap::BlockBitmap;
use extentwise_core::errseq::ErrorClass;
use extentwise_core::geometry::{FileOffset, FileRange};
use extentwise_core::ordered::{
    FinishObserver, IoOutcome, OrderedExtent, OrderedFlags, OrderedId, OrderedKind,
};
use extentwise_core::write::MappingFlags;
use extentwise_core::writeback::{
    Bio, BioAssembler, PassContext, PassError, Segment, Step, WritebackPass,
};

use super::{Engine, Io, WHOLE, front};
use crate::config::ErrorPolicy;
use crate::folio::{Folio, Owner, Words};
use crate::slab::Key;
use crate::{Effect, Loss, Mapping, Memory};

/// A folio of a round, and its blocks to submit.
struct Planned {
    key: Key,
    pos: FileOffset,
    submit: BlockBitmap<Words<1>>,
}

/// The ordered extents that became done.
#[derive(Default)]
struct Done(Vec<OrderedExtent>);

impl FinishObserver for Done {
    fn completed(&mut self, extent: &OrderedExtent) {
        self.0.push(*extent);
    }
}

impl<M: Memory, P: Mapping> Engine<M, P> {
    /// Writes back what is dirty in every file.
    pub fn write_back_all(&mut self) {
        let files: Vec<Key> = self.files.iter().map(|(key, _)| key).collect();
        for file in files {
            self.write_back(file, WHOLE);
        }
    }

    /// Writes back dirty files, those that have waited longest first, until no
    /// more is dirty and not under way than the background limit allows (C5).
    pub(super) fn background_writeback(&mut self) {
        let mut files: Vec<(u64, Key)> = self
            .files
            .iter()
            .filter(|(_, file)| file.dirty_bytes > 0 && file.in_flight.is_empty())
            .map(|(key, file)| (file.dirty_since_nanos, key))
            .collect();
        files.sort_unstable();
        for (_, file) in files {
            if self.dirty_bytes <= self.config.dirty_bytes_background.get() {
                return;
            }
            self.write_back(file, self.background_range(file));
        }
    }

    /// What a background round writes of a file: all, but where nothing else is
    /// dirty, the end that does not fill an extent waits, if the limit allows. A
    /// writer who goes on would otherwise have each round end in a short write.
    fn background_range(&self, key: Key) -> FileRange {
        let last = self.files.get(key).and_then(|file| {
            let (_, folio) = file.dirty.last_key_value()?;
            let end = self.folios.get(*folio)?.geometry().range().end().get();
            (file.dirty_bytes == self.dirty_bytes).then_some(end)
        });
        let extent = self.config.extent_bytes_max.get();
        match last.map(|end| (end, end % extent)) {
            Some((end, rest)) if rest <= self.config.dirty_bytes_background.get() => {
                FileRange::clamped(FileOffset::ZERO, FileOffset::new(end - rest))
            }
            _ => WHOLE,
        }
    }

    /// One round: everything of `file` that is dirty in a folio that meets
    /// `range`, and not in writeback, is given a place and sent.
    pub(super) fn write_back(&mut self, key: Key, range: FileRange) {
        let mut planned = self.submittable(key, range);
        if planned.is_empty() {
            return;
        }
        self.allocate(key, &mut planned);
        let mut bios = BioAssembler::new(self.config.bio_limits);
        for folio in planned {
            self.pass_over(key, folio, &mut bios);
        }
        if let Some(bio) = bios.take() {
            self.send(key, bio);
        }
    }

    /// The folios of a round. One that a writer holds is left out, and waited
    /// for: what was copied past the size must not be zeroed (S4, W1).
    fn submittable(&mut self, key: Key, range: FileRange) -> Vec<Planned> {
        let mut planned = Vec::new();
        let Some(file) = self.files.get(key) else {
            return planned;
        };
        for (&pos, &folio_key) in file.dirty.range(..range.end()) {
            let Some(folio) = self.folios.get_mut(folio_key) else {
                continue;
            };
            if folio.geometry().range().overlap(range).is_none() {
                continue;
            }
            if matches!(folio.owner, Owner::Writer(_)) {
                folio.wanted = true;
                continue;
            }
            folio.wanted = false;
            if let Ok(submit) = folio.submittable()
                && submit.any()
            {
                planned.push(Planned {
                    key: folio_key,
                    pos,
                    submit,
                });
            }
        }
        planned
    }

    /// Gives the blocks of a round places on the device, in runs that go over
    /// the borders of folios (W14). Where that fails, they leave the round and
    /// follow the error policy; what has a place goes on.
    fn allocate(&mut self, key: Key, planned: &mut [Planned]) {
        let Some(file) = self.files.get(key) else {
            return;
        };
        let block = self.config.block_size;
        // Blocks past the end need no place: the pass passes them over (W5).
        let eof = FileOffset::new(block.ceil(file.i_size.get()));
        let below_size = FileRange::clamped(FileOffset::ZERO, eof);
        let mut runs: Vec<FileRange> = Vec::new();
        for Planned { key, submit, .. } in planned.iter() {
            let Some(geometry) = self.folios.get(*key).map(Folio::geometry) else {
                continue;
            };
            for run in submit.runs(geometry.all()) {
                let Some(run) = geometry.bytes_of(run).overlap(below_size) else {
                    continue;
                };
                match runs.last_mut() {
                    Some(last) if last.end() == run.start() => {
                        *last = FileRange::clamped(last.start(), run.end());
                    }
                    _ => runs.push(run),
                }
            }
        }
        let mut failed: Vec<FileRange> = Vec::new();
        let mut class = None;
        for mut run in runs {
            while !run.is_empty() && class.is_none() {
                match self.allocate_front(key, run) {
                    Ok(end) => run = FileRange::clamped(end, run.end()),
                    Err(error) => class = Some(error),
                }
            }
            if !run.is_empty() {
                failed.push(run);
            }
        }
        if let Some(class) = class {
            self.not_allocated(key, planned, &failed, class);
        }
    }

    /// Makes an ordered extent of the front of `run`; answers its end.
    fn allocate_front(&mut self, key: Key, run: FileRange) -> Result<FileOffset, ErrorClass> {
        let Some(file) = self.files.get_mut(key) else {
            return Err(ErrorClass::Io);
        };
        let asked = front(run, self.config.extent_bytes_max);
        let new = self.mapping.allocate(file.id, asked)?;
        let range = FileRange::at(new.file_offset, new.num_bytes);
        let range = range.filter(|range| range.start() == asked.start() && asked.covers(*range));
        let inserted = range.and_then(|range| Some((range, file.table.insert(new).ok()?)));
        let Some((range, id)) = inserted else {
            // Not what was asked, or it overlaps: nobody could finish it.
            self.mapping.give_back(file.id, new);
            return Err(ErrorClass::Io);
        };
        file.in_flight.insert(id);
        file.last_ordered = Some(id);
        self.counts.ordered_extents = self.counts.ordered_extents.saturating_add(1);
        // The promise is used up.
        let keys = self.folios_in(key, range);
        for key in keys {
            if let Some(folio) = self.folios.get_mut(key) {
                let blocks = folio.geometry().blocks_inside(range);
                folio.reserved_mut().clear(blocks);
            }
        }
        Ok(range.end())
    }

    /// The error policy for blocks that got no place (W14, C2).
    fn not_allocated(
        &mut self,
        key: Key,
        planned: &mut [Planned],
        failed: &[FileRange],
        class: ErrorClass,
    ) {
        for folio in planned {
            let Some(geometry) = self.folios.get(folio.key).map(Folio::geometry) else {
                continue;
            };
            for range in failed {
                let blocks = geometry.blocks_inside(*range);
                while let Some(run) = folio.submit.next_run(blocks) {
                    folio.submit.clear(run);
                    if let Some(folio) = self.folios.get_mut(folio.key) {
                        folio.failed_mut().set(run);
                    }
                    if self.config.policy == ErrorPolicy::Drop {
                        self.clean_lost(key, folio.key, geometry.bytes_of(run), class);
                    }
                }
            }
        }
        self.note_failure(key, class);
    }

    /// Cleans blocks whose data is lost by the policy, and tells so.
    fn clean_lost(&mut self, file_key: Key, key: Key, range: FileRange, class: ErrorClass) {
        let Some(folio) = self.folios.get_mut(key) else {
            return;
        };
        let blocks = folio.geometry().blocks_inside(range);
        let before = folio.dirty_in(blocks);
        folio.state.clear_dirty(blocks);
        folio.failed_mut().clear(blocks);
        self.unreserve(key, blocks);
        self.account(file_key, key, before, 0);
        self.tell_lost(file_key, range, Loss::Failed(class));
    }

    fn tell_lost(&mut self, file: Key, range: FileRange, why: Loss) {
        if let Some(file) = self.files.get_mut(file) {
            // Nobody will write it: the size need not wait for it.
            file.lower_barriers(range);
            self.effects.push_back(Effect::Lost {
                file: file.id,
                range,
                why,
            });
        }
    }

    /// Records that writeback of a file failed (E1), and latches it if that is
    /// the policy (C2).
    pub(super) fn note_failure(&mut self, key: Key, class: ErrorClass) {
        self.counts.failures = self.counts.failures.saturating_add(1);
        if let Some(file) = self.files.get_mut(key) {
            file.record_error(class);
        }
        if self.config.policy == ErrorPolicy::Latch {
            self.latch(key, class);
        }
    }

    /// The pass over one folio (W1-W11).
    fn pass_over(&mut self, key: Key, planned: Planned, bios: &mut BioAssembler<Vec<Segment>>) {
        let folio_key = planned.key;
        let (Some(file), Some(folio)) = (self.files.get(key), self.folios.get_mut(folio_key))
        else {
            return;
        };
        debug_assert_eq!(folio.geometry().pos(), planned.pos);
        let geometry = folio.geometry();
        let before = folio.dirty_in(geometry.all());
        for run in planned.submit.runs(geometry.all()) {
            folio.failed_mut().clear(run);
        }
        let pass = WritebackPass::<_, ErrorClass>::begin(
            &mut folio.state,
            planned.submit,
            geometry.range(),
            file.i_size,
            self.config.stride,
        );
        let Ok(mut pass) = pass else {
            return;
        };
        self.counts.passes = self.counts.passes.saturating_add(1);
        let mut done = Done::default();
        let report = loop {
            let (Some(file), Some(folio)) =
                (self.files.get_mut(key), self.folios.get_mut(folio_key))
            else {
                return;
            };
            let mut cx = PassContext {
                folio: &mut folio.state,
                table: &mut file.table,
                bios: &mut *bios,
                observer: &mut done,
            };
            match pass.step(&mut cx) {
                Step::Zero(range) => {
                    let place = folio.place_of(range);
                    self.memory.zero(&mut folio.bytes, place);
                }
                Step::Queue(_) => {}
                Step::Send(bio) => self.send(key, bio),
                Step::BeyondEof(range) => {
                    self.unreserve(folio_key, geometry.blocks_inside(range));
                }
                Step::MissingOrdered(range) => {
                    self.unreserve(folio_key, geometry.blocks_inside(range));
                    self.tell_lost(key, range, Loss::MissingOrdered);
                }
                Step::Done(report) => break report,
            }
        };
        if let Some(PassError::MissingOrdered { .. }) = report.error {
            self.note_failure(key, ErrorClass::Io);
        }
        let after = self
            .folios
            .get(folio_key)
            .map_or(0, |folio| folio.dirty_in(geometry.all()));
        self.account(key, folio_key, before, after);
        for extent in done.0 {
            self.extent_done(key, extent);
        }
    }

    fn send(&mut self, key: Key, bio: Bio<Vec<Segment>>) {
        let Some(file) = self.files.get_mut(key) else {
            return;
        };
        let (id, disk, len, valid_len) = (file.id, bio.disk_bytenr(), bio.len(), bio.valid_len());
        file.sent_bytes = file.sent_bytes.saturating_add(len.get());
        self.sent_bytes = self.sent_bytes.saturating_add(len.get());
        self.counts.bios = self.counts.bios.saturating_add(1);
        self.counts.bio_bytes = self.counts.bio_bytes.saturating_add(len.get());
        let io = self.new_io(Io::Bio(key, bio, self.now_nanos));
        self.effects.push_back(Effect::Write {
            io,
            file: id,
            disk,
            len,
            valid_len,
        });
    }

    /// A bio came back from the device (O4).
    pub(super) fn complete_bio(
        &mut self,
        key: Key,
        bio: &Bio<Vec<Segment>>,
        result: Result<(), ErrorClass>,
        sent_nanos: u64,
    ) {
        let Some(file) = self.files.get_mut(key) else {
            return;
        };
        let took = self.now_nanos.saturating_sub(sent_nanos);
        self.counts.writeback.record(took);
        file.sent_bytes = file.sent_bytes.saturating_sub(bio.len().get());
        self.sent_bytes = self.sent_bytes.saturating_sub(bio.len().get());
        file.written = file.written.saturating_add(1);
        let outcome = match result {
            Ok(()) => IoOutcome::Written {
                valid_end: bio.valid_end(),
            },
            Err(class) => {
                file.failing.entry(bio.ordered()).or_insert(class);
                IoOutcome::Failed
            }
        };
        let mut done = Done::default();
        file.table.finish(bio.file_range(), outcome, &mut done);
        for extent in done.0 {
            self.extent_done(key, extent);
        }
    }

    /// An ordered extent is done: the map learns of it, failed content is dirty
    /// again before its writeback ends (C2), and only then its blocks leave
    /// writeback: a piece that was written is not clean while another piece may
    /// still make the whole fail, for nothing records it.
    fn extent_done(&mut self, key: Key, extent: OrderedExtent) {
        let Some(outcome) = extent.outcome() else {
            return;
        };
        let Some(file) = self.files.get_mut(key) else {
            return;
        };
        let id: OrderedId = extent.id();
        file.table.remove(id, extent.file_offset());
        file.in_flight.remove(&id);
        let told = file.failing.remove(&id);
        let mut failure = extent
            .flags()
            .contains(OrderedFlags::IO_ERROR)
            .then(|| told.unwrap_or(ErrorClass::Io));
        let recorded = self.mapping.complete(file.id, &extent, outcome);
        if let (Err(class), None) = (recorded, failure) {
            failure = Some(class);
        }
        let range = extent.range();
        for folio in self.folios_in(key, range) {
            self.end_writeback(key, folio, range, failure);
        }
        match failure {
            Some(class) => {
                if self.config.policy == ErrorPolicy::Drop {
                    self.tell_lost(key, range, Loss::Failed(class));
                }
                self.note_failure(key, class);
            }
            None => self.raise_recorded(key, &extent),
        }
    }

    /// Ends the writeback of the blocks of a done extent in one folio.
    fn end_writeback(
        &mut self,
        key: Key,
        folio_key: Key,
        range: FileRange,
        failure: Option<ErrorClass>,
    ) {
        let Some(folio) = self.folios.get_mut(folio_key) else {
            return;
        };
        let geometry = folio.geometry();
        let Some(part) = geometry.range().overlap(range) else {
            return;
        };
        let blocks = geometry.blocks_inside(part);
        let before = folio.dirty_in(blocks);
        match failure {
            None => folio.parts().1.replace(blocks, MappingFlags::MAPPED),
            Some(_) if self.config.policy == ErrorPolicy::Drop => {
                folio.failed_mut().clear(blocks);
            }
            Some(_) => {
                folio.state.mark_dirty(blocks);
                folio.failed_mut().set(blocks);
            }
        }
        let after = folio.dirty_in(blocks);
        // Nobody waits for this folio alone; syncs wait for ordered extents.
        let _ = folio.state.end_writeback(blocks);
        if failure.is_some() && self.config.policy != ErrorPolicy::Drop {
            // The space just given back is promised again. Should the map not
            // keep to that, the next allocation tells.
            let _ = self.reserve(folio_key, blocks);
        }
        self.account(key, folio_key, before, after);
    }

    /// Tells the map the size on record, if it has changed.
    pub(super) fn tell_size(&mut self, key: Key) -> Result<(), ErrorClass> {
        let Some(file) = self.files.get_mut(key) else {
            return Err(ErrorClass::Gone);
        };
        if file.told != file.recorded {
            self.mapping.set_size(file.id, file.recorded)?;
            file.told = file.recorded;
        }
        Ok(())
    }

    fn raise_recorded(&mut self, key: Key, extent: &OrderedExtent) {
        let Some(file) = self.files.get_mut(key) else {
            return;
        };
        file.stalled = None;
        let size = extent.recorded_size(FileOffset::ZERO, file.i_size);
        file.lower_barriers(extent.range());
        file.raise_recorded(size);
        if let Err(class) = self.tell_size(key) {
            self.note_failure(key, class);
        }
        debug_assert!(extent.spec().kind != OrderedKind::Plain || extent.outcome().is_some());
    }
}
