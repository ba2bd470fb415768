//! Bios: device writes in the making (S1–S4).

use super::Piece;
use crate::geometry::{BlockSize, DiskByte, FileOffset, FileRange, LenBytes};
use crate::ordered::{ExtentHint, ExtentStore, NearExtents, OrderedId, OrderedTable};
use core::fmt;
use core::num::NonZeroUsize;

/// A part of a bio that lies in one folio.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Segment {
    /// First byte in the file.
    pub file_offset: FileOffset,
    /// Bytes.
    pub len: LenBytes,
}

impl Segment {
    /// The segment's bytes in the file.
    #[must_use]
    pub const fn range(self) -> FileRange {
        let end = FileOffset::new(self.file_offset.get().saturating_add(self.len.get()));
        FileRange::clamped(self.file_offset, end)
    }
}

/// A list of segments: [`FixedSegments`], or (feature `alloc`) a `Vec`. A full list ends the bio as `max_segments` does.
pub trait SegmentList: Default {
    /// The segments, in file order.
    fn as_slice(&self) -> &[Segment];

    /// The last segment.
    fn last_mut(&mut self) -> Option<&mut Segment>;

    /// Adds a segment; a full list hands it back.
    fn push(&mut self, segment: Segment) -> Result<(), Segment>;

    /// Whether no segment fits any more.
    fn is_full(&self) -> bool;
}

/// At most `N` segments, without a heap.
pub type FixedSegments<const N: usize> = heapless::Vec<Segment, N>;

impl<const N: usize> SegmentList for FixedSegments<N> {
    fn as_slice(&self) -> &[Segment] {
        self
    }
    fn last_mut(&mut self) -> Option<&mut Segment> {
        self.as_mut_slice().last_mut()
    }
    fn push(&mut self, segment: Segment) -> Result<(), Segment> {
        self.push(segment)
    }
    fn is_full(&self) -> bool {
        self.is_full()
    }
}

#[cfg(feature = "alloc")]
impl SegmentList for alloc::vec::Vec<Segment> {
    fn as_slice(&self) -> &[Segment] {
        self
    }
    fn last_mut(&mut self) -> Option<&mut Segment> {
        self.as_mut_slice().last_mut()
    }
    fn push(&mut self, segment: Segment) -> Result<(), Segment> {
        self.push(segment);
        Ok(())
    }
    fn is_full(&self) -> bool {
        false
    }
}

/// One device write: segments that are contiguous in the file *and* on the
/// device, and of one ordered extent (S1).
#[must_use = "a bio that is not sent loses the data of its blocks"]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bio<S> {
    disk: DiskByte,
    len: LenBytes,
    valid_len: LenBytes,
    ordered: OrderedId,
    segments: S,
}

impl<S: SegmentList> Bio<S> {
    /// Where it goes on the device.
    pub const fn disk_bytenr(&self) -> DiskByte {
        self.disk
    }

    /// Bytes to write; 64 bits, for a bio can pass 4 GiB (S3).
    pub const fn len(&self) -> LenBytes {
        self.len
    }

    /// Whether it holds no byte; a bio that was sent never does.
    pub const fn is_empty(&self) -> bool {
        self.len.is_zero()
    }

    /// Its bytes below the `i_size` that the pass over its last segment's folio
    /// had sampled; what follows only fills the last block (S4).
    pub const fn valid_len(&self) -> LenBytes {
        self.valid_len
    }

    /// The ordered extent that it belongs to.
    pub const fn ordered(&self) -> OrderedId {
        self.ordered
    }

    /// Its parts, one a folio unless a limit came between.
    pub fn segments(&self) -> &[Segment] {
        self.segments.as_slice()
    }

    /// Its bytes in the file, without a hole.
    pub fn file_range(&self) -> FileRange {
        let start = self
            .segments()
            .first()
            .map_or(FileOffset::ZERO, |segment| segment.file_offset);
        let end = FileOffset::new(start.get().saturating_add(self.len.get()));
        FileRange::clamped(start, end)
    }

    /// Whether `piece` is adjacent in the file and on the device, and of the same
    /// ordered extent (S1).
    fn is_followed_by(&self, piece: &Piece) -> bool {
        self.ordered == piece.ordered
            && self.disk.checked_add(self.len) == Some(piece.disk)
            && self.file_range().end() == piece.range.start()
    }

    /// First byte of the file behind the valid ones.
    pub fn valid_end(&self) -> FileOffset {
        let start = self.file_range().start().get();
        FileOffset::new(start.saturating_add(self.valid_len.get()))
    }
}

/// A limit that bios could not keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BioLimitsError(
    /// The value of `max_bytes`.
    pub LenBytes,
);

impl fmt::Display for BioLimitsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "max_bytes {}: must be a multiple of the block size, and not zero",
            self.0
        )
    }
}

impl core::error::Error for BioLimitsError {}

/// How large a bio may grow (S2). No limit is the absence of one, not a large
/// number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BioLimits {
    max_bytes: Option<LenBytes>,
    max_segments: Option<NonZeroUsize>,
}

impl BioLimits {
    /// No limit but the capacity of the segment list.
    pub const UNLIMITED: Self = Self {
        max_bytes: None,
        max_segments: None,
    };

