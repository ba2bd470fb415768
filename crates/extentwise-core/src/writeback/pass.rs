//! The pass over one folio, a step at a time (W1–W11).

use super::bio::Joined;
use super::{Bio, BioAssembler, PassCounts, PassError, PassReport, SegmentList};
use crate::bitmap::{BlockBitmap, RunCursor};
use crate::folio::FolioState;
use crate::geometry::{
    BlockIndex, BlockRange, DiskByte, FileOffset, FileRange, FolioGeometry, LenBytes,
};
use crate::ordered::{ExtentHint, ExtentStore, FinishObserver, IoOutcome, OrderedId, OrderedTable};
use core::fmt;

/// A run or a part of one that lies in one ordered extent: the unit of queueing
/// (W6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// Its bytes in the file.
    pub range: FileRange,
    /// Where they go on the device.
    pub disk: DiskByte,
    /// The ordered extent that covers it.
    pub ordered: OrderedId,
}

/// How far a pass goes at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stride {
    /// To the end of the run or of the ordered extent. What is found out about an
    /// extent holds for all runs in it.
    #[default]
    Extent,
    /// One block, each decided anew: the loop that extent-by-extent writeback replaces,
    /// over the same bookkeeping, to compare with.
    Block,
}

/// Input that a pass refuses; the folio is as before (W1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassInputError {
    /// The submit bitmap has another number of blocks than the folio.
    BitmapSize {
        /// Blocks of the bitmap.
        bitmap: usize,
        /// Blocks of the folio.
        folio: usize,
    },
    /// A block is to be submitted that is not dirty.
    NotDirty(BlockIndex),
    /// The range is not block-aligned or leaves the folio.
    Range(FileRange),
}

impl fmt::Display for PassInputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BitmapSize { bitmap, folio } => write!(
                f,
                "submit bitmap of {bitmap} blocks for a folio of {folio} blocks"
            ),
            Self::NotDirty(block) => write!(
                f,
                "block {} is to be submitted but is not dirty",
                block.get()
            ),
            Self::Range(range) => write!(
                f,
                "range {range}: must be block-aligned and inside the folio"
            ),
        }
    }
}

impl core::error::Error for PassInputError {}

/// What the pass asks of its embedder next, or tells it.
#[must_use = "each step asks for something or ends the pass"]
#[derive(Debug, PartialEq, Eq)]
pub enum Step<S, E> {
    /// Zero these bytes of the folio, `[i_size, eof)`, before the piece that
    /// holds them is queued: no stale byte past the size reaches the device (S4).
    Zero(FileRange),
    /// This piece is to be queued. It is accepted by asking for the next step,
    /// or turned away by [`WritebackPass::refuse`] (W6, W8).
    Queue(Piece),
    /// Send this bio; the device may complete it before the next step (W11).
    Send(Bio<S>),
    /// This run lay at or past the end of the file; it needed no I/O (W5).
    BeyondEof(FileRange),
    /// No ordered extent covers this gap; its data is lost and the error is
    /// recorded (W7).
    MissingOrdered(FileRange),
    /// The pass is over. The bio in progress stays with the assembler.
    Done(PassReport<E>),
}

/// What a step works on. It is borrowed for one step only, so that the embedder
/// may lock it for that long and complete bios between steps (W11).
#[derive(Debug)]
pub struct PassContext<'a, W, T, S, O> {
    /// The folio of the pass.
    pub folio: &'a mut FolioState<W>,
    /// The ordered extents of its file.
    pub table: &'a mut OrderedTable<T>,
    /// The bio in progress, and the next.
    pub bios: &'a mut BioAssembler<S>,
    /// Is told of extents that are done.
    pub observer: &'a mut O,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Look for the next run or the next part of the run.
    Decide,
    /// The zeroing for the piece was asked for; queue it.
    Zeroed,
    /// The piece was offered and not refused so far.
    Offered,
    /// The rest of the accepted piece is not in a bio yet.
    Fill,
    /// Reported.
    Over,
}

