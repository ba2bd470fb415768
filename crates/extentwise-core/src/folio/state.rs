//! The state of one folio's blocks.

use crate::bitmap::{BitmapError, BlockBitmap, BlockBitmaps};
use crate::geometry::{BlockIndex, BlockRange, BlockSize, FileOffset, FileRange, FolioGeometry};

const DIRTY: usize = 0;
const WRITEBACK: usize = 1;
const UPTODATE: usize = 2;

/// Whether a call was the one that ended the folio's writeback.
#[must_use = "the folio's writeback ends once, and whoever waits for it must be told then"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WritebackEnd {
    /// Nothing ended: more pieces are in flight, a pass still holds the folio,
    /// or no writeback was going on.
    NotNow,
    /// The last piece ended and no pass holds the folio: writeback is over (W11).
    Ended,
}

/// Blocks of a folio that could not be invalidated because they are in writeback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InWriteback(
    /// The first run of blocks in writeback.
    pub BlockRange,
);

/// Per-block state of one folio: three bitmaps, over words of type `W` that they
/// share.
///
/// The folio-level answers ([`is_dirty`](Self::is_dirty),
/// [`is_in_writeback`](Self::is_in_writeback)) are always derived from the bits,
/// so they cannot disagree with them (W9).
///
/// **Invariant**: the end of writeback is answered ([`WritebackEnd::Ended`])
/// exactly once for each time that a piece entered writeback while none was,
/// and never while a pass holds the folio (W11).
#[derive(Clone, Debug)]
pub struct FolioState<W> {
    bits: BlockBitmaps<W, 3>,
    // The geometry, less what the bitmaps know of it: there are many folios.
    pos: FileOffset,
    block_size: BlockSize,
    folio_uptodate: bool,
    sync_tag: bool,
    writeback_open: bool,
    passes: u32,
}

impl<const N: usize> FolioState<[u64; N]> {
    /// A folio with nothing uptodate, dirty or in writeback, in `N` words of its
    /// own: three for each 64 blocks.
    pub fn empty(geometry: FolioGeometry) -> Result<Self, BitmapError> {
        Self::new(geometry, [0; N])
    }
}

impl<W: AsRef<[u64]> + AsMut<[u64]>> FolioState<W> {
    /// A folio with nothing uptodate, dirty or in writeback, over three
    /// bitmaps' worth of words, which are cleared.
    pub fn new(geometry: FolioGeometry, words: W) -> Result<Self, BitmapError> {
        Ok(Self {
            bits: BlockBitmaps::cleared(words, geometry.blocks())?,
            pos: geometry.pos(),
            block_size: geometry.block_size(),
            folio_uptodate: false,
            sync_tag: false,
            writeback_open: false,
            passes: 0,
        })
    }

    /// Where the folio lies.
    #[inline]
    pub const fn geometry(&self) -> FolioGeometry {
        FolioGeometry::from_parts(self.pos, self.bits.blocks(), self.block_size)
    }

    /// The dirty blocks.
    #[inline]
    pub fn dirty(&self) -> BlockBitmap<&[u64]> {
        self.bits.get::<DIRTY>()
    }

    /// The blocks in writeback.
    #[inline]
    pub fn writeback(&self) -> BlockBitmap<&[u64]> {
        self.bits.get::<WRITEBACK>()
    }

    /// Whether any block is dirty. Costs a step a word.
    pub fn is_dirty(&self) -> bool {
        self.dirty().any()
    }

    /// Whether any block is in writeback. Costs a step a word.
    pub fn is_in_writeback(&self) -> bool {
        self.writeback().any()
    }

    /// Makes the blocks of `run` dirty. A block in writeback may be made dirty
    /// again; it then stays dirty when that writeback ends (C3).
    pub fn mark_dirty(&mut self, run: BlockRange) {
        self.bits.get_mut::<DIRTY>().set(run);
    }

    /// Makes every block that `range` meets dirty: rounded outwards (W13).
    pub fn mark_dirty_bytes(&mut self, range: FileRange) {
        self.mark_dirty(self.geometry().blocks_meeting(range));
    }

    /// Makes the blocks that lie wholly in `range` clean: rounded inwards (W13).
    pub fn clear_dirty_bytes(&mut self, range: FileRange) {
        self.clear_dirty(self.geometry().blocks_inside(range));
    }

    /// Makes the blocks of `run` clean; the sync tag goes with the last of them.
    pub fn clear_dirty(&mut self, run: BlockRange) {
        self.bits.get_mut::<DIRTY>().clear(run);
        self.untag_if_clean();
    }

    #[inline]
    fn untag_if_clean(&mut self) {
        if self.sync_tag && !self.dirty().any() {
            self.sync_tag = false;
        }
    }

    /// Marks the folio as one that the sync going on must write (W12). A clean
    /// folio takes no mark.
    pub fn tag_for_sync(&mut self) {
        self.sync_tag = self.dirty().any();
    }

