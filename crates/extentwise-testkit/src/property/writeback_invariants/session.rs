//! Runs a case and holds every step of it against what must be.

use std::num::NonZeroUsize;

use extentwise_core::bitmap::BlockBitmap;
use extentwise_core::folio::{FolioState, WritebackEnd};
use extentwise_core::geometry::{
    BlockIndex, BlockRange, DiskByte, FileOffset, FileRange, FolioGeometry, LenBytes,
};
use extentwise_core::ordered::{
    ExtentStore, FinishObserver, IoOutcome, OrderedExtent, OrderedFlags, OrderedId, OrderedTable,
};
use extentwise_core::writeback::{
    Bio, BioAssembler, BioLimits, PassContext, PassCounts, PassError, PassInputError, Piece,
    SegmentList, Step, Stride, WritebackPass, complete_bio,
};

use super::super::choice::Choices;
use super::case::{Case, Event, FolioCase, bits, event};

type Pass = WritebackPass<[u64; 2], u8>;

/// A folio, and what its bits must be.
struct Folio {
    case: FolioCase,
    state: FolioState<[u64; 6]>,
    dirty: u128,
    writeback: u128,
    /// Whether a piece was ever in writeback, and how often writeback ended.
    entered: bool,
    ends: u32,
}

/// Told by the table: each extent is done once.
#[derive(Default)]
struct Told {
    completed: Vec<OrderedId>,
    double_bytes: u64,
}

impl FinishObserver for Told {
    fn completed(&mut self, extent: &OrderedExtent) {
        assert!(
            !self.completed.contains(&extent.id()),
            "done twice: {extent:?}"
        );
        self.completed.push(extent.id());
    }

    fn double_finish(&mut self, range: FileRange) {
        self.double_bytes += range.len().get();
    }
}

struct Session<'c, S, L> {
    block: u64,
    stride: Stride,
    max_bytes: Option<LenBytes>,
    max_segments: Option<NonZeroUsize>,
    start: u64,
    /// Blocks from the first folio's start to the last one's end.
    span_blocks: u64,
    choices: Choices<'c>,
    folios: Vec<Folio>,
    table: OrderedTable<S>,
    bios: BioAssembler<L>,
    told: Told,
    in_flight: Vec<Bio<L>>,
    last_sent: Option<Bio<L>>,
    /// Accepted pieces that are in no sent bio yet, in order.
    accepted: Vec<Piece>,
    /// Somebody finished what was not theirs, so a double finish may be told.
    meddled: bool,
}

/// Passes over all folios of the case, then completes what is in flight.
/// `max_segments` includes the capacity of the list.
pub(super) fn run<S: ExtentStore, L: SegmentList + Clone + std::fmt::Debug>(
    case: &Case<'_>,
    max_segments: Option<NonZeroUsize>,
) {
    let Some(mut session) = Session::<S, L>::new(case, max_segments) else {
        return;
    };
    for index in 0..session.folios.len() {
        session.refused_input(index);
        session.pass(index);
    }
    if let Some(bio) = session.bios.take() {
        session.sent(bio, None);
    }
    assert_eq!(session.accepted, [], "accepted and in no bio");
    while !session.in_flight.is_empty() {
        let index = session.choices.index(session.in_flight.len());
        let good = !session.choices.chance(64);
        session.complete(index, good, None);
    }
    session.close();
}

