//! Where a folio lies in its file and how its bytes map to blocks.

use super::{BlockIndex, BlockRange, BlockSize, FileOffset, FileRange, GeometryError, LenBytes};

/// Position and size of a folio: a naturally aligned power-of-two piece of a
/// file's cache, at least one block long. There is no upper limit but the
/// address space; 4,096 blocks and more are ordinary (V12).
///
/// **Invariant**: the folio ends at or before 2^64 - 1 and the number of its
/// blocks fits a `usize`, so arithmetic inside it cannot overflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FolioGeometry {
    pos: FileOffset,
    blocks: usize,
    block_size: BlockSize,
}

impl FolioGeometry {
    /// A folio of `size` bytes at `pos`.
    pub fn new(
        pos: FileOffset,
        size: LenBytes,
        block_size: BlockSize,
    ) -> Result<Self, GeometryError> {
        let bytes = size.get();
        let blocks = usize::try_from(bytes >> block_size.shift())
            .map_err(|_| GeometryError::FolioSize(size))?;
        if !bytes.is_power_of_two() || blocks == 0 {
            return Err(GeometryError::FolioSize(size));
        }
        if pos.get() & (bytes - 1) != 0 {
            return Err(GeometryError::FolioPosition(pos));
        }
        if pos.checked_add(size).is_none() {
            return Err(GeometryError::FolioEnd(pos));
        }
        Ok(Self {
            pos,
            blocks,
            block_size,
        })
    }

    /// The folio of another geometry, put together again from its parts.
    pub(crate) const fn from_parts(pos: FileOffset, blocks: usize, block_size: BlockSize) -> Self {
        Self {
            pos,
            blocks,
            block_size,
        }
    }

    /// First byte of the folio in its file.
    #[must_use]
    pub const fn pos(self) -> FileOffset {
        self.pos
    }

    /// Blocks in the folio; a power of two.
    #[must_use]
    pub const fn blocks(self) -> usize {
        self.blocks
    }

    /// Size of a block.
    #[must_use]
    pub const fn block_size(self) -> BlockSize {
        self.block_size
    }

    /// Bytes in the folio.
    #[must_use]
    pub const fn size(self) -> LenBytes {
        LenBytes::new((self.blocks as u64) << self.block_size.shift())
    }

    /// The folio's bytes in its file.
    #[must_use]
    pub const fn range(self) -> FileRange {
        FileRange::clamped(self.pos, self.offset_at(self.blocks))
    }

    /// All blocks of the folio.
    #[must_use]
    pub const fn all(self) -> BlockRange {
        BlockRange::clamped(0, self.blocks)
    }

    /// The file offset at which `block` begins; blocks behind the folio answer
    /// its end.
    #[must_use]
    pub const fn offset_of(self, block: BlockIndex) -> FileOffset {
        let index = if block.get() > self.blocks {
            self.blocks
        } else {
            block.get()
        };
        self.offset_at(index)
    }

    /// The file bytes of a run of blocks, cut at the folio's end.
    #[must_use]
    pub const fn bytes_of(self, run: BlockRange) -> FileRange {
        FileRange::clamped(self.offset_of(run.start()), self.offset_of(run.end()))
    }

    /// The blocks that lie wholly in `range`: what *clearing* dirty covers (W13).
    #[must_use]
    pub const fn blocks_inside(self, range: FileRange) -> BlockRange {
        let start = self
            .into_folio(range.start())
            .div_ceil(self.block_size.bytes());
        let end = self.into_folio(range.end()) >> self.block_size.shift();
        Self::run(start, end)
    }

    /// The blocks that `range` meets: what *setting* dirty covers (W13). An
    /// empty range meets none.
    #[must_use]
    pub const fn blocks_meeting(self, range: FileRange) -> BlockRange {
        let start = self.into_folio(range.start()) >> self.block_size.shift();
        let end = self
            .into_folio(range.end())
            .div_ceil(self.block_size.bytes());
        if range.is_empty() {
            return Self::run(start, start);
        }
        Self::run(start, end)
    }

    /// The offset at the start of block `index`, which is at most `blocks`.
    pub(crate) const fn offset_at(self, index: usize) -> FileOffset {
        FileOffset::new(self.pos.get() + ((index as u64) << self.block_size.shift()))
    }

    /// Distance of `offset` from the folio's start, held inside the folio.
    const fn into_folio(self, offset: FileOffset) -> u64 {
        let distance = offset.distance_from(self.pos).get();
        let size = self.size().get();
        if distance > size { size } else { distance }
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "both are at most the folio's block count, which is a usize"
    )]
    const fn run(start: u64, end: u64) -> BlockRange {
        BlockRange::clamped(start as usize, end as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folio(pos: u64, size: u64) -> Result<FolioGeometry, GeometryError> {
        let block = BlockSize::new(4096).unwrap();
        FolioGeometry::new(FileOffset::new(pos), LenBytes::new(size), block)
    }

    fn range(start: u64, end: u64) -> FileRange {
        FileRange::new(FileOffset::new(start), FileOffset::new(end)).unwrap()
    }

    fn run(start: usize, end: usize) -> BlockRange {
        BlockRange::clamped(start, end)
    }

    #[test]
    fn misplaced_and_missized_folios_are_refused_by_name() {
        assert_eq!(folio(0, 0), Err(GeometryError::FolioSize(LenBytes::new(0))));
        assert_eq!(
            folio(0, 2048),
            Err(GeometryError::FolioSize(LenBytes::new(2048)))
        );
        assert_eq!(
            folio(0, 12288),
            Err(GeometryError::FolioSize(LenBytes::new(12288)))
        );
        assert_eq!(
            folio(4096, 8192),
            Err(GeometryError::FolioPosition(FileOffset::new(4096)))
        );
        let last = u64::MAX - 4095;
        assert_eq!(
            folio(last, 4096),
            Err(GeometryError::FolioEnd(FileOffset::new(last)))
        );
        assert!(folio(last - 4096, 4096).is_ok());
    }

    #[test]
    fn w13_clearing_rounds_inwards_and_setting_outwards() {
        let folio = folio(65536, 65536).unwrap();
        let unaligned = range(65537, 65536 + 8191);
        assert_eq!(folio.blocks_inside(unaligned), run(1, 1));
        assert_eq!(folio.blocks_meeting(unaligned), run(0, 2));
        let aligned = range(65536 + 4096, 65536 + 12288);
        assert_eq!(folio.blocks_inside(aligned), run(1, 3));
        assert_eq!(folio.blocks_meeting(aligned), run(1, 3));
    }

    #[test]
    fn ranges_outside_the_folio_are_cut_to_it() {
        let folio = folio(65536, 65536).unwrap();
        assert_eq!(folio.blocks_meeting(range(0, u64::MAX)), run(0, 16));
        assert_eq!(folio.blocks_inside(range(0, u64::MAX)), run(0, 16));
        assert!(folio.blocks_meeting(range(0, 65536)).is_empty());
        assert!(folio.blocks_meeting(range(131_072, u64::MAX)).is_empty());
        assert!(folio.blocks_meeting(range(70000, 70000)).is_empty());
        assert_eq!(
            folio.bytes_of(run(14, 99)),
            range(65536 + 14 * 4096, 131_072)
        );
    }

    #[test]
    fn blocks_and_bytes_agree_on_the_last_possible_folio() {
        let folio = folio(u64::MAX - 8191, 4096).unwrap();
        assert_eq!(folio.range().end().get(), u64::MAX - 4095);
        assert_eq!(folio.blocks_meeting(folio.range()), folio.all());
        assert_eq!(folio.size(), LenBytes::new(4096));
    }
}
