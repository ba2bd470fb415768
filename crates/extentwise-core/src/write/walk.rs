//! The walk of one buffered write: `write_begin`, then `write_end`.

use super::{Mapping, MappingFlags, MappingState};
use crate::folio::FolioState;
use crate::geometry::{BlockIndex, BlockRange, FileOffset, FileRange, FolioGeometry, LenBytes};
use core::fmt;

/// A write that does not fit its folio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteInputError {
    /// The range holds no byte.
    Empty,
    /// The range leaves the folio.
    Outside(FileRange),
}

impl fmt::Display for WriteInputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a write covers at least one byte"),
            Self::Outside(range) => write!(f, "write {range}: must lie inside the folio"),
        }
    }
}

impl core::error::Error for WriteInputError {}

/// Why a write could not be prepared. `E` is the embedder's error, as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteError<E> {
    /// Mapping this block failed; it wins over failed reads (V5).
    Map {
        /// The block that was asked for.
        block: BlockIndex,
        /// Why.
        error: E,
    },
    /// The mapping answer for this block does not cover it: an I/O error (V11).
    BadMapping {
        /// The block that was asked for.
        block: BlockIndex,
    },
    /// Reading this block failed; it is the lowest that did (V5).
    Read {
        /// The block.
        block: BlockIndex,
        /// Why.
        error: E,
    },
}

impl<E: fmt::Display> fmt::Display for WriteError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Map { block, error } => write!(f, "mapping block {}: {error}", block.get()),
            Self::BadMapping { block } => write!(
                f,
                "mapping block {}: the answer does not cover it",
                block.get()
            ),
            Self::Read { block, error } => write!(f, "reading block {}: {error}", block.get()),
        }
    }
}

impl<E: core::error::Error> core::error::Error for WriteError<E> {}

/// What the walk asks of its embedder next.
#[must_use = "each answer asks for something or ends the write"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask<E> {
    /// Where is this block? Answer with [`BufferedWrite::mapped`].
    Map(BlockIndex),
    /// Zero these bytes of the folio's memory before the next step.
    Zero(FileRange),
    /// Begin to read this block into the folio; answer, now or later, with
    /// [`BufferedWrite::read_done`]. At most two are asked for a write (V4).
    Read(BlockIndex),
    /// Reads are still outstanding.
    WaitForReads,
    /// The write is prepared: copy the bytes, then [`BufferedWrite::commit`].
    Copy,
    /// The file now goes at least to here: publish its size before the next
    /// step, which makes the dirty bits visible (V14).
    PublishSize(FileOffset),
    /// The write is over; so many bytes from its start are committed. The
    /// caller tries the rest again (V8).
    Committed(LenBytes),
    /// The write could not be prepared and left nothing behind (V6).
    Failed(WriteError<E>),
}

/// What a step works on, borrowed for one step only.
#[derive(Debug)]
pub struct WriteContext<'a, W, M> {
    /// The folio written to.
    pub folio: &'a mut FolioState<W>,
    /// The mappings of its blocks.
    pub maps: &'a mut MappingState<M>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Looking at the blocks from `cursor` on.
    Walk,
    /// Waiting for the mapping of the block at `cursor`.
    Mapping,
    /// All blocks seen; waiting for reads.
    Reads,
    /// Prepared; the caller copies.
    Copying,
    /// Zeroing what this write made new, in the rest of these blocks (V6). The
    /// first block was zeroed already if `zeroed`.
    ZeroNew { rest: BlockRange, zeroed: bool },
    /// The size is out; the blocks can be marked.
    Publish,
    /// Over, with the bytes committed.
    Over,
}

/// One buffered write inside one folio, from `write_begin` to `write_end`.
///
/// Costs a step for each word of the bitmaps that the *write* crosses and for
/// each mapping asked, whatever the size of the folio (V1); a folio that is not
/// uptodate costs a step for each of its words once more at the commit (V9).
///
/// **Invariant**: bytes of an uptodate block are never zeroed (V3); no block is
/// marked uptodate before its bytes are there (V10); a write that is dropped
/// without [`commit`](Self::commit) leaves blocks NEW, so abandon it by
/// committing 0 bytes (V16).
#[must_use = "a write that is not committed leaves its new blocks behind; abandon it by committing 0 bytes"]
#[derive(Debug)]
pub struct BufferedWrite<E> {
    geometry: FolioGeometry,
    range: FileRange,
    blocks: BlockRange,
    cursor: usize,
    phase: Phase,
    /// Asks decided and not yet handed out: those of the edge blocks.
    asks: heapless::Deque<Ask<E>, 2>,
    reads: heapless::Vec<BlockIndex, 2>,
    error: Option<WriteError<E>>,
    copied: Option<LenBytes>,
    committed: LenBytes,
}

