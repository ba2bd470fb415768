//! One file in memory: its extents and what was promised to it.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::ranges::{RangeSet, Run};

/// Whether an extent's blocks hold data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Written,
    /// They have a place, and read as zero.
    Unwritten,
}

/// Blocks that are side by side in the file and on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) len: u64,
    /// First block on the device.
    pub(crate) disk: u64,
    pub(crate) state: State,
}

impl Extent {
    /// Its blocks on the device.
    pub(crate) const fn disk_run(self) -> Run {
        Run {
            start: self.disk,
            end: self.disk + self.len,
        }
    }

    /// The part that begins `skip` blocks in and has `len`.
    const fn part(self, skip: u64, len: u64) -> Self {
        Self {
            len,
            disk: self.disk + skip,
            state: self.state,
        }
    }
}

/// A file.
///
/// **Invariant**: extents are not empty and do not overlap; no two that could be
/// one lie side by side.
#[derive(Clone, Debug, Default)]
pub(crate) struct File {
    /// Size on record, in bytes.
    pub(crate) size: u64,
    /// By the first block in the file.
    extents: BTreeMap<u64, Extent>,
    /// Blocks of the file that were reserved and not allocated since.
    pub(crate) promised: RangeSet,
}

impl File {
    pub(crate) fn with_size(size: u64) -> Self {
        Self {
            size,
            ..Self::default()
        }
    }

    pub(crate) fn extent_count(&self) -> u64 {
        self.extents.len() as u64
    }

    /// All extents, with their first block in the file.
    pub(crate) fn extents(&self) -> impl Iterator<Item = (u64, Extent)> {
        self.extents.iter().map(|(at, extent)| (*at, *extent))
    }

    /// The extent that block `at` lies in, whole.
    pub(crate) fn find(&self, at: u64) -> Option<(u64, Extent)> {
        let (start, extent) = self.extents.range(..=at).next_back()?;
        (at - start < extent.len).then_some((*start, *extent))
    }

    /// The hole that block `at` lies in: where it begins, and where it ends if
    /// an extent follows.
    pub(crate) fn hole_around(&self, at: u64) -> (u64, Option<u64>) {
        let before = self.extents.range(..=at).next_back();
        let behind = self.extents.range(at..).next();
        (
            before.map_or(0, |(start, extent)| start + extent.len),
            behind.map(|(start, _)| *start),
        )
    }

    /// The parts of extents in `run`, with their first block in the file.
    pub(crate) fn pieces(&self, run: Run) -> impl Iterator<Item = (u64, Extent)> {
        let first = self.find(run.start).map_or(run.start, |(start, _)| start);
        let near = self.extents.range(first..run.end);
        near.filter_map(move |(start, extent)| {
            let part = Run::at(*start, extent.len)?.overlap(run)?;
            Some((part.start, extent.part(part.start - start, part.len())))
        })
    }

    /// Makes `run` a hole; answers what was there.
    pub(crate) fn cut(&mut self, run: Run) -> Vec<Extent> {
        let pieces: Vec<_> = self.pieces(run).collect();
        for (at, piece) in &pieces {
            let Some((start, whole)) = self.find(*at) else {
                continue;
            };
            self.extents.remove(&start);
            let (before, behind) = (at - start, at + piece.len);
            if before > 0 {
                self.extents.insert(start, whole.part(0, before));
            }
            let left = start + whole.len - behind;
            if left > 0 {
                let rest = whole.part(before + piece.len, left);
                self.extents.insert(behind, rest);
            }
        }
        pieces.into_iter().map(|(_, piece)| piece).collect()
    }

    /// Puts an extent where a hole is, and joins it to its neighbours.
    pub(crate) fn insert(&mut self, mut at: u64, mut extent: Extent) {
        let follows = |one: Extent, other: Extent| {
            one.state == other.state && one.disk + one.len == other.disk
        };
        if let Some((start, before)) = self.extents.range(..at).next_back()
            && start + before.len == at
            && follows(*before, extent)
        {
            at = *start;
            extent = Extent {
                len: before.len + extent.len,
                ..*before
            };
        }
        let end = at + extent.len;
        if let Some(behind) = self.extents.get(&end).copied()
            && follows(extent, behind)
        {
            self.extents.remove(&end);
            extent.len += behind.len;
        }
        self.extents.insert(at, extent);
    }
}