/// One pass over one folio, stepped by its embedder.
///
/// Costs a step for each word of the bitmap, each run and each ordered extent,
/// however many blocks they hold (W3).
///
/// **Invariant**: between steps, each block of the pass is still dirty, or was
/// counted in one field of [`PassCounts`], or lies in the piece just offered.
#[must_use = "a pass does nothing until it is stepped to its end"]
#[derive(Debug)]
pub struct WritebackPass<V, E> {
    submit: BlockBitmap<V>,
    geometry: FolioGeometry,
    /// Where the search for runs stands, and that for single blocks.
    runs: RunCursor,
    rest: BlockRange,
    /// The part of the current run not decided yet.
    run: BlockRange,
    /// The extent found last, and the block before which all is in it and below the
    /// end of the file.
    extent: ExtentHint,
    covered: usize,
    i_size: FileOffset,
    /// First block at or past the end of the file.
    eof_block: usize,
    stride: Stride,
    state: State,
    /// The piece at hand, less what is in a bio already; and its blocks.
    piece: Piece,
    blocks: BlockRange,
    counts: PassCounts,
    error: Option<PassError<E>>,
}

impl<V: AsRef<[u64]>, E> WritebackPass<V, E> {
    /// Begins a pass over the blocks of `range` that are set in `submit`, which
    /// must be dirty (W1). `i_size` is sampled once, while the folio is held
    /// against writers and truncate. The folio is held in writeback until the
    /// pass is done (W11).
    pub fn begin<W: AsRef<[u64]> + AsMut<[u64]>>(
        folio: &mut FolioState<W>,
        submit: BlockBitmap<V>,
        range: FileRange,
        i_size: FileOffset,
        stride: Stride,
    ) -> Result<Self, PassInputError> {
        let geometry = folio.geometry();
        let block_size = geometry.block_size();
        if submit.blocks() != geometry.blocks() {
            return Err(PassInputError::BitmapSize {
                bitmap: submit.blocks(),
                folio: geometry.blocks(),
            });
        }
        if !geometry.range().covers(range)
            || !block_size.divides(range.start().get())
            || !block_size.divides(range.end().get())
        {
            return Err(PassInputError::Range(range));
        }
        if let Some(block) = submit.first_outside(&folio.dirty()) {
            return Err(PassInputError::NotDirty(block));
        }
        folio.begin_pass();
        let below_size = FileRange::clamped(FileOffset::ZERO, i_size);
        let rest = geometry.blocks_inside(range);
        Ok(Self {
            runs: RunCursor::new(submit.words(), rest),
            submit,
            geometry,
            rest,
            run: BlockRange::default(),
            extent: ExtentHint::default(),
            covered: 0,
            i_size,
            eof_block: geometry.blocks_meeting(below_size).end().get(),
            stride,
            state: State::Decide,
            piece: Piece::default(),
            blocks: BlockRange::default(),
            counts: PassCounts::default(),
            error: None,
        })
    }