    /// Limits for bios of blocks of `block_size`; `max_bytes` must be a multiple
    /// of it and not zero.
    pub const fn new(
        max_bytes: Option<LenBytes>,
        max_segments: Option<NonZeroUsize>,
        block_size: BlockSize,
    ) -> Result<Self, BioLimitsError> {
        if let Some(max) = max_bytes
            && (max.is_zero() || !block_size.divides(max.get()))
        {
            return Err(BioLimitsError(max));
        }
        Ok(Self {
            max_bytes,
            max_segments,
        })
    }
}

/// What became of a piece offered to the bio in progress.
pub(super) enum Joined<S> {
    /// So many bytes from its start are in the bio.
    Bytes(LenBytes),
    /// It does not fit: this bio is to be sent, and so many bytes from the piece's
    /// start are in the one behind it.
    Next(Bio<S>, LenBytes),
}

/// Joins pieces into bios, across the folios of one file (S1, S2).
///
/// **Invariant**: the bio in progress is contiguous in the file and on the
/// device, belongs to one ordered extent, and keeps the limits.
#[derive(Clone, Debug)]
pub struct BioAssembler<S> {
    limits: BioLimits,
    current: Option<Bio<S>>,
    near: NearExtents,
}

impl<S: SegmentList> BioAssembler<S> {
    /// An assembler without a bio in progress.
    #[must_use]
    pub fn new(limits: BioLimits) -> Self {
        Self {
            limits,
            current: None,
            near: NearExtents::default(),
        }
    }

    /// Takes the bio in progress, as after the last folio.
    pub fn take(&mut self) -> Option<Bio<S>> {
        self.current.take()
    }

    /// The bio in progress.
    #[must_use]
    pub fn current(&self) -> Option<&Bio<S>> {
        self.current.as_ref()
    }

    /// Finds the extent at the start of `range`, first trying the one used last (W6).
    pub(super) fn find<T: ExtentStore>(
        &mut self,
        table: &OrderedTable<T>,
        range: FileRange,
    ) -> Option<&ExtentHint> {
        self.near.find(range, table)
    }

    /// Adds as much of `piece` as fits. `folio_pos` is where its folio begins
    /// and `i_size` the size that the pass has sampled.
    #[inline]
    pub(super) fn join(
        &mut self,
        piece: &Piece,
        folio_pos: FileOffset,
        i_size: FileOffset,
    ) -> Joined<S> {
        if let Some(bio) = &mut self.current
            && bio.is_followed_by(piece)
            && let Some(len) = grow(bio, self.limits, piece, folio_pos)
        {
            bio.valid_len = valid_len(bio, i_size);
            return Joined::Bytes(len);
        }
        let (next, len) = start(self.limits, piece, i_size);
        match self.current.replace(next) {
            Some(bio) => Joined::Next(bio, len),
            None => Joined::Bytes(len),
        }
    }
}

/// Adds as much of `piece`, which follows, as fits; `None` where no byte does.
fn grow<S: SegmentList>(
    bio: &mut Bio<S>,
    limits: BioLimits,
    piece: &Piece,
    folio_pos: FileOffset,
) -> Option<LenBytes> {
    let room = room(limits.max_bytes, bio.len);
    if room.is_zero() {
        return None;
    }
    let len = piece.range.len().min(room);
    // Behind the folio's start: the bytes before are in this folio too, and so in the
    // same segment.
    if piece.range.start() > folio_pos
        && let Some(last) = bio.segments.last_mut()
    {
        last.len = last.len.saturating_add(len);
    } else {
        let is_full = bio.segments.is_full()
            || limits
                .max_segments
                .is_some_and(|max| bio.segments().len() >= max.get());
        if is_full {
            return None;
        }
        // The list has room: asked above.
        let _ = bio.segments.push(Segment {
            file_offset: piece.range.start(),
            len,
        });
    }
    bio.len = bio.len.saturating_add(len);
    Some(len)
}

/// A bio with as much of `piece` as fits, and how much that is.
fn start<S: SegmentList>(
    limits: BioLimits,
    piece: &Piece,
    i_size: FileOffset,
) -> (Bio<S>, LenBytes) {
    let len = piece
        .range
        .len()
        .min(room(limits.max_bytes, LenBytes::ZERO));
    let mut segments = S::default();
    // A list without any capacity could never hold a bio: the segment is
    // then missing, and the capacity is the embedder's to choose.
    let _ = segments.push(Segment {
        file_offset: piece.range.start(),
        len,
    });
    let mut bio = Bio {
        disk: piece.disk,
        len,
        valid_len: LenBytes::ZERO,
        ordered: piece.ordered,
        segments,
    };
    bio.valid_len = valid_len(&bio, i_size);
    (bio, len)
}

#[inline]
fn room(max_bytes: Option<LenBytes>, used: LenBytes) -> LenBytes {
    max_bytes.map_or(LenBytes::MAX, |max| max.saturating_sub(used))
}

fn valid_len<S: SegmentList>(bio: &Bio<S>, i_size: FileOffset) -> LenBytes {
    i_size.distance_from(bio.file_range().start()).min(bio.len)
}
