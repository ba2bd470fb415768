//! What a walk found.

use std::fmt;

use crate::disk::objectid;
use crate::fault::Bad;

/// What a walk over all trees found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The trees, in the order in which they were walked: the root tree, the
    /// chunk tree, the tree of logs if there are any, then every root item.
    pub trees: Vec<Tree>,
    /// What is wrong, in the order in which it was met.
    pub bad: Vec<Bad>,
    /// Blocks that were read and are sound, each once, however many trees share
    /// it.
    pub distinct: u64,
    /// Why the walk ended before it had seen everything.
    pub stopped: Option<Stopped>,
}

impl Report {
    /// Whether everything was seen and nothing is wrong.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.bad.is_empty() && self.stopped.is_none()
    }

    /// Nodes of all trees; a node that trees share counts in each.
    #[must_use]
    pub fn nodes(&self) -> u64 {
        let nodes = self.trees.iter().map(|tree| tree.nodes);
        nodes.fold(0, u64::saturating_add)
    }

    /// Leaves of all trees; a leaf that trees share counts in each.
    #[must_use]
    pub fn leaves(&self) -> u64 {
        let leaves = self.trees.iter().map(|tree| tree.leaves);
        leaves.fold(0, u64::saturating_add)
    }
}

/// A tree, and how many sound blocks it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree {
    /// Its object id.
    pub objectid: u64,
    /// The offset of its root item: the subvolume of a log, the transaction of a
    /// snapshot.
    pub offset: u64,
    /// Blocks above the leaves.
    pub nodes: u64,
    /// Leaves.
    pub leaves: u64,
    /// Levels, leaves included; 0 where the root is bad.
    pub levels: u8,
}

impl Tree {
    /// The name that the format gives to the tree; subvolumes have none.
    #[must_use]
    pub const fn name(&self) -> Option<&'static str> {
        Some(match self.objectid {
            objectid::ROOT_TREE => "root",
            2 => "extent",
            objectid::CHUNK_TREE => "chunk",
            4 => "device",
            objectid::FS_TREE => "fs",
            7 => "checksum",
            8 => "quota",
            9 => "uuid",
            10 => "free space",
            11 => "block group",
            objectid::TREE_LOG => "log",
            objectid::TREE_RELOC => "reloc",
            objectid::DATA_RELOC_TREE => "data reloc",
            _ => return None,
        })
    }
}

/// Why a walk ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// It took as many steps as it may.
    Steps(u64),
    /// It found as many bad blocks as it may list.
    Bad(usize),
    /// There was no memory for a block.
    Memory(String),
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Steps(steps) => write!(f, "stopped after {steps} steps"),
            Self::Bad(count) => write!(f, "stopped after {count} bad blocks"),
            Self::Memory(why) => write!(f, "no memory for a tree block: {why}"),
        }
    }
}
