//! Where the memory of tree blocks comes from.

use extentwise_core::extent_buffer::{BlockMemory, Contiguous};
use extentwise_memory::{Backing, Content, MemoryError, NodeGeometry, NodeMemory, NodePool};

/// Gives memory for tree blocks, and takes it back to use it again.
pub trait BlockPool {
    /// The memory of one block.
    type Memory: BlockMemory;
    /// Why there is none.
    type Error: std::fmt::Display;

    /// Memory of `len` bytes, with whatever bytes are in it.
    fn take(&mut self, len: usize) -> Result<Self::Memory, Self::Error>;

    /// Takes memory back.
    fn give(&mut self, memory: Self::Memory);

    /// How many blocks got which memory so far.
    fn counts(&self) -> BackingCounts;
}

/// How many blocks lay in which memory (B1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackingCounts {
    /// In one allocation.
    pub contiguous: u64,
    /// In pages that were mapped side by side.
    pub mapped: u64,
    /// In pages, each on its own.
    pub scattered: u64,
}

/// Memory of the backing that is wanted, or else the next one (B1).
#[derive(Debug)]
pub struct NodeBlocks {
    pool: NodePool,
    first: Backing,
    counts: BackingCounts,
}

impl NodeBlocks {
    /// Blocks in `first` where it can be had.
    #[must_use]
    pub fn new(first: Backing) -> Self {
        // A walk holds one block at a time.
        const KEPT_BYTES_MAX: usize = 1 << 16;
        Self {
            pool: NodePool::new(KEPT_BYTES_MAX),
            first,
            counts: BackingCounts::default(),
        }
    }
}

impl BlockPool for NodeBlocks {
    type Memory = NodeMemory;
    type Error = MemoryError;

    fn take(&mut self, len: usize) -> Result<Self::Memory, Self::Error> {
        const PAGE: usize = 4096;
        let geometry = NodeGeometry::new(len, PAGE)?;
        let memory = self.pool.get(geometry, self.first, Content::Any)?;
        *match memory.backing() {
            Backing::Contiguous => &mut self.counts.contiguous,
            Backing::Mapped => &mut self.counts.mapped,
            Backing::Scattered => &mut self.counts.scattered,
        } += 1;
        Ok(memory)
    }

    fn give(&mut self, memory: Self::Memory) {
        self.pool.give_back(memory);
    }

    fn counts(&self) -> BackingCounts {
        self.counts
    }
}

/// Memory from the heap, in one piece; the last block's is used again.
#[derive(Debug, Default)]
pub struct Heap {
    spare: Vec<u8>,
    taken: u64,
}

impl BlockPool for Heap {
    type Memory = Contiguous<Vec<u8>>;
    type Error = std::collections::TryReserveError;

    fn take(&mut self, len: usize) -> Result<Self::Memory, Self::Error> {
        let mut bytes = std::mem::take(&mut self.spare);
        bytes.try_reserve_exact(len.saturating_sub(bytes.len()))?;
        bytes.resize(len, 0);
        self.taken += 1;
        Ok(Contiguous::new(bytes))
    }

    fn give(&mut self, memory: Self::Memory) {
        self.spare = memory.into_inner();
    }

    fn counts(&self) -> BackingCounts {
        BackingCounts {
            contiguous: self.taken,
            ..BackingCounts::default()
        }
    }
}
