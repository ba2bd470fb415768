//! A pool of memory for metadata blocks.

use std::collections::BTreeMap;

use extentwise_core::extent_buffer::BlockMemory;

use crate::mapping::{Mapping, PageFile};
use crate::part::{Pages, Part, Region};
use crate::{Backing, Folio, MemoryError, NodeGeometry, NodeMemory, Step, Steps, Unhindered};

/// What the bytes of memory that was got are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// All zero.
    Zeroed,
    /// Anything, such as those of an earlier block: for memory that is read
    /// into before it is looked at.
    Any,
}

/// What a pool did so far; numbers of blocks, where nothing else is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Got new in one allocation.
    pub contiguous: u64,
    /// Got new in pages mapped side by side.
    pub mapped: u64,
    /// Got new in scattered pages.
    pub scattered: u64,
    /// Got from what was kept.
    pub reused: u64,
    /// Given back to the system by a purge.
    pub purged: u64,
    /// Times that one allocation was not to be had, and the next backing was
    /// tried.
    pub contiguous_failed: u64,
    /// Times that a mapping failed twice, and scattered pages were taken.
    pub mapping_failed: u64,
}

/// Gets memory for metadata blocks, and keeps what was given back.
///
/// **Invariant**: it keeps at most as many bytes as it was told, and no block
/// that somebody else still has.
///
/// The pool is no shared thing: threads put their own lock around it.
#[derive(Debug)]
pub struct NodePool<S = Unhindered> {
    steps: S,
    /// There once something was mapped.
    file: Option<PageFile>,
    unused: BTreeMap<(NodeGeometry, Backing), Vec<NodeMemory>>,
    kept_bytes: usize,
    kept_bytes_max: usize,
    stats: PoolStats,
}

impl NodePool {
    /// An empty pool that keeps up to `kept_bytes_max` bytes of unused memory.
    #[must_use]
    pub fn new(kept_bytes_max: usize) -> Self {
        Self::with_steps(kept_bytes_max, Unhindered)
    }
}

impl<S: Steps> NodePool<S> {
    /// As [`new`](NodePool::new); `steps` are asked before memory is.
    pub fn with_steps(kept_bytes_max: usize, steps: S) -> Self {
        Self {
            steps,
            file: None,
            unused: BTreeMap::new(),
            kept_bytes: 0,
            kept_bytes_max,
            stats: PoolStats::default(),
        }
    }

    /// Memory for one block: `first` is the backing tried first, then those
    /// behind it in the order contiguous, mapped, scattered (B1). For each,
    /// what is kept comes before what is new. A mapping that fails is tried
    /// once more with all unused mappings purged (B7).
    ///
    /// Fails only if scattered pages are not to be had either, with nothing
    /// unused left in the pool.
    pub fn get(
        &mut self,
        geometry: NodeGeometry,
        first: Backing,
        content: Content,
    ) -> Result<NodeMemory, MemoryError> {
        for backing in order(first) {
            if let Some(mut memory) = self.take_unused(geometry, backing) {
                self.stats.reused += 1;
                if content == Content::Zeroed {
                    memory.fill(0);
                }
                return Ok(memory);
            }
            if let Some(mut memories) = self.get_new(geometry, backing) {
                let memory = memories.pop();
                memories.into_iter().rev().for_each(|rest| self.keep(rest));
                return memory.ok_or(MemoryError::OutOfMemory(geometry.node_size()));
            }
        }
        Err(MemoryError::OutOfMemory(geometry.node_size()))
    }

    /// New, zeroed memory for all the blocks of one page, in order of their
    /// place in it; for one block where it has its pages alone.
    pub fn get_page(
        &mut self,
        geometry: NodeGeometry,
        first: Backing,
    ) -> Result<Vec<NodeMemory>, MemoryError> {
        let new = order(first).find_map(|backing| self.get_new(geometry, backing));
        let mut memories = new.ok_or(MemoryError::OutOfMemory(geometry.unit_size()))?;
        memories.reverse();
        Ok(memories)
    }

    /// Takes memory back, to be used again; what passes the bound of the pool
    /// goes back to the system.
    pub fn give_back(&mut self, memory: NodeMemory) {
        self.keep(memory);
    }

    /// Gives all unused memory back to the system, and says how many blocks
    /// that were.
    pub fn purge(&mut self) -> usize {
        self.purge_where(|_| true)
    }

    /// What was done so far.
    pub const fn stats(&self) -> PoolStats {
        self.stats
    }

    /// Bytes of the blocks that are kept unused.
    pub const fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// Bytes of the pages that mappings of this pool hold, in use or not.
    pub fn mapped_bytes(&self) -> u64 {
        let held = self.file.as_ref().map(PageFile::held_bytes);
        held.transpose().ok().flatten().unwrap_or(0)
    }

    /// What is asked before each step.
    pub const fn steps(&self) -> &S {
        &self.steps
    }

    /// The same, to change.
    pub const fn steps_mut(&mut self) -> &mut S {
        &mut self.steps
    }

