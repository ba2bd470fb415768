//! The bytes of a file's cached folios: only those parts that were touched.

use std::collections::BTreeMap;
use std::ops::Range;

use extentwise_core::geometry::FileRange;

/// Cached bytes of one file, in naturally aligned chunks of one size.
///
/// A large folio of which little is used takes little memory, and no chunk ends
/// inside a block or reaches over the end of a folio.
#[derive(Debug)]
pub(super) struct Memory {
    chunk_size: u64,
    chunks: BTreeMap<u64, Box<[u8]>>,
}

/// What chunks have if neither blocks nor folios ask for another size.
const CHUNK_SIZE_USUAL: u64 = 16 << 10;

impl Memory {
    /// Memory for blocks and folios of these sizes, both powers of two.
    pub(super) fn new(block_size: u64, folio_size: u64) -> Self {
        Self {
            chunk_size: CHUNK_SIZE_USUAL.max(block_size).min(folio_size),
            chunks: BTreeMap::new(),
        }
    }

    pub(super) fn chunk_size(&self) -> u64 {
        self.chunk_size
    }

    /// Makes memory for `range`; new bytes are zero.
    pub(super) fn cover(&mut self, range: FileRange) {
        let len = self.chunk_size as usize;
        let indices = self.keys(range);
        for key in indices.step_by(len) {
            let chunk = self.chunks.entry(key);
            chunk.or_insert_with(|| vec![0; len].into_boxed_slice());
        }
    }

    /// The bytes of `range` that there is memory for: slices with their offset,
    /// ascending.
    pub(super) fn pieces(&self, range: FileRange) -> impl Iterator<Item = (u64, &[u8])> {
        let chunks = self.chunks.range(self.keys(range));
        chunks.map(move |(&key, chunk)| {
            let cut = cut(key, chunk.len(), range);
            (key + cut.start as u64, &chunk[cut])
        })
    }

    /// The same, to be changed.
    pub(super) fn pieces_mut(
        &mut self,
        range: FileRange,
    ) -> impl Iterator<Item = (u64, &mut [u8])> {
        let keys = self.keys(range);
        let chunks = self.chunks.range_mut(keys);
        chunks.map(move |(&key, chunk)| {
            let cut = cut(key, chunk.len(), range);
            (key + cut.start as u64, &mut chunk[cut])
        })
    }

    /// Zeroes the bytes of `range`.
    pub(super) fn zero(&mut self, range: FileRange) {
        self.pieces_mut(range).for_each(|(_, bytes)| bytes.fill(0));
    }

    /// Gives back the memory of `range`, which must begin and end where chunks
    /// do.
    pub(super) fn forget(&mut self, range: FileRange) {
        let keys = self.keys(range);
        let gone: Vec<u64> = self.chunks.range(keys).map(|(&key, _)| key).collect();
        for key in gone {
            self.chunks.remove(&key);
        }
    }

    /// Memory taken.
    pub(super) fn len_bytes(&self) -> u64 {
        self.chunks.len() as u64 * self.chunk_size
    }

    /// Keys of the chunks that `range` meets; multiples of the chunk size are
    /// meant, of which the first is the start.
    fn keys(&self, range: FileRange) -> Range<u64> {
        let start = range.start().get();
        let first = start & !(self.chunk_size - 1);
        let end = if range.is_empty() {
            first
        } else {
            range.end().get()
        };
        first..end
    }
}

/// The part of a chunk at `key` that lies in `range`, which meets it.
fn cut(key: u64, len: usize, range: FileRange) -> Range<usize> {
    let into = |offset: u64| offset.saturating_sub(key).min(len as u64) as usize;
    into(range.start().get())..into(range.end().get())
}

#[cfg(test)]
mod tests {
    use super::*;
    use extentwise_core::geometry::FileOffset;

    fn range(start: u64, end: u64) -> FileRange {
        FileRange::new(FileOffset::new(start), FileOffset::new(end)).expect("ascending")
    }

    fn shape(memory: &Memory, of: FileRange) -> Vec<(u64, usize)> {
        let pieces = memory.pieces(of);
        pieces
            .map(|(offset, bytes)| (offset, bytes.len()))
            .collect()
    }

    #[test]
    fn chunks_hold_a_block_and_lie_in_a_folio() {
        assert_eq!(Memory::new(512, 512).chunk_size(), 512);
        assert_eq!(Memory::new(4096, 2 << 20).chunk_size(), 16 << 10);
        assert_eq!(Memory::new(65_536, 2 << 20).chunk_size(), 65_536);
    }

    #[test]
    fn a_range_is_covered_and_cut_at_chunks() {
        let mut memory = Memory::new(512, 4096);
        memory.cover(range(4000, 8193));
        assert_eq!(memory.len_bytes(), 3 * 4096);
        memory.cover(range(4000, 5000));
        assert_eq!(memory.len_bytes(), 3 * 4096);
        let of = range(4000, 8193);
        assert_eq!(shape(&memory, of), [(4000, 96), (4096, 4096), (8192, 1)]);
        assert_eq!(shape(&memory, range(12_288, 20_000)), []);
        assert_eq!(shape(&memory, range(4096, 4096)), []);
    }

    #[test]
    fn what_is_forgotten_comes_back_as_zeros() {
        let mut memory = Memory::new(512, 4096);
        memory.cover(range(0, 8192));
        memory
            .pieces_mut(range(0, 8192))
            .for_each(|(_, bytes)| bytes.fill(7));
        memory.zero(range(10, 20));
        memory.forget(range(4096, 8192));
        memory.cover(range(0, 8192));
        let bytes = memory.pieces(range(0, 8192)).flat_map(|(_, bytes)| bytes);
        let kept = bytes.enumerate().filter(|&(_, &byte)| byte == 7);
        let kept: Vec<usize> = kept.map(|(index, _)| index).collect();
        let expected: Vec<usize> = (0..10).chain(20..4096).collect();
        assert_eq!(kept, expected);
    }
}
