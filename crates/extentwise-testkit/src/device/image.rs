//! Sparse bytes over all 64-bit addresses.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use extentwise_device::{DiskByte, LenBytes};

const CHUNK: usize = 4096;
const CHUNK_BYTES: u64 = CHUNK as u64;

/// The bytes of a device: zero where nothing was written, at any address below
/// 2^64.
///
/// A clone shares the bytes until one of the two changes them, so an image for
/// each crash costs little. Two images are equal if all their bytes are.
#[derive(Clone, Default)]
pub struct Image {
    chunks: BTreeMap<u64, Arc<[u8; CHUNK]>>,
    end: u64,
}

impl Image {
    /// An image of zeros.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The address behind the last byte that was ever written.
    #[must_use]
    pub fn end(&self) -> DiskByte {
        DiskByte::new(self.end)
    }

    /// Fills `buffer` with the bytes from `at` on.
    pub fn read(&self, at: DiskByte, buffer: &mut [u8]) {
        buffer.fill(0);
        for (index, start, part) in pieces(at.get(), buffer.len()) {
            if let Some(chunk) = self.chunks.get(&index) {
                let len = part.len();
                buffer[part].copy_from_slice(&chunk[start..start + len]);
            }
        }
    }

    /// `len` bytes from `at` on.
    #[must_use]
    pub fn bytes(&self, at: DiskByte, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.read(at, &mut bytes);
        bytes
    }

    /// Puts `bytes` at `at`; those that would lie past the last address have no
    /// place.
    pub fn write(&mut self, at: DiskByte, bytes: &[u8]) {
        for (index, start, part) in pieces(at.get(), bytes.len()) {
            let chunk = self.chunks.entry(index);
            let chunk = chunk.or_insert_with(|| Arc::new([0; CHUNK]));
            let len = part.len();
            Arc::make_mut(chunk)[start..start + len].copy_from_slice(&bytes[part]);
        }
        if !bytes.is_empty() {
            self.end = self.end.max(at.get().saturating_add(bytes.len() as u64));
        }
    }

    /// Makes `len` bytes from `at` on zero. Costs what is held there, not `len`.
    pub fn zero(&mut self, at: DiskByte, len: LenBytes) {
        for held in self.held(at, len) {
            if held.end - held.start == CHUNK_BYTES - 1 {
                self.chunks.remove(&(held.start / CHUNK_BYTES));
            } else {
                self.fill_held(&held, 0);
            }
        }
    }

    /// The first address at which the two differ.
    #[must_use]
    pub fn first_difference(&self, other: &Self) -> Option<DiskByte> {
        let indexes = self.chunks.keys().chain(other.chunks.keys());
        let differing = indexes.filter_map(|index| {
            let ours = self.chunks.get(index).map_or(&[0; CHUNK], |chunk| &**chunk);
            let theirs = other.chunks.get(index);
            let theirs = theirs.map_or(&[0; CHUNK], |chunk| &**chunk);
            let place = ours.iter().zip(theirs).position(|(a, b)| a != b)?;
            Some(index * CHUNK_BYTES + place as u64)
        });
        differing.min().map(DiskByte::new)
    }

    /// Makes the bytes of `len` from `at` on that are held `byte`, and leaves
    /// the others zero.
    pub(super) fn overwrite_held(&mut self, at: DiskByte, len: LenBytes, byte: u8) {
        for held in self.held(at, len) {
            self.fill_held(&held, byte);
        }
    }

    /// The parts of `len` bytes from `at` on that are held, first and last byte
    /// of each; none is larger than a chunk.
    pub(super) fn held(&self, at: DiskByte, len: LenBytes) -> Vec<Range<u64>> {
        let at = at.get();
        let Some(rest) = len.get().checked_sub(1) else {
            return Vec::new();
        };
        let last = at.saturating_add(rest);
        let chunks = self.chunks.range(at / CHUNK_BYTES..=last / CHUNK_BYTES);
        let bytes = chunks.map(|(index, _)| {
            let first = index * CHUNK_BYTES;
            at.max(first)..last.min(first + (CHUNK_BYTES - 1))
        });
        bytes.collect()
    }

    /// Fills what [`held`](Self::held) answered: from the first to the last byte.
    fn fill_held(&mut self, held: &Range<u64>, byte: u8) {
        if let Some(chunk) = self.chunks.get_mut(&(held.start / CHUNK_BYTES)) {
            Arc::make_mut(chunk)[within(held.start)..=within(held.end)].fill(byte);
        }
    }
}

impl PartialEq for Image {
    fn eq(&self, other: &Self) -> bool {
        self.first_difference(other).is_none()
    }
}

impl Eq for Image {}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chunks = self.chunks.keys().map(|index| index * CHUNK_BYTES);
        f.debug_struct("Image")
            .field("end", &self.end)
            .field("chunks_at", &chunks.collect::<Vec<_>>())
            .finish()
    }
}

/// Where `len` bytes from `at` on lie: the chunk, the place in it, and which of
/// the bytes. It ends at the last address, where a chunk ends.
fn pieces(at: u64, len: usize) -> impl Iterator<Item = (u64, usize, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let place = at.checked_add(done as u64).filter(|_| done < len)?;
        let start = within(place);
        let part = done..len.min(done + (CHUNK - start));
        done = part.end;
        Some((place / CHUNK_BYTES, start, part))
    })
}

/// The place of an address in its chunk.
fn within(at: u64) -> usize {
    usize::try_from(at % CHUNK_BYTES).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_found_again_at_any_address() {
        for at in [0, 1, 4095, 1 << 63, u64::MAX - 100] {
            let mut image = Image::new();
            image.write(DiskByte::new(at), &[7; 100]);
            assert_eq!(image.bytes(DiskByte::new(at), 100), [7; 100]);
            assert_eq!(image.end().get(), at + 100);
            let before = DiskByte::new(at.saturating_sub(1));
            assert_eq!(image.bytes(before, 1)[0], if at == 0 { 7 } else { 0 });
        }
        let mut image = Image::new();
        image.write(DiskByte::MAX, &[7; 100]);
        assert_eq!(image.bytes(DiskByte::MAX, 2), [7, 0], "no byte wraps");
        assert_eq!(image.bytes(DiskByte::ZERO, 1), [0]);
    }

    #[test]
    fn zeroing_takes_the_bytes_named_and_no_others_and_costs_what_is_held() {
        let mut image = Image::new();
        image.write(DiskByte::ZERO, &[1; 3 * CHUNK]);
        image.zero(DiskByte::new(10), LenBytes::new(2 * CHUNK_BYTES));
        assert_eq!(image.bytes(DiskByte::ZERO, 10), [1; 10]);
        assert_eq!(image.bytes(DiskByte::new(10), 2 * CHUNK), [0; 2 * CHUNK]);
        let behind = DiskByte::new(10 + 2 * CHUNK_BYTES);
        assert_eq!(image.bytes(behind, CHUNK - 10), [1; CHUNK - 10]);
        image.zero(DiskByte::ZERO, LenBytes::MAX);
        assert_eq!(image, Image::new());
        assert!(image.chunks.is_empty());
    }

    #[test]
    fn a_difference_is_found_where_only_one_image_holds_bytes() {
        let mut image = Image::new();
        image.write(DiskByte::new(5000), &[0, 0, 3]);
        let other = image.clone();
        assert_eq!(image.first_difference(&other), None);
        let place = Some(DiskByte::new(5002));
        assert_eq!(Image::new().first_difference(&image), place);
        image.write(DiskByte::new(9), &[1]);
        assert_eq!(other.first_difference(&image), Some(DiskByte::new(9)));
    }
}