impl<'c, S: ExtentStore, L: SegmentList + Clone + std::fmt::Debug> Session<'c, S, L> {
    fn new(case: &Case<'c>, max_segments: Option<NonZeroUsize>) -> Option<Self> {
        let first = case.folios.first()?.pos;
        let block = case.block.bytes();
        let folios: Vec<Folio> = case
            .folios
            .iter()
            .map(|folio| Folio::new(*folio, case))
            .collect();
        let last = case.folios.last()?;
        let end = last.pos + block * u64::from(last.blocks);
        let mut table = OrderedTable::new(case.block);
        for spec in &case.extents {
            // A full table leaves the rest without an extent.
            let _ = table.insert(*spec);
        }
        let limits = BioLimits::new(case.max_bytes, case.max_segments, case.block);
        Some(Self {
            block,
            stride: case.stride,
            max_bytes: case.max_bytes,
            max_segments,
            start: first,
            span_blocks: (end - first) / block,
            choices: case.choices.clone(),
            folios,
            table,
            bios: BioAssembler::new(limits.unwrap_or(BioLimits::UNLIMITED)),
            told: Told::default(),
            in_flight: Vec::new(),
            last_sent: None,
            accepted: Vec::new(),
            meddled: false,
        })
    }

    /// Input that breaks a rule is refused, and leaves the folio as it was.
    fn refused_input(&mut self, index: usize) {
        let folio = &mut self.folios[index];
        let geometry = folio.state.geometry();
        let i_size = FileOffset::new(folio.case.i_size);
        let bitmap = |bits: u128, blocks: usize| {
            BlockBitmap::from_words([bits as u64, (bits >> 64) as u64], blocks).ok()
        };
        let begin = |state: &mut _, submit, range| {
            Pass::begin(state, submit, range, i_size, Stride::Extent).err()
        };
        let state = &mut folio.state;
        let clean = !folio.dirty & bits(0, folio.case.blocks);
        if clean != 0
            && let Some(submit) = bitmap(clean, geometry.blocks())
        {
            let block = BlockIndex::new(clean.trailing_zeros() as usize);
            let error = begin(state, submit, geometry.range());
            assert_eq!(error, Some(PassInputError::NotDirty(block)), "W1");
        }
        if let Some(submit) = bitmap(0, geometry.blocks() / 2) {
            let error = begin(state, submit, geometry.range());
            assert!(
                matches!(error, Some(PassInputError::BitmapSize { .. })),
                "W1"
            );
        }
        let start = geometry.pos();
        let unaligned = FileRange::at(start, LenBytes::new(self.block - 1)).unwrap_or_default();
        if let Some(submit) = bitmap(0, geometry.blocks()) {
            let error = begin(state, submit, unaligned);
            assert_eq!(error, Some(PassInputError::Range(unaligned)), "W1");
        }
        folio.check("after refused input");
    }

