//! Sizes of blocks and pages, and the ways to lay one into the other.

use crate::MemoryError;

/// Sizes that fit each other: of a metadata block and of the pages it lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeGeometry {
    node_size: usize,
    page_size: usize,
}

impl NodeGeometry {
    /// A block of `node_size` bytes, a power of two from 4 to 64 KiB, in pages
    /// of 4, 16 or 64 KiB. A page that is larger than a block holds several
    /// (B4).
    pub const fn new(node_size: usize, page_size: usize) -> Result<Self, MemoryError> {
        const MIN: usize = 4096;
        const MAX: usize = 65536;
        if !node_size.is_power_of_two() || node_size < MIN || node_size > MAX {
            return Err(MemoryError::NodeSize(node_size));
        }
        if !matches!(page_size, 4096 | 16384 | 65536) {
            return Err(MemoryError::PageSize(page_size));
        }
        Ok(Self {
            node_size,
            page_size,
        })
    }

    /// Bytes in a block.
    #[must_use]
    pub const fn node_size(self) -> usize {
        self.node_size
    }

    /// Bytes in a page.
    #[must_use]
    pub const fn page_size(self) -> usize {
        self.page_size
    }

    /// Pages that a block reaches: one where several blocks share it.
    #[must_use]
    pub const fn pages(self) -> usize {
        self.node_size.div_ceil(self.page_size)
    }

    /// Blocks that share a page: one where a block has its pages alone.
    #[must_use]
    pub const fn nodes_per_page(self) -> usize {
        self.page_size.div_ceil(self.node_size)
    }

    /// Bytes that are got at once: all pages of a block, or all blocks of a
    /// page.
    pub(crate) const fn unit_size(self) -> usize {
        if self.node_size > self.page_size {
            self.node_size
        } else {
            self.page_size
        }
    }
}

/// How the bytes of a block lie in memory (B1); in the order of choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Backing {
    /// In one allocation.
    Contiguous,
    /// In separate pages that are mapped side by side.
    Mapped,
    /// In separate pages, accessed page by page.
    Scattered,
}

impl Backing {
    /// Every backing, in the order of choice.
    pub const ALL: [Self; 3] = [Self::Contiguous, Self::Mapped, Self::Scattered];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Contiguous => "contiguous",
            Self::Mapped => "mapped",
            Self::Scattered => "scattered",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_no_block_or_page_has_are_refused_by_name() {
        for size in [0, 1, 2048, 4097, 12288, 131_072, usize::MAX] {
            assert_eq!(
                NodeGeometry::new(size, 4096),
                Err(MemoryError::NodeSize(size))
            );
        }
        for size in [0, 512, 8192, 32768, 131_072] {
            assert_eq!(
                NodeGeometry::new(16384, size),
                Err(MemoryError::PageSize(size))
            );
        }
    }

    #[test]
    fn b4_a_page_larger_than_a_block_holds_several() {
        for (node, page, pages, nodes) in [
            (16384, 4096, 4, 1),
            (16384, 16384, 1, 1),
            (16384, 65536, 1, 4),
            (4096, 65536, 1, 16),
            (65536, 4096, 16, 1),
        ] {
            let geometry = NodeGeometry::new(node, page).unwrap();
            assert_eq!(
                (geometry.pages(), geometry.nodes_per_page()),
                (pages, nodes)
            );
            assert_eq!(geometry.unit_size(), node.max(page));
        }
    }
}