    /// Whether a sync must write this folio. The mark goes only when no block
    /// of the folio is dirty (W12).
    pub const fn is_tagged_for_sync(&self) -> bool {
        self.sync_tag
    }

    /// Puts the blocks of `run` into writeback.
    ///
    /// The pass clears dirty *before* it calls this (W6): a writer who comes in
    /// between finds the block clean, makes it dirty again, and loses nothing.
    pub fn start_writeback(&mut self, run: BlockRange) {
        self.bits.get_mut::<WRITEBACK>().set(run);
        self.writeback_open |= !run.is_empty() && run.start().get() < self.geometry().blocks();
    }

    /// Makes the blocks of `run` clean, then puts them into writeback (W6): as
    /// [`clear_dirty`](Self::clear_dirty) and then
    /// [`start_writeback`](Self::start_writeback), in one walk.
    #[inline]
    pub(crate) fn clean_into_writeback(&mut self, run: BlockRange) {
        let (mut dirty, mut writeback) = self.bits.pair_mut::<DIRTY, WRITEBACK>();
        self.writeback_open |= dirty.move_to(&mut writeback, run);
        self.untag_if_clean();
    }

    /// Ends the writeback of the blocks of `run`. Blocks that are not in
    /// writeback are left alone.
    pub fn end_writeback(&mut self, run: BlockRange) -> WritebackEnd {
        self.bits.get_mut::<WRITEBACK>().clear(run);
        self.settle()
    }

    /// Ends the writeback of the blocks that lie wholly in `range`, as for a
    /// segment of a completed bio.
    pub fn end_writeback_bytes(&mut self, range: FileRange) -> WritebackEnd {
        self.end_writeback(self.geometry().blocks_inside(range))
    }

    /// Holds the folio in writeback while a pass queues its pieces, so that a
    /// bio completing inside the submit call cannot end it early (W11). The
    /// passes of this crate do this themselves; it is public for embedders who
    /// write back by their own loop.
    pub fn begin_pass(&mut self) {
        self.passes = self.passes.saturating_add(1);
    }

    /// Lets go of the hold of one [`begin_pass`](Self::begin_pass).
    pub fn end_pass(&mut self) -> WritebackEnd {
        self.passes = self.passes.saturating_sub(1);
        self.settle()
    }

    #[inline]
    fn uptodate(&self) -> BlockBitmap<&[u64]> {
        self.bits.get::<UPTODATE>()
    }

    fn settle(&mut self) -> WritebackEnd {
        if !self.writeback_open || self.passes > 0 || self.writeback().any() {
            return WritebackEnd::NotNow;
        }
        self.writeback_open = false;
        WritebackEnd::Ended
    }

    /// Whether `block` is uptodate. A folio that is uptodate outranks the bit of
    /// the block (V2).
    pub fn is_block_uptodate(&self, block: BlockIndex) -> bool {
        if self.folio_uptodate {
            block.get() < self.geometry().blocks()
        } else {
            self.uptodate().test(block)
        }
    }

    /// Whether the folio as a whole is uptodate.
    pub const fn is_uptodate(&self) -> bool {
        self.folio_uptodate
    }

    /// Whether every block of `run` is uptodate.
    pub fn is_run_uptodate(&self, run: BlockRange) -> bool {
        self.folio_uptodate || self.uptodate().all_in(run)
    }

    /// The first run of blocks in `range` that are not uptodate.
    pub fn next_stale(&self, range: BlockRange) -> Option<BlockRange> {
        if self.folio_uptodate {
            return None;
        }
        self.uptodate().next_gap(range)
    }

    /// Marks blocks uptodate, whose bytes are really there (V10).
    pub fn mark_uptodate(&mut self, run: BlockRange) {
        self.bits.get_mut::<UPTODATE>().set(run);
    }

    /// Declares the whole folio uptodate, as after reading all of it.
    pub fn mark_folio_uptodate(&mut self) {
        self.folio_uptodate = true;
    }

    /// Declares the folio uptodate if all its blocks are (V9). Costs a step a
    /// word unless it is uptodate already.
    pub fn promote_uptodate(&mut self) -> bool {
        self.folio_uptodate = self.folio_uptodate || self.uptodate().all_in(self.geometry().all());
        self.folio_uptodate
    }

