//! What is searched: sizes, and the operations that are tried.

/// Half blocks of a file, at most.
pub(super) const HALVES_MAX: usize = 16;
pub(super) const FOLIOS_MAX: usize = 3;

/// A file and what may happen to it. Places are counted in half blocks.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// What it is called by.
    pub name: &'static str,
    /// Folios of the file.
    pub folios: usize,
    /// Blocks of a folio.
    pub blocks: usize,
    /// Buffered writes, each from its start to its end in one folio.
    pub writes: &'static [(usize, usize)],
    /// Sizes that the file is given.
    pub sizes: &'static [usize],
    /// Blocks of a bio, at most; `None`: as many as fit.
    pub bio_blocks: Option<u64>,
    /// What else happens.
    pub events: &'static [Event],
}

/// What may happen beside writes, passes, completions and new sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A bio fails.
    Error,
    /// A piece is refused as it is queued.
    Refusal,
    /// A clean folio is evicted.
    Eviction,
    /// The file is synced.
    Sync,
    /// The power is cut.
    Crash,
}

/// A mistake of whoever embeds the core, which a search must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// None.
    No,
    /// What failed is not made dirty again (C2).
    FailedStaysClean,
    /// Blocks leave writeback with their bio, not with their extent (C2).
    WritebackEndsWithTheBio,
    /// The recorded size does not wait for the old last block (V15).
    SizeGoesAhead,
    /// Growing leaves behind what was past the end (V15).
    GrowthShowsTheOldTail,
    /// An extent records also what was truncated (O5, O8).
    TruncatedIsRecorded,
}

impl Mistake {
    /// All that are mistakes.
    pub const ALL: [Self; 5] = [
        Self::FailedStaysClean,
        Self::WritebackEndsWithTheBio,
        Self::SizeGoesAhead,
        Self::GrowthShowsTheOldTail,
        Self::TruncatedIsRecorded,
    ];
}

use Event::{Crash, Error, Eviction, Refusal, Sync};

/// The shapes that are searched in minutes.
pub const SHAPES: &[Shape] = &[
    Shape {
        name: "sizes and crashes",
        folios: 2,
        blocks: 1,
        writes: &[(0, 2), (2, 3)],
        sizes: &[1],
        bio_blocks: None,
        events: &[Error, Eviction, Sync, Crash],
    },
    Shape {
        name: "refusals",
        folios: 2,
        blocks: 2,
        writes: &[(0, 4), (3, 4), (4, 6)],
        sizes: &[2],
        bio_blocks: None,
        events: &[Error, Refusal, Eviction],
    },
    Shape {
        name: "a bio a block",
        folios: 2,
        blocks: 2,
        writes: &[(0, 4), (4, 6)],
        sizes: &[2],
        bio_blocks: Some(1),
        events: &[Error, Eviction],
    },
    Shape {
        name: "syncs and crashes",
        folios: 2,
        blocks: 2,
        writes: &[(0, 1), (2, 4)],
        sizes: &[1],
        bio_blocks: None,
        events: &[Eviction, Sync, Crash],
    },
    Shape {
        name: "three folios",
        folios: 3,
        blocks: 2,
        writes: &[(4, 8), (8, 9)],
        sizes: &[6],
        bio_blocks: None,
        events: &[Error, Eviction],
    },
];

/// Larger ones, for machines with time.
pub const WIDE_SHAPES: &[Shape] = &[
    Shape {
        name: "sizes and crashes, two sizes",
        folios: 2,
        blocks: 1,
        writes: &[(0, 2), (2, 3)],
        sizes: &[1, 3],
        bio_blocks: None,
        events: &[Error, Eviction, Sync, Crash],
    },
    Shape {
        name: "syncs and crashes, two sizes",
        folios: 2,
        blocks: 2,
        writes: &[(0, 1), (2, 4)],
        sizes: &[1, 3],
        bio_blocks: None,
        events: &[Eviction, Sync, Crash],
    },
    Shape {
        name: "a bio a block, and syncs",
        folios: 2,
        blocks: 2,
        writes: &[(0, 4), (4, 6)],
        sizes: &[2],
        bio_blocks: Some(1),
        events: &[Eviction, Sync],
    },
    Shape {
        name: "three folios, three writes",
        folios: 3,
        blocks: 2,
        writes: &[(2, 4), (4, 8), (8, 9)],
        sizes: &[6],
        bio_blocks: None,
        events: &[Eviction],
    },
];
