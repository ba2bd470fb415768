//! The walk over trees: every block once, every reference checked.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use extentwise_core::extent_buffer::{BlockMemory, ExtentBuffer};

use crate::ahead::{Ahead, NODES_AT_ONCE};
use crate::chunk::{ChunkMap, Copy};
use crate::disk::Key;
use crate::fault::{Bad, Reason};
use crate::memory::BlockPool;
use crate::read_at::ReadAt;
use crate::report::Stopped;
use crate::superblock::Superblock;
use crate::verify::{self, Expected, Pointer, Sound};

/// Bounds on a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// References to blocks that are followed.
    pub steps: u64,
    /// Bad blocks that are listed.
    pub bad_max: usize,
}

impl Limits {
    /// Bounds for an image of this length: far more steps than a sound image of
    /// many snapshots takes.
    #[must_use]
    pub const fn for_image(len_bytes: u64, nodesize: u32) -> Self {
        let blocks = match len_bytes.checked_div(nodesize as u64) {
            Some(blocks) => blocks,
            None => 0,
        };
        Self {
            steps: blocks.saturating_mul(64).saturating_add(1 << 16),
            bad_max: 100_000,
        }
    }
}

/// What a walk has found out so far.
///
/// **Invariant**: `seen` has every block that was met, and what lies below it;
/// such a block is never read again. A block is left out if it is sound by
/// itself and not what the reference said, or if only part of it was followed.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    limits: Limits,
    steps: u64,
    pub(crate) seen: HashMap<u64, Option<Subtree>>,
    /// Blocks of which only part was followed.
    in_part: HashSet<u64>,
    pub(crate) bad: Vec<Bad>,
    pub(crate) distinct: u64,
}

impl Progress {
    pub(crate) fn new(limits: Limits, bad: Vec<Bad>) -> Self {
        Self {
            limits,
            steps: 0,
            seen: HashMap::new(),
            in_part: HashSet::new(),
            bad,
            distinct: 0,
        }
    }

    pub(crate) fn bad(&mut self, bad: Bad) -> Result<(), Stopped> {
        if self.bad.len() >= self.limits.bad_max {
            return Err(Stopped::Bad(self.limits.bad_max));
        }
        self.bad.push(bad);
        Ok(())
    }

    fn step(&mut self) -> Result<(), Stopped> {
        if self.steps >= self.limits.steps {
            return Err(Stopped::Steps(self.limits.steps));
        }
        self.steps += 1;
        Ok(())
    }
}

/// A sound block.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) sound: Sound,
    /// The copy that was used.
    pub(crate) mirror: u32,
    pub(crate) pointers: Vec<Pointer>,
}

/// A sound block and what lies below it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subtree {
    pub(crate) sound: Sound,
    pub(crate) mirror: u32,
    pub(crate) nodes: u64,
    pub(crate) leaves: u64,
    last_key: Option<Key>,
}

/// What is done on the way through one tree.
#[derive(Debug, Default)]
pub(crate) struct Pass {
    /// The type of items that are picked up.
    pub(crate) wanted: Option<u8>,
    /// What was picked up.
    pub(crate) items: Vec<Picked>,
    /// How far the tree has been deleted.
    pub(crate) dropped: Option<Dropped>,
}

impl Pass {
    /// Whether blocks may be read before the walk comes to them: not if items are
    /// picked up on the way, or if part of the tree is free by now.
    const fn reads_ahead(&self) -> bool {
        self.wanted.is_none() && self.dropped.is_none()
    }
}

/// An item that was picked up.
#[derive(Debug)]
pub(crate) struct Picked {
    pub(crate) bytenr: u64,
    pub(crate) mirror: u32,
    pub(crate) slot: u32,
    pub(crate) key: Key,
    pub(crate) data: Vec<u8>,
}

/// How far a subvolume was deleted before the last transaction ended: below
/// nodes of this level and higher, what lies before the key is free by now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dropped {
    pub(crate) key: Key,
    pub(crate) level: u8,
}

impl Dropped {
    /// Whether a child of a node of this level is gone; `next` is the key of
    /// the child behind it.
    fn covers(self, level: u8, next: Option<Key>) -> bool {
        level >= self.level && next.is_some_and(|next| next <= self.key)
    }
}

/// Reads blocks of an image and follows their pointers.
pub(crate) struct Walk<'a, R, P> {
    pub(crate) reader: &'a R,
    pub(crate) superblock: &'a Superblock,
    pub(crate) chunks: &'a ChunkMap,
    pub(crate) pool: &'a mut P,
    pub(crate) progress: Progress,
    pub(crate) watch: &'a mut dyn FnMut(u64),
    pub(crate) ahead: Ahead,
    /// A second copy, to compare.
    scratch: Vec<u8>,
}