    /// New memory for all blocks of a unit, the last of them first.
    fn get_new(&mut self, geometry: NodeGeometry, backing: Backing) -> Option<Vec<NodeMemory>> {
        match backing {
            Backing::Contiguous => {
                let got = self.try_contiguous(geometry);
                self.stats.contiguous_failed += u64::from(got.is_none());
                self.stats.contiguous += count(got.as_ref());
                got
            }
            Backing::Mapped => {
                let got = self.try_mapped(geometry).or_else(|| {
                    self.purge_where(|backing| backing == Backing::Mapped);
                    self.try_mapped(geometry)
                });
                self.stats.mapping_failed += u64::from(got.is_none());
                self.stats.mapped += count(got.as_ref());
                got
            }
            Backing::Scattered => {
                let got = self.try_scattered(geometry).or_else(|| {
                    // Before there is no memory, there is none unused.
                    let purged = self.purge();
                    (purged > 0).then(|| self.try_scattered(geometry)).flatten()
                });
                self.stats.scattered += count(got.as_ref());
                got
            }
        }
    }

    fn try_contiguous(&mut self, geometry: NodeGeometry) -> Option<Vec<NodeMemory>> {
        if !self.steps.allows(Step::Contiguous) {
            return None;
        }
        let folio = Folio::zeroed(geometry.unit_size()).ok()?;
        nodes_of(Region::Folio(folio), geometry, |part| {
            Some(NodeMemory::one(geometry, Backing::Contiguous, part))
        })
    }

    fn try_mapped(&mut self, geometry: NodeGeometry) -> Option<Vec<NodeMemory>> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(PageFile::new().ok()?),
        };
        let mapping = Mapping::new(file, geometry, &mut self.steps).ok()?;
        nodes_of(Region::Mapping(mapping), geometry, |part| {
            Some(NodeMemory::one(geometry, Backing::Mapped, part))
        })
    }

    fn try_scattered(&mut self, geometry: NodeGeometry) -> Option<Vec<NodeMemory>> {
        let page = geometry.page_size();
        if geometry.nodes_per_page() > 1 {
            if !self.steps.allows(Step::Page(0)) {
                return None;
            }
            let region = Region::Folio(Folio::zeroed(page).ok()?);
            return nodes_of(region, geometry, |part| {
                NodeMemory::scattered(geometry, Pages(vec_of(1, [part])?))
            });
        }
        let mut pages = Vec::new();
        pages.try_reserve_exact(geometry.pages()).ok()?;
        for index in 0..geometry.pages() {
            if !self.steps.allows(Step::Page(index)) {
                return None;
            }
            let region = Region::Folio(Folio::zeroed(page).ok()?);
            pages.push(Part::whole(region));
        }
        vec_of(1, [NodeMemory::scattered(geometry, Pages(pages))?])
    }

    fn take_unused(&mut self, geometry: NodeGeometry, backing: Backing) -> Option<NodeMemory> {
        let memory = self.unused.get_mut(&(geometry, backing))?.pop()?;
        self.kept_bytes -= memory.len();
        Some(memory)
    }

    fn keep(&mut self, memory: NodeMemory) {
        let bytes = self.kept_bytes + memory.len();
        if bytes > self.kept_bytes_max {
            return;
        }
        let list = self
            .unused
            .entry((memory.geometry(), memory.backing()))
            .or_default();
        if list.try_reserve(1).is_ok() {
            list.push(memory);
            self.kept_bytes = bytes;
        }
    }

    fn purge_where(&mut self, purged: impl Fn(Backing) -> bool) -> usize {
        let mut blocks = 0;
        self.unused.retain(|(geometry, backing), list| {
            let purged = purged(*backing);
            if purged {
                blocks += list.len();
                self.kept_bytes -= list.len() * geometry.node_size();
            }
            !purged
        });
        self.stats.purged += blocks as u64;
        blocks
    }
}

/// The backings that are tried, from `first` on.
fn order(first: Backing) -> impl Iterator<Item = Backing> {
    Backing::ALL
        .into_iter()
        .filter(move |backing| *backing >= first)
}

fn count(got: Option<&Vec<NodeMemory>>) -> u64 {
    got.map_or(0, |memories| memories.len() as u64)
}

/// The blocks of a region of one unit, the last of them first.
fn nodes_of(
    region: Region,
    geometry: NodeGeometry,
    node: impl Fn(Part) -> Option<NodeMemory>,
) -> Option<Vec<NodeMemory>> {
    if geometry.nodes_per_page() == 1 {
        return vec_of(1, [node(Part::whole(region))?]);
    }
    let parts = Part::split(region, geometry.node_size());
    let mut nodes = Vec::new();
    nodes.try_reserve_exact(parts.len()).ok()?;
    for part in parts {
        nodes.push(node(part)?);
    }
    nodes.reverse();
    Some(nodes)
}

/// A vector of `len` items; none where there is no memory for it.
fn vec_of<T>(len: usize, items: impl IntoIterator<Item = T>) -> Option<Vec<T>> {
    let mut vec = Vec::new();
    vec.try_reserve_exact(len).ok()?;
    vec.extend(items);
    Some(vec)
}
