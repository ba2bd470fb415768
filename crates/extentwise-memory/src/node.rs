//! The memory of one metadata block.

use extentwise_core::extent_buffer::{BlockMemory, Contiguous, Scattered};

use crate::part::{Pages, Part};
use crate::{Backing, NodeGeometry};

/// The bytes of one metadata block, owned; got from a
/// [`NodePool`](crate::NodePool).
///
/// **Invariant**: it has as many bytes as a block of its geometry, and no other
/// value has access to them, whether or not its pages are shared (B4).
#[derive(Debug)]
pub struct NodeMemory {
    geometry: NodeGeometry,
    backing: Backing,
    bytes: Bytes,
}

#[derive(Debug)]
enum Bytes {
    One(Part),
    Pages(Scattered<Pages>),
}

impl NodeMemory {
    /// A block whose bytes are one part, of the block's size.
    pub(crate) const fn one(geometry: NodeGeometry, backing: Backing, part: Part) -> Self {
        Self {
            geometry,
            backing,
            bytes: Bytes::One(part),
        }
    }

    /// A block in pages, or in its part of a page.
    pub(crate) fn scattered(geometry: NodeGeometry, pages: Pages) -> Option<Self> {
        let page = geometry.page_size().min(geometry.node_size());
        Some(Self {
            geometry,
            backing: Backing::Scattered,
            bytes: Bytes::Pages(Scattered::new(pages, page, 0, geometry.node_size()).ok()?),
        })
    }

    /// The sizes it was got for.
    #[must_use]
    pub const fn geometry(&self) -> NodeGeometry {
        self.geometry
    }

    /// How its bytes lie in memory.
    #[must_use]
    pub const fn backing(&self) -> Backing {
        self.backing
    }

    /// Sets all its bytes.
    pub fn fill(&mut self, byte: u8) {
        let mut at = 0;
        while at < self.len() {
            let chunk = self.chunk_mut(at);
            chunk.fill(byte);
            // A chunk is empty only behind the block.
            at += chunk.len().max(1);
        }
    }
}

impl BlockMemory for NodeMemory {
    #[inline]
    fn len(&self) -> usize {
        self.geometry.node_size()
    }

    #[inline]
    fn chunk(&self, offset: usize) -> &[u8] {
        match &self.bytes {
            Bytes::One(part) => part.as_ref().get(offset..).unwrap_or_default(),
            Bytes::Pages(pages) => pages.chunk(offset),
        }
    }

    #[inline]
    fn chunk_mut(&mut self, offset: usize) -> &mut [u8] {
        match &mut self.bytes {
            Bytes::One(part) => part.as_mut().get_mut(offset..).unwrap_or_default(),
            Bytes::Pages(pages) => pages.chunk_mut(offset),
        }
    }

    #[inline]
    fn whole_mut(&mut self) -> Option<&mut [u8]> {
        match &mut self.bytes {
            Bytes::One(part) => Some(part.as_mut()),
            Bytes::Pages(_) => None,
        }
    }

    #[inline]
    fn contiguous_after(&self, offset: usize) -> usize {
        match &self.bytes {
            Bytes::One(_) => self.len().saturating_sub(offset),
            Bytes::Pages(pages) => pages.contiguous_after(offset),
        }
    }

    #[inline]
    fn contiguous_before(&self, end: usize) -> usize {
        match &self.bytes {
            Bytes::One(_) => end.min(self.len()),
            Bytes::Pages(pages) => pages.contiguous_before(end),
        }
    }

    #[inline]
    fn move_chunk(&mut self, dst: usize, src: usize, len: usize) {
        match &mut self.bytes {
            Bytes::One(part) => Contiguous::new(part.as_mut()).move_chunk(dst, src, len),
            Bytes::Pages(pages) => pages.move_chunk(dst, src, len),
        }
    }

    #[inline]
    fn move_range(&mut self, dst: usize, src: usize, len: usize) {
        match &mut self.bytes {
            Bytes::One(_) => self.move_chunk(dst, src, len),
            Bytes::Pages(pages) => pages.move_range(dst, src, len),
        }
    }
}