    fn pass(&mut self, index: usize) {
        let folio = &mut self.folios[index];
        let case = folio.case;
        let geometry = folio.state.geometry();
        let words = [case.submit as u64, (case.submit >> 64) as u64];
        let Ok(submit) = BlockBitmap::from_words(words, geometry.blocks()) else {
            panic!("{:b} is the bitmap of {} blocks", case.submit, case.blocks);
        };
        let i_size = FileOffset::new(case.i_size);
        let block = |index: u32| BlockIndex::new(index as usize);
        let run = BlockRange::new(block(case.range.0), block(case.range.1)).unwrap_or_default();
        let range = geometry.bytes_of(run);
        let begun = Pass::begin(&mut folio.state, submit, range, i_size, self.stride);
        let mut pass = match begun {
            Ok(pass) => pass,
            Err(error) => panic!("sound input was refused: {error}"),
        };
        let mut watch = Watch {
            left: case.submit & bits(case.range.0, case.range.1),
            counts: PassCounts::default(),
            error: None,
            zeroed: None,
        };
        loop {
            let step = pass.step(&mut context(
                &mut self.folios[index].state,
                &mut self.table,
                &mut self.bios,
                &mut self.told,
            ));
            match step {
                Step::Zero(range) => self.zero(index, range, &mut watch),
                Step::Queue(piece) => {
                    self.queue(index, piece, &mut watch);
                    if self.choices.chance(40) {
                        let error = self.choices.byte();
                        let mut cx = context(
                            &mut self.folios[index].state,
                            &mut self.table,
                            &mut self.bios,
                            &mut self.told,
                        );
                        pass.refuse(error, &mut cx);
                        // Once is enough: the second answers nothing.
                        pass.refuse(error, &mut cx);
                        self.refused(index, piece, error, &mut watch);
                    } else {
                        self.accepted.push(piece);
                        let submitted = &mut watch.counts.submitted;
                        *submitted = submitted.saturating_add(piece.range.len());
                    }
                }
                Step::Send(bio) => self.sent(bio, Some(index)),
                Step::BeyondEof(range) => self.beyond_eof(index, range, &mut watch),
                Step::MissingOrdered(range) => self.missing(index, range, &mut watch),
                Step::Done(report) => {
                    assert_eq!(watch.left, 0, "W9: blocks were not decided");
                    assert_eq!(report.counts, watch.counts, "W9");
                    assert_eq!(report.error, watch.error, "W9: the first error");
                    assert_eq!(watch.zeroed, None, "S4: zeroed for no piece");
                    let folio = &mut self.folios[index];
                    assert_eq!(report.folio_dirty, folio.dirty != 0, "W10");
                    folio.settled(report.writeback, None);
                    break;
                }
            }
            self.folios[index].check("after a step");
            self.happen(index);
        }
        self.folios[index].check("after the pass");
        let again = pass.step(&mut context(
            &mut self.folios[index].state,
            &mut self.table,
            &mut self.bios,
            &mut self.told,
        ));
        let Step::Done(empty) = again else {
            panic!("a pass that is over goes on: {again:?}");
        };
        assert_eq!(empty.counts, PassCounts::default());
        assert_eq!(
            (empty.error, empty.writeback),
            (None, WritebackEnd::NotNow),
            "writeback ends once"
        );
    }

    /// Takes the blocks of a decision off those that are left to decide.
    fn decide(&mut self, index: usize, range: FileRange, watch: &mut Watch) -> u128 {
        let folio = &mut self.folios[index];
        let blocks = folio.bits_of(range);
        assert_ne!(blocks, 0, "an empty decision at {range}");
        assert_eq!(
            blocks & !watch.left,
            0,
            "W9: {range} was not to be decided any more"
        );
        let before = bits(0, blocks.trailing_zeros());
        assert_eq!(watch.left & before, 0, "W3: runs ascend, {range}");
        watch.left &= !blocks;
        folio.dirty &= !blocks;
        if self.stride == Stride::Block {
            assert_eq!(range.len().get(), self.block, "a block at a time");
        }
        blocks
    }

    /// Whether the block at `start` lies at or past the end of the file (W2).
    fn is_beyond(&self, index: usize, start: u64) -> bool {
        u128::from(start) >= u128::from(self.folios[index].case.i_size)
    }

    fn zero(&mut self, index: usize, range: FileRange, watch: &mut Watch) {
        let i_size = self.folios[index].case.i_size;
        let eof = u128::from(i_size).div_ceil(u128::from(self.block)) * u128::from(self.block);
        assert_eq!(range.start().get(), i_size, "S4");
        assert_eq!(u128::from(range.end().get()), eof, "S4");
        assert_eq!(watch.zeroed.replace(range), None, "S4: zeroed twice");
    }

    fn queue(&mut self, index: usize, piece: Piece, watch: &mut Watch) {
        let range = piece.range;
        let zeroed = watch.zeroed.take();
        let i_size = FileOffset::new(self.folios[index].case.i_size);
        assert_eq!(zeroed.is_some(), range.contains(i_size), "S4: {range}");
        let blocks = self.decide(index, range, watch);
        let folio = &mut self.folios[index];
        folio.writeback |= blocks;
        folio.entered = true;
        let last = range.end().get() - self.block;
        assert!(!self.is_beyond(index, last), "W4: {range}");
        // Extents may have left or been split since the piece was zeroed.
        if zeroed.is_none() {
            let Some(extent) = self.table.lookup(range.start()) else {
                panic!("W7: {range} has no extent");
            };
            assert_eq!(extent.id(), piece.ordered);
            assert!(extent.range().covers(range), "W6: {range} of {extent:?}");
            assert_eq!(extent.disk_of(range.start()), Some(piece.disk), "W6");
        }
    }