    /// Decides what comes next. After [`Step::Done`] the answer is an empty
    /// report.
    #[inline]
    pub fn step<W, T, S, O>(&mut self, cx: &mut PassContext<'_, W, T, S, O>) -> Step<S, E>
    where
        W: AsRef<[u64]> + AsMut<[u64]>,
        T: ExtentStore,
        S: SegmentList,
        O: FinishObserver,
    {
        if self.state == State::Offered {
            let len = self.piece.range.len();
            self.counts.submitted = self.counts.submitted.saturating_add(len);
            self.state = State::Fill;
        }
        while self.state == State::Fill {
            let pos = self.geometry.pos();
            match cx.bios.join(&self.piece, pos, self.i_size) {
                Joined::Next(bio, len) => {
                    self.after_joining(len);
                    return Step::Send(bio);
                }
                Joined::Bytes(len) => self.after_joining(len),
            }
        }
        match self.state {
            State::Zeroed => self.offer(cx),
            State::Over => Step::Done(self.report(cx)),
            _ => self.decide(cx),
        }
    }

    /// Turns away the piece of the [`Step::Queue`] just answered: its writeback
    /// ends and its bytes are finished with error. The bio in progress is not
    /// touched and later runs are still tried (W8). Without such a step it does
    /// nothing.
    pub fn refuse<W, T, S, O>(&mut self, error: E, cx: &mut PassContext<'_, W, T, S, O>)
    where
        W: AsRef<[u64]> + AsMut<[u64]>,
        T: ExtentStore,
        O: FinishObserver,
    {
        if self.state != State::Offered {
            return;
        }
        let range = self.piece.range;
        // The pass holds the folio, so its writeback cannot end here.
        let _ = cx.folio.end_writeback(self.blocks);
        cx.table.finish(range, IoOutcome::Failed, cx.observer);
        self.counts.refused = self.counts.refused.saturating_add(range.len());
        let file_offset = range.start();
        self.error
            .get_or_insert(PassError::Refused { file_offset, error });
        self.state = State::Decide;
    }

    /// Decides the next part of the run.
    #[inline]
    fn decide<W, T, S, O>(&mut self, cx: &mut PassContext<'_, W, T, S, O>) -> Step<S, E>
    where
        W: AsRef<[u64]> + AsMut<[u64]>,
        T: ExtentStore,
        S: SegmentList,
        O: FinishObserver,
    {
        if self.run.is_empty() && !self.next_run() {
            self.state = State::Over;
            return Step::Done(self.finish_pass(cx));
        }
        let start = self.run.start().get();
        if !self.is_covered(start, cx.table) {
            if start >= self.eof_block {
                return self.pass_over_eof(cx);
            }
            // W4: what crosses the end of the file is split there.
            let limit = self.run.end().get().min(self.eof_block);
            if !self.find_extent(limit, cx) {
                // The embedder may let others in while it sends, so the gap is
                // measured only after that.
                return match cx.bios.take() {
                    Some(bio) => Step::Send(bio),
                    None => self.pass_over_gap(limit, cx),
                };
            }
        }
        self.blocks = self.advance(self.run.end().get().min(self.covered));
        let at = self.geometry.offset_at(start);
        let range = FileRange::clamped(at, self.geometry.offset_at(self.blocks.end().get()));
        self.piece = Piece {
            range,
            disk: self.extent.disk_at(at),
            ordered: self.extent.id,
        };
        if range.contains(self.i_size) {
            self.state = State::Zeroed;
            return Step::Zero(FileRange::clamped(self.i_size, range.end()));
        }
        self.offer(cx)
    }

    /// Whether `block` is one of those that were decided with the last extent, which is
    /// where it was.
    #[inline]
    fn is_covered<T: ExtentStore>(&self, block: usize, table: &OrderedTable<T>) -> bool {
        block < self.covered && self.extent.is_current(table)
    }

    /// Finds the extent at the start of the run, of which the blocks before `limit` are
    /// below the end of the file, first trying the last one (W6); false where none is.
    #[inline]
    fn find_extent<W, T, S, O>(
        &mut self,
        limit: usize,
        cx: &mut PassContext<'_, W, T, S, O>,
    ) -> bool
    where
        T: ExtentStore,
        S: SegmentList,
    {
        let ahead = BlockRange::clamped(self.run.start().get(), limit);
        let range = self.geometry.bytes_of(ahead);
        if !self.extent.covers(range.start(), cx.table) {
            let Some(found) = cx.bios.find(cx.table, range) else {
                return false;
            };
            self.extent = *found;
        }
        let limit = match self.stride {
            Stride::Extent => self.eof_block,
            Stride::Block => limit,
        };
        let end = self.extent.range.end();
        self.covered = if end >= self.geometry.offset_at(limit) {
            limit
        } else {
            self.block_at(end)
        };
        true
    }

    /// W6: clear dirty, then set writeback, then queue.
    #[inline]
    fn offer<W, T, S, O>(&mut self, cx: &mut PassContext<'_, W, T, S, O>) -> Step<S, E>
    where
        W: AsRef<[u64]> + AsMut<[u64]>,
    {
        cx.folio.clean_into_writeback(self.blocks);
        self.state = State::Offered;
        Step::Queue(self.piece)
    }

    /// Takes the bytes that joined a bio off the piece (S2).
    #[inline]
    fn after_joining(&mut self, len: LenBytes) {
        let range = self.piece.range;
        if len >= range.len() || len.is_zero() {
            self.state = State::Decide;
            return;
        }
        let start = FileOffset::new(range.start().get().saturating_add(len.get()));
        self.piece.range = FileRange::clamped(start, range.end());
        self.piece.disk = DiskByte::new(self.piece.disk.get().saturating_add(len.get()));
    }

    /// Finds the next run; false where none is left.
    #[inline]
    fn next_run(&mut self) -> bool {
        let found = match self.stride {
            Stride::Extent => self.runs.next_run(self.submit.words()),
            Stride::Block => self.next_block(),
        };
        self.run = found.unwrap_or_default();
        found.is_some()
    }

    /// Finds the next block to submit by testing one after the other.
    fn next_block(&mut self) -> Option<BlockRange> {
        while !self.rest.is_empty() {
            let block = self.rest.start();
            self.rest = BlockRange::clamped(block.get() + 1, self.rest.end().get());
            if self.submit.test(block) {
                return Some(BlockRange::one(block));
            }
        }
        None
    }

    /// Takes the blocks up to `end` off the front of the run.
    #[inline]
    fn advance(&mut self, end: usize) -> BlockRange {
        let taken = BlockRange::clamped(self.run.start().get(), end);
        self.run = BlockRange::clamped(end, self.run.end().get());
        taken
    }

    /// The block that begins at `offset`, which is block-aligned and at most
    /// the folio's end.
    #[inline]
    fn block_at(&self, offset: FileOffset) -> usize {
        let before = FileRange::clamped(self.geometry.pos(), offset);
        self.geometry.blocks_inside(before).end().get()
    }

    /// W5: no I/O; all that the run meets is truncated and finished.
    fn pass_over_eof<W, T, S, O>(&mut self, cx: &mut PassContext<'_, W, T, S, O>) -> Step<S, E>
    where
        W: AsRef<[u64]> + AsMut<[u64]>,
        T: ExtentStore,
        O: FinishObserver,
    {
        let blocks = self.advance(self.run.end().get());
        let range = self.geometry.bytes_of(blocks);
        cx.table.truncate(range);
        cx.table.finish(range, IoOutcome::Skipped, cx.observer);
        cx.folio.clear_dirty(blocks);
        self.counts.beyond_eof = self.counts.beyond_eof.saturating_add(range.len());
        Step::BeyondEof(range)
    }

    /// W7: the gap ends where the next extent begins, so that no block that has
    /// one is cleaned with it.
    fn pass_over_gap<W, T, S, O>(
        &mut self,
        limit: usize,
        cx: &mut PassContext<'_, W, T, S, O>,
    ) -> Step<S, E>
    where
        W: AsRef<[u64]> + AsMut<[u64]>,
        T: ExtentStore,
    {
        let ahead = BlockRange::clamped(self.run.start().get(), limit);
        let next = cx.table.first_in(self.geometry.bytes_of(ahead));
        let end = next.map_or(limit, |extent| self.block_at(extent.file_offset()));
        let blocks = self.advance(end);
        let range = self.geometry.bytes_of(blocks);
        cx.folio.clear_dirty(blocks);
        cx.folio.start_writeback(blocks);
        // The pass holds the folio, so its writeback cannot end here.
        let _ = cx.folio.end_writeback(blocks);
        self.counts.missing = self.counts.missing.saturating_add(range.len());
        let file_offset = range.start();
        self.error
            .get_or_insert(PassError::MissingOrdered { file_offset });
        Step::MissingOrdered(range)
    }

    fn finish_pass<W, T, S, O>(&mut self, cx: &mut PassContext<'_, W, T, S, O>) -> PassReport<E>
    where
        W: AsRef<[u64]> + AsMut<[u64]>,
    {
        let writeback = cx.folio.end_pass();
        PassReport {
            writeback,
            ..self.report(cx)
        }
    }

    fn report<W, T, S, O>(&mut self, cx: &mut PassContext<'_, W, T, S, O>) -> PassReport<E>
    where
        W: AsRef<[u64]> + AsMut<[u64]>,
    {
        PassReport {
            error: self.error.take(),
            counts: core::mem::take(&mut self.counts),
            folio_dirty: cx.folio.is_dirty(),
            writeback: crate::folio::WritebackEnd::NotNow,
        }
    }
}
