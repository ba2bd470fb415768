//! Reading ahead of the walk: in the order of the device, many blocks a call.
//!
//! A walk follows keys, and keys lie on a device in any order. Where a node has
//! its children is known before the walk comes to them, so they are read sorted
//! by address, neighbours in one call, and verified on the way.
//!
//! **Invariant**: a block is kept here only if its first copy is sound by itself
//! and every other copy has the same bytes. Of all others nothing is kept and
//! nothing told: the walk reads them one by one, and says what is wrong with
//! which copy.

use std::collections::HashMap;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::chunk::Copy;
use crate::memory::BlockPool;
use crate::read_at::ReadAt;
use crate::report::Stopped;
use crate::verify::{self, Expected, Pointer};
use crate::walk::{Found, Walk, fill, unread};

/// Nodes above the leaves whose leaves are read together: many for long runs of
/// neighbours, few enough that their pointers take little memory.
pub(crate) const NODES_AT_ONCE: usize = 32;

/// Most bytes that one call reads. Longer calls gain nothing, and the bytes
/// would have left the processor's cache before the other copy is compared.
const WINDOW_BYTES: u32 = 256 << 10;

/// Blocks that the walk has not come to yet. They are few at a time where the
/// image is sound; a block that nothing comes to is kept once at most.
#[derive(Debug)]
pub(crate) struct Ahead {
    blocks: HashMap<u64, Found>,
    /// Blocks that may still be read; a sound image never needs them all.
    left: u64,
    /// The bytes of one call, for each copy.
    windows: Vec<Window>,
}

impl Ahead {
    /// Reads at most so many blocks.
    pub(crate) fn new(blocks_max: u64) -> Self {
        Self {
            blocks: HashMap::new(),
            left: blocks_max,
            windows: Vec::new(),
        }
    }

    /// The block, if it was read and is what is expected.
    pub(crate) fn take(&mut self, expected: &Expected) -> Option<Found> {
        let found = self.blocks.get(&expected.bytenr)?;
        found.sound.check(expected).ok()?;
        self.blocks.remove(&expected.bytenr)
    }
}

impl<R: ReadAt, P: BlockPool> Walk<'_, R, P> {
    /// Reads the children of a node, and the leaves below them if they are the
    /// nodes above the leaves.
    pub(crate) fn read_ahead<'p>(
        &mut self,
        level: u8,
        children: impl IntoIterator<Item = &'p Pointer>,
    ) -> Result<(), Stopped> {
        if level > 0 {
            self.ahead.blocks.clear();
        }
        let children: Vec<u64> = children.into_iter().map(|child| child.bytenr).collect();
        self.sweep(level, children.clone())?;
        if level != 1 {
            return Ok(());
        }
        let nodes = children
            .iter()
            .filter_map(|child| self.ahead.blocks.get(child));
        let leaves = nodes.flat_map(|node| &node.pointers);
        self.sweep(0, leaves.map(|leaf| leaf.bytenr).collect())
    }

    /// Reads blocks in the order of their addresses, and keeps those that have
    /// this level: no others are known to be bounded in what they point to.
    fn sweep(&mut self, level: u8, mut bytenrs: Vec<u64>) -> Result<(), Stopped> {
        let (seen, ahead) = (&self.progress.seen, &self.ahead.blocks);
        bytenrs.retain(|bytenr| !seen.contains_key(bytenr) && !ahead.contains_key(bytenr));
        bytenrs.sort_unstable();
        bytenrs.dedup();
        bytenrs.truncate(usize::try_from(self.ahead.left).unwrap_or(usize::MAX));
        self.ahead.left -= bytenrs.len() as u64;
        let nodesize = self.superblock.nodesize;
        let (mut start, mut len) = (0_u64, 0);
        for bytenr in bytenrs {
            let longer = len + nodesize;
            if start.checked_add(len.into()) == Some(bytenr)
                && longer <= WINDOW_BYTES
                && self.chunks.copies(start, longer).is_some()
            {
                len = longer;
            } else {
                self.read_run(level, start, len)?;
                (start, len) = (bytenr, nodesize);
            }
        }
        self.read_run(level, start, len)
    }

    /// Reads neighbours from all copies and keeps the sound ones; none if the
    /// bytes of them all cannot be read.
    fn read_run(&mut self, level: u8, start: u64, len: u32) -> Result<(), Stopped> {
        let copies = self.chunks.copies(start, len).into_iter().flatten();
        let copies: Vec<Copy> = copies.collect();
        let Ahead {
            blocks, windows, ..
        } = &mut self.ahead;
        windows.resize_with(copies.len(), Window::default);
        let len = len as usize;
        for (copy, window) in copies.iter().zip(windows.iter_mut()) {
            let bytes = window.bytes_mut(len);
            let read = self
                .reader
                .read_mirror_at(copy.mirror, copy.physical, bytes);
            if read.is_err() {
                return Ok(());
            }
        }
        let ([used, ..], [first, others @ ..]) = (copies.as_slice(), windows.as_slice()) else {
            return Ok(());
        };
        let nodesize = self.superblock.nodesize as usize;
        for at in (0..len).step_by(nodesize) {
            let bytes = first.block(at, nodesize);
            if others
                .iter()
                .any(|other| other.block(at, nodesize) != bytes)
            {
                continue;
            }
            let bytenr = start + at as u64;
            let mut buffer = unread(self.pool, bytenr, nodesize)?;
            let mut pointers = Vec::new();
            let verdict = fill(&bytes, &mut buffer, 0)
                .and_then(|()| verify::block(self.superblock, &buffer, &mut pointers));
            self.pool.give(buffer.into_memory());
            let Ok(sound) = verdict else { continue };
            if sound.level == level {
                let found = Found {
                    sound,
                    mirror: used.mirror,
                    pointers,
                };
                blocks.insert(bytenr, found);
            }
        }
        Ok(())
    }
}

/// The bytes of one call.
#[derive(Debug, Default)]
struct Window(Vec<Page>);

/// Memory that is aligned: into other memory the kernel copies several times
/// more slowly on some processors.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes)]
#[repr(C, align(4096))]
struct Page([u8; PAGE_BYTES]);

const PAGE_BYTES: usize = 4096;

impl Window {
    /// The first `len` bytes, whatever is in them.
    fn bytes_mut(&mut self, len: usize) -> &mut [u8] {
        let pages = len.div_ceil(PAGE_BYTES);
        if pages > self.0.len() {
            self.0.resize(pages, Page([0; PAGE_BYTES]));
        }
        let bytes = self.0.as_mut_slice().as_mut_bytes();
        bytes.get_mut(..len).unwrap_or_default()
    }

    /// The bytes of the block at this place.
    fn block(&self, at: usize, len: usize) -> &[u8] {
        let bytes = self.0.as_slice().as_bytes();
        bytes
            .get(at..)
            .and_then(|bytes| bytes.get(..len))
            .unwrap_or_default()
    }
}