    fn refused(&mut self, index: usize, piece: Piece, error: u8, watch: &mut Watch) {
        let folio = &mut self.folios[index];
        folio.writeback &= !folio.bits_of(piece.range);
        let refused = &mut watch.counts.refused;
        *refused = refused.saturating_add(piece.range.len());
        let file_offset = piece.range.start();
        watch
            .error
            .get_or_insert(PassError::Refused { file_offset, error });
        if let Some(extent) = self.table.lookup(file_offset)
            && !self.meddled
        {
            assert!(extent.flags().contains(OrderedFlags::IO_ERROR), "W8");
        }
    }

    fn beyond_eof(&mut self, index: usize, range: FileRange, watch: &mut Watch) {
        self.decide(index, range, watch);
        assert!(self.is_beyond(index, range.start().get()), "W5: {range}");
        let beyond = &mut watch.counts.beyond_eof;
        *beyond = beyond.saturating_add(range.len());
        for extent in self.table.iter_in(range) {
            let kept = range.start().distance_from(extent.file_offset());
            assert!(extent.truncated_len() <= kept, "W5: {extent:?}");
            assert!(extent.flags().contains(OrderedFlags::TRUNCATED), "O2");
        }
    }

    fn missing(&mut self, index: usize, range: FileRange, watch: &mut Watch) {
        self.decide(index, range, watch);
        self.folios[index].entered = true;
        let last = range.end().get() - self.block;
        assert!(!self.is_beyond(index, last), "W4: {range}");
        assert_eq!(self.table.first_in(range), None, "W7: {range}");
        assert!(self.bios.current().is_none(), "W7: the bio is sent first");
        let missing = &mut watch.counts.missing;
        *missing = missing.saturating_add(range.len());
        let file_offset = range.start();
        watch
            .error
            .get_or_insert(PassError::MissingOrdered { file_offset });
    }

    /// A bio is sent, by the pass over a folio or after the last.
    fn sent(&mut self, bio: Bio<L>, during: Option<usize>) {
        self.check_bio(&bio);
        self.take_accepted(&bio);
        if let Some(before) = &self.last_sent {
            self.check_brim(before, &bio);
        }
        self.last_sent = Some(bio.clone());
        self.in_flight.push(bio);
        if self.choices.chance(80) {
            let good = !self.choices.chance(64);
            self.complete(self.in_flight.len() - 1, good, during);
        }
    }

    fn check_bio(&self, bio: &Bio<L>) {
        assert!(!bio.is_empty());
        let segments = bio.segments();
        let mut at = bio.file_range().start();
        for segment in segments {
            assert_eq!(segment.file_offset, at, "S1: {bio:?}");
            assert!(!segment.len.is_zero(), "S2: {bio:?}");
            at = segment.range().end();
            let inside = |folio: &&Folio| folio.state.geometry().range().covers(segment.range());
            assert_eq!(self.folios.iter().filter(inside).count(), 1, "S2: {bio:?}");
        }
        assert_eq!(at, bio.file_range().end(), "S1: {bio:?}");
        assert!(self.max_bytes.is_none_or(|max| bio.len() <= max), "S2");
        let count = segments.len();
        assert!(
            self.max_segments.is_none_or(|max| count <= max.get()),
            "S2: {bio:?}"
        );
        let last = segments.last().map_or(at, |segment| segment.file_offset);
        let Some(folio) = self
            .folios
            .iter()
            .find(|folio| folio.state.geometry().range().contains(last))
        else {
            panic!("no folio holds {last}");
        };
        let start = bio.file_range().start();
        let valid = FileOffset::new(folio.case.i_size).distance_from(start);
        assert_eq!(bio.valid_len(), valid.min(bio.len()), "S4: {bio:?}");
    }