impl<'a, R: ReadAt, P: BlockPool> Walk<'a, R, P> {
    /// A walk that goes on from what another one found out.
    pub(crate) fn new(
        (reader, superblock, chunks): (&'a R, &'a Superblock, &'a ChunkMap),
        pool: &'a mut P,
        progress: Progress,
        watch: &'a mut dyn FnMut(u64),
    ) -> Self {
        Self {
            reader,
            superblock,
            chunks,
            pool,
            ahead: Ahead::new(progress.limits.steps),
            progress,
            watch,
            scratch: Vec::new(),
        }
    }

    /// Walks the block that is expected and everything below it; `None` if the
    /// block is bad. Levels fall with every step down, so the depth is bounded
    /// whatever the pointers are.
    pub(crate) fn subtree(
        &mut self,
        expected: &Expected,
        pass: &mut Pass,
    ) -> Result<Option<Subtree>, Stopped> {
        self.progress.step()?;
        if let Some(seen) = self.progress.seen.get(&expected.bytenr).copied() {
            return self.again(expected, seen);
        }
        let Some(Found {
            sound,
            mirror,
            pointers,
        }) = self.find(expected, pass)?
        else {
            return Ok(None);
        };
        let mut subtree = Subtree {
            sound,
            mirror,
            nodes: u64::from(sound.level > 0),
            leaves: u64::from(sound.level == 0),
            last_key: sound.keys.map(|(_, last)| last),
        };
        let followed = self.children(expected, &pointers, &mut subtree, pass)?;
        match followed {
            Followed::All => {
                self.progress.seen.insert(expected.bytenr, Some(subtree));
            }
            Followed::Part => {
                self.progress.in_part.insert(expected.bytenr);
            }
        }
        Ok(Some(subtree))
    }

    /// A block that was met before: only the reference to it is new.
    fn again(
        &mut self,
        expected: &Expected,
        seen: Option<Subtree>,
    ) -> Result<Option<Subtree>, Stopped> {
        let Some(subtree) = seen else {
            return Ok(None);
        };
        if let Err(reason) = subtree.sound.check(expected) {
            self.bad(expected.bytenr, subtree.mirror, reason)?;
            return Ok(None);
        }
        Ok(Some(subtree))
    }

    /// The block that is expected, by itself; `None` if it is bad.
    fn find(&mut self, expected: &Expected, pass: &mut Pass) -> Result<Option<Found>, Stopped> {
        if !pass.reads_ahead() {
            return self.read(expected, pass);
        }
        if let Some(found) = self.ahead.take(expected) {
            self.count(expected.bytenr);
            return Ok(Some(found));
        }
        let found = self.read(expected, pass)?;
        if let Some(found) = &found
            && found.sound.level == 1
        {
            self.read_ahead(0, &found.pointers)?;
        }
        Ok(found)
    }

    /// Walks the children of a node and adds them to its subtree.
    fn children(
        &mut self,
        expected: &Expected,
        pointers: &[Pointer],
        subtree: &mut Subtree,
        pass: &mut Pass,
    ) -> Result<Followed, Stopped> {
        let Some(level) = subtree.sound.level.checked_sub(1) else {
            return Ok(Followed::All);
        };
        let mut followed = Followed::All;
        for (slot, pointer) in pointers.iter().enumerate() {
            if level == 1 && pass.reads_ahead() && slot.is_multiple_of(NODES_AT_ONCE) {
                let nodes = pointers.iter().skip(slot).take(NODES_AT_ONCE);
                self.read_ahead(level, nodes)?;
            }
            let next = pointers.get(slot + 1).map(|next| next.key);
            if pass.dropped.is_some_and(|d| d.covers(level + 1, next)) {
                followed = Followed::Part;
                continue;
            }
            let child = Expected {
                bytenr: pointer.bytenr,
                level,
                generation: pointer.generation,
                tree: expected.tree,
                first_key: Some(pointer.key),
            };
            let Some(child) = self.subtree(&child, pass)? else {
                continue;
            };
            subtree.nodes = subtree.nodes.saturating_add(child.nodes);
            subtree.leaves = subtree.leaves.saturating_add(child.leaves);
            match (child.last_key, next) {
                (Some(key), Some(next)) if key >= next => {
                    let reason = Reason::LastKey { key, next };
                    self.bad(pointer.bytenr, child.mirror, reason)?;
                }
                (Some(key), None) => subtree.last_key = Some(key),
                _ => {}
            }
        }
        Ok(followed)
    }

    /// Reads a block from the first copy that is what it must be. The other
    /// copies are compared with it, and what is wrong with any is told.
    fn read(&mut self, expected: &Expected, pass: &mut Pass) -> Result<Option<Found>, Stopped> {
        let bytenr = expected.bytenr;
        let Some(mut copies) = self.chunks.copies(bytenr, self.superblock.nodesize) else {
            self.bad(bytenr, 0, Reason::Unmapped)?;
            self.progress.seen.insert(bytenr, None);
            return Ok(None);
        };
        let mut buffer = unread(self.pool, bytenr, self.superblock.nodesize as usize)?;
        let mut pointers = Vec::new();
        let bad_before = self.progress.bad.len();
        let mut used = None;
        let mut any_sound = false;
        for copy in copies.by_ref() {
            let sound = self.read_copy(&mut buffer, copy, &mut pointers);
            any_sound |= sound.is_ok();
            match sound.and_then(|sound| sound.check(expected).map(|()| sound)) {
                Ok(sound) => {
                    used = Some((sound, copy.mirror));
                    break;
                }
                Err(reason) => self.bad(bytenr, copy.mirror, reason)?,
            }
        }
        if let Some((sound, mirror)) = used {
            self.count(bytenr);
            pick(&buffer, sound, mirror, pass);
            for copy in copies {
                self.compare_copy(&mut buffer, copy)?;
            }
            for bad in self.progress.bad.iter_mut().skip(bad_before) {
                bad.used = Some(mirror);
            }
        } else if !any_sound {
            self.progress.seen.insert(bytenr, None);
        }
        self.pool.give(buffer.into_memory());
        Ok(used.map(|(sound, mirror)| Found {
            sound,
            mirror,
            pointers,
        }))
    }

    /// Counts a sound block, once if it is met again because only part of it was
    /// followed.
    fn count(&mut self, bytenr: u64) {
        let again = self.progress.in_part.contains(&bytenr);
        self.progress.distinct += u64::from(!again);
        (self.watch)(self.progress.distinct);
    }

    /// Reads one copy and verifies it by itself.
    fn read_copy<M: BlockMemory>(
        &self,
        buffer: &mut ExtentBuffer<M>,
        copy: Copy,
        pointers: &mut Vec<Pointer>,
    ) -> Result<Sound, Reason> {
        pointers.clear();
        fill(self.reader, buffer, copy.physical)?;
        verify::block(self.superblock, buffer, pointers)
    }

    /// Compares another copy with the block, whose bytes it may replace.
    fn compare_copy<M: BlockMemory>(
        &mut self,
        buffer: &mut ExtentBuffer<M>,
        copy: Copy,
    ) -> Result<(), Stopped> {
        self.scratch.resize(buffer.len(), 0);
        let read = self.reader.read_exact_at(copy.physical, &mut self.scratch);
        let reason = match read {
            Err(error) => Reason::Unreadable(error.kind()),
            Ok(()) if buffer.compare(0, &self.scratch).is_ok_and(Ordering::is_eq) => {
                return Ok(());
            }
            Ok(()) => self
                .read_copy(buffer, copy, &mut Vec::new())
                .err()
                .unwrap_or(Reason::CopyDiffers),
        };
        self.bad(buffer.start(), copy.mirror, reason)
    }

    fn bad(&mut self, bytenr: u64, mirror: u32, reason: Reason) -> Result<(), Stopped> {
        self.progress.bad(Bad {
            bytenr,
            mirror,
            reason,
            used: None,
        })
    }
}

/// Whether all children of a node were followed.
enum Followed {
    All,
    Part,
}

/// Memory for a block.
pub(crate) fn unread<P: BlockPool>(
    pool: &mut P,
    bytenr: u64,
    nodesize: usize,
) -> Result<ExtentBuffer<P::Memory>, Stopped> {
    let memory = pool.take(nodesize);
    let memory = memory.map_err(|error| Stopped::Memory(error.to_string()))?;
    Ok(ExtentBuffer::unread(bytenr, memory))
}

/// Fills a block from the image.
pub(crate) fn fill<M: BlockMemory>(
    reader: &impl ReadAt,
    buffer: &mut ExtentBuffer<M>,
    physical: u64,
) -> Result<(), Reason> {
    let mut at = physical;
    buffer
        .fill_from_device(|chunk| {
            reader.read_exact_at(at, chunk)?;
            at = at.saturating_add(chunk.len() as u64);
            Ok(())
        })
        .map_err(|error: std::io::Error| Reason::Unreadable(error.kind()))
}

/// Picks up the items of a leaf that the pass wants.
fn pick<M: BlockMemory>(buffer: &ExtentBuffer<M>, sound: Sound, mirror: u32, pass: &mut Pass) {
    let (Some(wanted), 0) = (pass.wanted, sound.level) else {
        return;
    };
    let count = verify::header(buffer).map_or(0, |header| header.nritems);
    // The leaf was verified: its items are in range.
    let _ = verify::each_item(buffer, count, |slot, item| {
        if item.key.kind == wanted {
            let mut data = vec![0; item.size as usize];
            if buffer.read(item.start, &mut data).is_ok() {
                pass.items.push(Picked {
                    bytenr: buffer.start(),
                    mirror,
                    slot,
                    key: item.key,
                    data,
                });
            }
        }
        Ok::<_, Reason>(())
    });
}