    /// Forgets the blocks that lie wholly in `range`: neither uptodate nor dirty
    /// any more, as for a truncate or a punch. Folio-level uptodate is first
    /// pushed down to the blocks (V2); a block that `range` only touches keeps
    /// its state (W13). Answers the blocks forgotten; refuses, changing nothing,
    /// while one of them is in writeback (C12).
    pub fn invalidate(&mut self, range: FileRange) -> Result<BlockRange, InWriteback> {
        let run = self.geometry().blocks_inside(range);
        if let Some(busy) = self.writeback().next_run(run) {
            return Err(InWriteback(busy));
        }
        if self.folio_uptodate && !run.is_empty() {
            self.mark_uptodate(self.geometry().all());
            self.folio_uptodate = false;
        }
        self.bits.get_mut::<UPTODATE>().clear(run);
        self.clear_dirty(run);
        Ok(run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::{BlockSize, FileOffset, LenBytes};

    fn folio() -> FolioState<[u64; 3]> {
        let block = BlockSize::new(4096).unwrap();
        let geometry = FolioGeometry::new(FileOffset::ZERO, LenBytes::new(65536), block).unwrap();
        FolioState::empty(geometry).unwrap()
    }

    fn run(start: usize, end: usize) -> BlockRange {
        BlockRange::clamped(start, end)
    }

    fn bytes(start: u64, end: u64) -> FileRange {
        FileRange::new(FileOffset::new(start), FileOffset::new(end)).unwrap()
    }

    #[test]
    fn w13_partly_covered_blocks_stay_dirty() {
        let mut folio = folio();
        folio.mark_dirty_bytes(bytes(4095, 8193));
        assert_eq!(folio.dirty().next_run(run(0, 16)), Some(run(0, 3)));
        folio.clear_dirty_bytes(bytes(1, 12287));
        assert!(folio.dirty().test(BlockIndex::new(0)));
        assert!(!folio.dirty().test(BlockIndex::new(1)));
        assert!(folio.dirty().test(BlockIndex::new(2)));
    }

    #[test]
    fn w12_the_sync_tag_goes_with_the_last_dirty_block_only() {
        let mut folio = folio();
        folio.tag_for_sync();
        assert!(!folio.is_tagged_for_sync());
        folio.mark_dirty(run(0, 2));
        folio.tag_for_sync();
        folio.clear_dirty(run(0, 1));
        assert!(folio.is_tagged_for_sync());
        folio.clear_dirty(run(1, 2));
        assert!(!folio.is_tagged_for_sync());
    }

    #[test]
    fn w11_writeback_ends_once_and_not_while_a_pass_holds_the_folio() {
        let mut folio = folio();
        folio.begin_pass();
        folio.start_writeback(run(0, 2));
        assert_eq!(folio.end_writeback(run(0, 2)), WritebackEnd::NotNow);
        folio.start_writeback(run(4, 5));
        assert_eq!(folio.end_pass(), WritebackEnd::NotNow);
        assert!(folio.is_in_writeback());
        assert_eq!(folio.end_writeback(run(4, 5)), WritebackEnd::Ended);
        assert_eq!(folio.end_writeback(run(4, 5)), WritebackEnd::NotNow);
    }

    #[test]
    fn a_pass_that_queued_nothing_ends_no_writeback() {
        let mut folio = folio();
        folio.begin_pass();
        folio.start_writeback(run(3, 3));
        assert_eq!(folio.end_pass(), WritebackEnd::NotNow);
    }

    #[test]
    fn c3_a_block_dirtied_in_writeback_stays_dirty() {
        let mut folio = folio();
        folio.start_writeback(run(0, 1));
        folio.mark_dirty(run(0, 1));
        assert_eq!(folio.end_writeback(run(0, 1)), WritebackEnd::Ended);
        assert!(folio.is_dirty());
    }

    #[test]
    fn v2_an_uptodate_folio_outranks_its_bits_until_part_is_invalidated() {
        let mut folio = folio();
        folio.mark_folio_uptodate();
        assert!(folio.is_block_uptodate(BlockIndex::new(9)));
        assert!(!folio.is_block_uptodate(BlockIndex::new(16)));
        folio.mark_dirty(run(0, 16));
        assert_eq!(folio.invalidate(bytes(0, 53248 + 100)), Ok(run(0, 13)));
        assert!(!folio.is_uptodate());
        assert!(!folio.is_block_uptodate(BlockIndex::new(12)));
        assert!(folio.is_block_uptodate(BlockIndex::new(13)));
        assert_eq!(folio.dirty().next_run(run(0, 16)), Some(run(13, 16)));
        assert_eq!(folio.next_stale(run(0, 16)), Some(run(0, 13)));
    }

    #[test]
    fn invalidating_less_than_a_block_keeps_the_folio_uptodate() {
        let mut folio = folio();
        folio.mark_folio_uptodate();
        assert_eq!(folio.invalidate(bytes(1, 4095)), Ok(run(1, 1)));
        assert!(folio.is_uptodate());
    }

    #[test]
    fn c12_blocks_in_writeback_are_not_invalidated() {
        let mut folio = folio();
        folio.mark_uptodate(run(0, 4));
        folio.start_writeback(run(2, 3));
        assert_eq!(
            folio.invalidate(bytes(0, 65536)),
            Err(InWriteback(run(2, 3)))
        );
        assert!(folio.is_run_uptodate(run(0, 4)));
    }

    #[test]
    fn v9_a_folio_is_promoted_when_its_last_block_is_uptodate() {
        let mut folio = folio();
        folio.mark_uptodate(run(0, 15));
        assert!(!folio.promote_uptodate());
        folio.mark_uptodate(run(15, 16));
        assert!(folio.promote_uptodate());
        assert_eq!(folio.next_stale(run(0, 16)), None);
    }
}