    /// Every accepted byte is in one bio, in order and at its place.
    fn take_accepted(&mut self, bio: &Bio<L>) {
        let (mut range, mut disk) = (bio.file_range(), bio.disk_bytenr());
        while !range.is_empty() {
            let Some(piece) = self.accepted.first_mut() else {
                panic!("{range} of {bio:?} was not accepted");
            };
            assert_eq!(piece.range.start(), range.start(), "in order");
            assert_eq!((piece.disk, piece.ordered), (disk, bio.ordered()), "S1");
            let taken = piece.range.len().min(range.len());
            let rest = |range: FileRange| {
                let start = FileOffset::new(range.start().get() + taken.get());
                FileRange::new(start, range.end()).unwrap_or_default()
            };
            disk = DiskByte::new(disk.get() + taken.get());
            piece.disk = disk;
            range = rest(range);
            piece.range = rest(piece.range);
            if piece.range.is_empty() {
                self.accepted.remove(0);
            }
        }
    }

    /// S2: a bio that the next one continues was full.
    fn check_brim(&self, before: &Bio<L>, bio: &Bio<L>) {
        let continues = before.ordered() == bio.ordered()
            && before.file_range().end() == bio.file_range().start()
            && before.disk_bytenr().checked_add(before.len()) == Some(bio.disk_bytenr());
        let at = bio.file_range().start();
        let new_folio = self.folios.iter().any(|folio| folio.case.pos == at.get());
        let full_bytes = self.max_bytes == Some(before.len());
        let full_segments = self
            .max_segments
            .is_some_and(|max| before.segments().len() == max.get());
        assert!(
            !continues || full_bytes || new_folio && full_segments,
            "S2: {bio:?} had room in {before:?}"
        );
    }

    fn complete(&mut self, index: usize, good: bool, during: Option<usize>) {
        let bio = self.in_flight.swap_remove(index);
        let result = if good { Ok(()) } else { Err(()) };
        let finished = complete_bio(&bio, &result, &mut self.table, &mut self.told);
        let total = finished.bytes.get() + finished.double_bytes.get() + finished.hole_bytes.get();
        assert_eq!(total, bio.len().get(), "O4");
        for segment in bio.segments() {
            let range = segment.range();
            let found = (0..self.folios.len())
                .find(|index| self.folios[*index].state.geometry().range().covers(range));
            let Some(index) = found else {
                panic!("no folio holds {segment:?}");
            };
            let folio = &mut self.folios[index];
            folio.writeback &= !folio.bits_of(range);
            let end = folio.state.end_writeback_bytes(range);
            folio.settled(end, during.filter(|during| *during == index));
            folio.check("after a completion");
        }
    }

    /// Others do something between two steps of the pass over a folio.
    fn happen(&mut self, index: usize) {
        match event(&mut self.choices, self.span_blocks) {
            Event::Nothing => {}
            Event::Complete(which, good) => {
                if which < self.in_flight.len() {
                    self.complete(which, good, Some(index));
                }
            }
            Event::FinishTwice(a, b, good) => {
                self.meddled = true;
                let at = |block: u64| FileOffset::new(self.start + block * self.block);
                let range = FileRange::new(at(a), at(b)).unwrap_or_default();
                let outcome = if good {
                    IoOutcome::Skipped
                } else {
                    IoOutcome::Failed
                };
                self.table.finish(range, outcome, &mut self.told);
            }
            Event::Dirty(block) => {
                let folio = &mut self.folios[index];
                let block = block % folio.case.blocks;
                folio.dirty |= 1 << block;
                let one = BlockRange::one(BlockIndex::new(block as usize));
                folio.state.mark_dirty(one);
            }
            Event::Remove => {
                let done = self.extents(|extent| extent.outcome().is_some());
                if let Some((id, start)) = done {
                    assert!(self.table.remove(id, start).is_some());
                }
            }
            Event::Split(block) => {
                let at = FileOffset::new(self.start + block * self.block);
                let _ = self.table.split(at);
            }
        }
    }