impl<E> BufferedWrite<E> {
    /// Begins a write of the bytes `range` of the file, which must lie in the
    /// folio and not be empty.
    pub fn begin<W: AsRef<[u64]> + AsMut<[u64]>>(
        folio: &FolioState<W>,
        range: FileRange,
    ) -> Result<Self, WriteInputError> {
        let geometry = folio.geometry();
        if range.is_empty() {
            return Err(WriteInputError::Empty);
        }
        if !geometry.range().covers(range) {
            return Err(WriteInputError::Outside(range));
        }
        let blocks = geometry.blocks_meeting(range);
        Ok(Self {
            geometry,
            range,
            blocks,
            cursor: blocks.start().get(),
            phase: Phase::Walk,
            asks: heapless::Deque::new(),
            reads: heapless::Vec::new(),
            error: None,
            copied: None,
            committed: LenBytes::ZERO,
        })
    }

    /// The bytes of the file to be written.
    #[must_use]
    pub const fn range(&self) -> FileRange {
        self.range
    }

    /// Decides what is needed next. It never blocks; an ask that was not
    /// answered is asked again.
    pub fn step<W, M>(&mut self, cx: &mut WriteContext<'_, W, M>) -> Ask<E>
    where
        W: AsRef<[u64]> + AsMut<[u64]>,
        M: AsRef<[u64]> + AsMut<[u64]>,
        E: Clone,
    {
        loop {
            if let Some(ask) = self.asks.pop_front() {
                return ask;
            }
            match self.phase {
                Phase::Walk => self.walk(cx),
                Phase::Mapping => return Ask::Map(BlockIndex::new(self.cursor)),
                Phase::Reads if !self.reads.is_empty() => return Ask::WaitForReads,
                Phase::Reads if self.error.is_some() => {
                    let rest = BlockRange::clamped(self.blocks.start().get(), self.cursor);
                    self.phase = Phase::ZeroNew {
                        rest,
                        zeroed: false,
                    };
                }
                Phase::Reads => self.phase = Phase::Copying,
                Phase::Copying => return Ask::Copy,
                Phase::ZeroNew { rest, zeroed } => {
                    if let Some(ask) = self.zero_new(rest, zeroed, cx) {
                        return ask;
                    }
                }
                Phase::Publish => {
                    self.mark_committed(cx);
                    self.after_marking(cx);
                }
                Phase::Over => return self.answer(),
            }
        }
    }

    /// Answers [`Ask::Map`]. An answer that does not cover the block is an error
    /// (V11). Without such an ask it does nothing.
    pub fn mapped<W, M>(&mut self, answer: Result<Mapping, E>, cx: &mut WriteContext<'_, W, M>)
    where
        W: AsRef<[u64]> + AsMut<[u64]>,
        M: AsRef<[u64]> + AsMut<[u64]>,
    {
        if self.phase != Phase::Mapping {
            return;
        }
        let block = BlockIndex::new(self.cursor);
        let asked = self.geometry.bytes_of(BlockRange::one(block));
        let failed = match answer {
            Err(error) => WriteError::Map { block, error },
            Ok(mapping) if !mapping.range.covers(asked) => WriteError::BadMapping { block },
            Ok(mapping) => {
                self.apply(mapping, cx);
                self.phase = Phase::Walk;
                return;
            }
        };
        // V5: the walk stops here; reads already begun are waited for.
        self.error = Some(failed);
        self.phase = Phase::Reads;
    }

    /// Answers [`Ask::Read`]: the block's bytes are in the folio, or could not
    /// be read. A block that was not asked for is ignored.
    pub fn read_done<W, M>(
        &mut self,
        block: BlockIndex,
        result: Result<(), E>,
        cx: &mut WriteContext<'_, W, M>,
    ) where
        W: AsRef<[u64]> + AsMut<[u64]>,
        M: AsRef<[u64]> + AsMut<[u64]>,
    {
        let Some(index) = self.reads.iter().position(|read| *read == block) else {
            return;
        };
        self.reads.swap_remove(index);
        let Err(error) = result else {
            cx.folio.mark_uptodate(BlockRange::one(block));
            return;
        };
        let lower = match &self.error {
            None => true,
            Some(WriteError::Read { block: other, .. }) => block < *other,
            Some(_) => false,
        };
        if lower {
            self.error = Some(WriteError::Read { block, error });
        }
    }

    /// Ends the copy of [`Ask::Copy`]: so many bytes from the write's start were
    /// really copied; more than the write holds count as all. Zero abandons the
    /// write (V16). The next steps ask for what the commit needs. Before
    /// [`Ask::Copy`] it does nothing.
    pub fn commit<W, M>(&mut self, copied: LenBytes, cx: &mut WriteContext<'_, W, M>)
    where
        W: AsRef<[u64]> + AsMut<[u64]>,
        M: AsRef<[u64]> + AsMut<[u64]>,
    {
        if self.phase != Phase::Copying {
            return;
        }
        let len = self.range.len();
        let copied = copied.min(len);
        self.copied = Some(copied);
        let stands = copied == len || cx.folio.is_uptodate();
        self.committed = if stands { copied } else { LenBytes::ZERO };
        if self.committed.is_zero() {
            self.phase = Phase::ZeroNew {
                rest: self.blocks,
                zeroed: false,
            };
            return;
        }
        self.phase = Phase::Publish;
        // Two asks fit, and none is left from the walk.
        let _ = self
            .asks
            .push_back(Ask::PublishSize(self.committed_range().end()));
    }

    /// V3, V4 for the mapped blocks at the cursor, up to the first unmapped.
    fn walk<W, M>(&mut self, cx: &mut WriteContext<'_, W, M>)
    where
        W: AsRef<[u64]> + AsMut<[u64]>,
        M: AsRef<[u64]> + AsMut<[u64]>,
    {
        let rest = BlockRange::clamped(self.cursor, self.blocks.end().get());
        let unmapped = cx.maps.next_unmapped(rest);
        let end = unmapped.map_or(rest.end().get(), |gap| gap.start().get());
        let known = BlockRange::clamped(self.cursor, end);
        self.edges(known, cx);
        // A NEW that is left here is stale: an abandoned write's (V3).
        cx.maps.clear_new(known);
        self.cursor = end;
        self.phase = match unmapped {
            Some(_) => Phase::Mapping,
            None => Phase::Reads,
        };
    }

    /// V3: a mapping answer replaces the flags of the blocks it holds for.
    fn apply<W, M>(&mut self, mapping: Mapping, cx: &mut WriteContext<'_, W, M>)
    where
        W: AsRef<[u64]> + AsMut<[u64]>,
        M: AsRef<[u64]> + AsMut<[u64]>,
    {
        let rest = BlockRange::clamped(self.cursor, self.blocks.end().get());
        let gap = cx.maps.next_unmapped(rest).unwrap_or(rest);
        let covered = self.geometry.blocks_inside(mapping.range).end().get();
        let run = BlockRange::clamped(self.cursor, covered.min(gap.end().get()));
        let flags = mapping.kind.flags();
        cx.maps.replace(run, flags);
        if flags.contains(MappingFlags::NEW) && cx.folio.is_uptodate() {
            cx.folio.mark_uptodate(run);
        }
        self.edges(run, cx);
        self.cursor = run.end().get();
    }

    /// Decides what the first and the last block of the write need, if they are
    /// in `run`; the others are covered whole and need nothing.
    fn edges<W, M>(&mut self, run: BlockRange, cx: &WriteContext<'_, W, M>)
    where
        W: AsRef<[u64]> + AsMut<[u64]>,
        M: AsRef<[u64]> + AsMut<[u64]>,
    {
        let first = self.blocks.start();
        let last = BlockIndex::new(self.blocks.end().get().saturating_sub(1));
        if run.contains(first) {
            self.edge(first, cx);
        }
        if last != first && run.contains(last) {
            self.edge(last, cx);
        }
    }

    /// V3, V4: a block of which the write leaves bytes alone. Those bytes are
    /// zeroed where the device holds nothing for them (newly new, delayed,
    /// unwritten, or new and stale), else read.
    fn edge<W, M>(&mut self, block: BlockIndex, cx: &WriteContext<'_, W, M>)
    where
        W: AsRef<[u64]> + AsMut<[u64]>,
        M: AsRef<[u64]> + AsMut<[u64]>,
    {
        if cx.folio.is_block_uptodate(block) {
            return;
        }
        let bytes = self.geometry.bytes_of(BlockRange::one(block));
        let head = FileRange::clamped(bytes.start(), self.range.start());
        let tail = FileRange::clamped(self.range.end().max(bytes.start()), bytes.end());
        if head.is_empty() && tail.is_empty() {
            return;
        }
        let nothing_there = MappingFlags::NEW | MappingFlags::DELAY | MappingFlags::UNWRITTEN;
        // Each edge block adds two asks if it is the only one, else one, and
        // the queue is empty when a run is looked at: two are enough.
        if !cx.maps.flags(block).intersects(nothing_there) {
            let _ = self.reads.push(block);
            let _ = self.asks.push_back(Ask::Read(block));
            return;
        }
        for part in [head, tail] {
            if !part.is_empty() {
                let _ = self.asks.push_back(Ask::Zero(part));
            }
        }
    }

    /// V6: one step of zeroing the blocks that this write made new. The part
    /// inside the write is zeroed if the block is not uptodate; then the block
    /// is uptodate, dirty and no longer new.
    fn zero_new<W, M>(
        &mut self,
        rest: BlockRange,
        zeroed: bool,
        cx: &mut WriteContext<'_, W, M>,
    ) -> Option<Ask<E>>
    where
        W: AsRef<[u64]> + AsMut<[u64]>,
        M: AsRef<[u64]> + AsMut<[u64]>,
    {
        let Some(new) = cx.maps.next_new(rest) else {
            self.after_zero_new(cx);
            return None;
        };
        let block = new.start();
        let one = BlockRange::one(block);
        if !zeroed && !cx.folio.is_block_uptodate(block) {
            self.phase = Phase::ZeroNew { rest, zeroed: true };
            let part = self.geometry.bytes_of(one).overlap(self.range)?;
            return Some(Ask::Zero(part));
        }
        cx.folio.mark_uptodate(one);
        cx.folio.mark_dirty(one);
        cx.maps.clear_new(one);
        self.phase = Phase::ZeroNew {
            rest: BlockRange::clamped(one.end().get(), rest.end().get()),
            zeroed: false,
        };
        None
    }

    /// V8: the new blocks of a short copy or an error are settled.
    fn after_zero_new<W, M>(&mut self, cx: &mut WriteContext<'_, W, M>)
    where
        W: AsRef<[u64]> + AsMut<[u64]>,
        M: AsRef<[u64]> + AsMut<[u64]>,
    {
        self.phase = Phase::Over;
        let Some(copied) = self.copied else {
            return;
        };
        if self.committed.is_zero() && !copied.is_zero() {
            // Readers see the bytes that were copied over an uptodate block, so
            // eviction must not take them back.
            let met = self.geometry.blocks_meeting(self.prefix(copied));
            for block in (met.start().get()..met.end().get()).map(BlockIndex::new) {
                if cx.folio.is_block_uptodate(block) {
                    cx.folio.mark_dirty(BlockRange::one(block));
                }
            }
        }
        cx.folio.promote_uptodate();
    }

    /// V9: the blocks of the committed bytes are uptodate, dirty and not new.
    fn mark_committed<W, M>(&mut self, cx: &mut WriteContext<'_, W, M>)
    where
        W: AsRef<[u64]> + AsMut<[u64]>,
        M: AsRef<[u64]> + AsMut<[u64]>,
    {
        let blocks = self.geometry.blocks_meeting(self.committed_range());
        cx.folio.mark_uptodate(blocks);
        cx.folio.mark_dirty(blocks);
        cx.maps.clear_new(blocks);
    }

    /// V8: on an uptodate folio, zero-new runs over what was not copied.
    fn after_marking<W, M>(&mut self, cx: &mut WriteContext<'_, W, M>)
    where
        W: AsRef<[u64]> + AsMut<[u64]>,
        M: AsRef<[u64]> + AsMut<[u64]>,
    {
        let done = self.geometry.blocks_meeting(self.committed_range());
        let rest = BlockRange::clamped(done.end().get(), self.blocks.end().get());
        if rest.is_empty() {
            cx.folio.promote_uptodate();
            self.phase = Phase::Over;
        } else {
            self.phase = Phase::ZeroNew {
                rest,
                zeroed: false,
            };
        }
    }

    fn committed_range(&self) -> FileRange {
        self.prefix(self.committed)
    }

    /// The first `len` bytes of the write.
    fn prefix(&self, len: LenBytes) -> FileRange {
        let start = self.range.start();
        let end = FileOffset::new(start.get().saturating_add(len.get()));
        FileRange::clamped(start, end.min(self.range.end()))
    }

    fn answer(&self) -> Ask<E>
    where
        E: Clone,
    {
        match &self.error {
            Some(error) => Ask::Failed(error.clone()),
            None => Ask::Committed(self.committed),
        }
    }
}