    /// The first extent for which `wanted` holds.
    fn extents(&self, wanted: impl Fn(&OrderedExtent) -> bool) -> Option<(OrderedId, FileOffset)> {
        let everything = FileRange::new(FileOffset::ZERO, FileOffset::MAX).unwrap_or_default();
        let mut extents = self.table.iter_in(everything);
        let found = extents.find(|extent| wanted(extent))?;
        Some((found.id(), found.file_offset()))
    }

    /// All is over: writeback ended once where there was any.
    fn close(&self) {
        for folio in &self.folios {
            assert_eq!(folio.writeback, 0, "a block stays in writeback");
            assert_eq!(folio.ends, u32::from(folio.entered), "W11");
            folio.check("at the end");
        }
        assert!(
            self.meddled || self.told.double_bytes == 0,
            "O4: {} bytes were finished twice",
            self.told.double_bytes
        );
    }
}

/// What a pass has still to decide, and what it must report.
struct Watch {
    left: u128,
    counts: PassCounts,
    error: Option<PassError<u8>>,
    zeroed: Option<FileRange>,
}

impl Folio {
    fn new(folio: FolioCase, case: &Case<'_>) -> Self {
        let size = LenBytes::new(case.block.bytes() * u64::from(folio.blocks));
        let geometry = FolioGeometry::new(FileOffset::new(folio.pos), size, case.block);
        let state = geometry.map(FolioState::empty);
        let Ok(Ok(mut state)) = state else {
            panic!("{folio:?} is a folio");
        };
        for block in (0..folio.blocks).filter(|block| folio.dirty >> block & 1 == 1) {
            state.mark_dirty(BlockRange::one(BlockIndex::new(block as usize)));
        }
        Self {
            case: folio,
            state,
            dirty: folio.dirty,
            writeback: 0,
            entered: false,
            ends: 0,
        }
    }

    fn bits_of(&self, range: FileRange) -> u128 {
        let geometry = self.state.geometry();
        assert!(geometry.range().covers(range), "{range} leaves the folio");
        let size = geometry.block_size().bytes();
        let into = |at: FileOffset| (at.get() - self.case.pos) / size;
        bits(into(range.start()) as u32, into(range.end()) as u32)
    }

    /// Writeback ends once, and never while its pass goes on (W11).
    fn settled(&mut self, end: WritebackEnd, during: Option<usize>) {
        if end == WritebackEnd::Ended {
            assert_eq!(during, None, "W11: writeback ended during the pass");
            assert_eq!(self.writeback, 0, "W11: pieces are in flight");
            self.ends += 1;
        }
    }

    /// Bits and folio-level answers are what they must be (W9).
    fn check(&self, when: &str) {
        let word = |words: &[u64]| u128::from(words[1]) << 64 | u128::from(words[0]);
        assert_eq!(word(self.state.dirty().words()), self.dirty, "dirty {when}");
        let writeback = word(self.state.writeback().words());
        assert_eq!(writeback, self.writeback, "writeback {when}");
        assert_eq!(self.state.is_dirty(), self.dirty != 0, "{when}");
        assert_eq!(self.state.is_in_writeback(), self.writeback != 0, "{when}");
    }
}

fn context<'a, S, L>(
    folio: &'a mut FolioState<[u64; 6]>,
    table: &'a mut OrderedTable<S>,
    bios: &'a mut BioAssembler<L>,
    observer: &'a mut Told,
) -> PassContext<'a, [u64; 6], S, L, Told> {
    PassContext {
        folio,
        table,
        bios,
        observer,
    }
}
