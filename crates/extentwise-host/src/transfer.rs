//! Buffers on their way to the operating system.

use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use extentwise_device::{DeviceError, ErrorClass};
use extentwise_memory::Folio;

/// Buffers that the operating system takes in one call (`IOV_MAX`).
pub(crate) const BUFFERS_MAX: usize = 1024;

/// Buffers to be written, one behind the other.
pub(crate) struct Pieces<'b, 'p>(pub(crate) &'b [&'p [u8]]);

/// Buffers to be filled, one behind the other.
pub(crate) struct PiecesMut<'b, 'p>(pub(crate) &'b mut [&'p mut [u8]]);

impl Pieces<'_, '_> {
    pub(crate) fn total(&self) -> usize {
        total(self.0.iter().map(|piece| piece.len()))
    }

    pub(crate) fn are_aligned(&self, memory: usize, block: usize) -> bool {
        let mut pieces = self.0.iter();
        pieces.all(|piece| is_aligned(piece, memory, block))
    }

    /// The front of the buffers, as far as one call takes them: at most `room`
    /// bytes.
    pub(crate) fn slices(&self, mut room: usize) -> Vec<IoSlice<'_>> {
        let mut slices = Vec::with_capacity(self.0.len().min(BUFFERS_MAX));
        for piece in self.0.iter().filter(|piece| !piece.is_empty()) {
            if slices.len() == BUFFERS_MAX || room == 0 {
                break;
            }
            let len = piece.len().min(room);
            room -= len;
            slices.push(IoSlice::new(&piece[..len]));
        }
        slices
    }

    /// Fills `into` with the front of the buffers.
    pub(crate) fn gather(&self, mut into: &mut [u8]) {
        for piece in self.0 {
            let (now, rest) = into.split_at_mut(piece.len().min(into.len()));
            now.copy_from_slice(&piece[..now.len()]);
            into = rest;
        }
    }
}

impl PiecesMut<'_, '_> {
    pub(crate) fn total(&self) -> usize {
        total(self.0.iter().map(|piece| piece.len()))
    }

    pub(crate) fn are_aligned(&self, memory: usize, block: usize) -> bool {
        let mut pieces = self.0.iter();
        pieces.all(|piece| is_aligned(piece, memory, block))
    }

    /// The front of the buffers, as far as one call takes them: at most `room`
    /// bytes.
    pub(crate) fn slices(&mut self, mut room: usize) -> Vec<IoSliceMut<'_>> {
        let mut slices = Vec::with_capacity(self.0.len().min(BUFFERS_MAX));
        for piece in self.0.iter_mut().filter(|piece| !piece.is_empty()) {
            if slices.len() == BUFFERS_MAX || room == 0 {
                break;
            }
            let len = piece.len().min(room);
            room -= len;
            slices.push(IoSliceMut::new(&mut piece[..len]));
        }
        slices
    }

    /// Fills the front of the buffers with `from`.
    pub(crate) fn scatter(&mut self, mut from: &[u8]) {
        for piece in self.0.iter_mut() {
            let (now, rest) = from.split_at(piece.len().min(from.len()));
            piece[..now.len()].copy_from_slice(now);
            from = rest;
        }
    }

    /// Zeroes a part of them.
    pub(crate) fn zero(&mut self, range: Range<usize>) {
        let mut start = 0_usize;
        for piece in self.0.iter_mut() {
            let end = start.saturating_add(piece.len());
            let (from, to) = (range.start.clamp(start, end), range.end.clamp(start, end));
            if from < to {
                piece[from - start..to - start].fill(0);
            }
            start = end;
        }
    }
}

/// Aligned memory for buffers that are not; what was used last is kept.
#[derive(Debug, Default)]
pub(crate) struct Bounce(Mutex<Option<Folio>>);

impl Bounce {
    /// Bytes that go through at a time; more where one block is larger.
    pub(crate) const LEN_MAX: usize = 1 << 20;

    /// Memory for `len` bytes.
    pub(crate) fn get(&self, len: usize, align: usize) -> Result<BounceBuffer<'_>, DeviceError> {
        let len = len.max(align);
        let spare = self.spare().take().filter(|folio| folio.len() >= len);
        let folio = match spare {
            Some(folio) => folio,
            // A folio is aligned to its size, at least to a page.
            None => Folio::zeroed(len.next_power_of_two()).map_err(|_| ErrorClass::NoMemory)?,
        };
        Ok(BounceBuffer {
            of: self,
            folio: Some(folio),
        })
    }

    fn spare(&self) -> std::sync::MutexGuard<'_, Option<Folio>> {
        // Nothing is half done under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bounce memory in use.
pub(crate) struct BounceBuffer<'b> {
    of: &'b Bounce,
    folio: Option<Folio>,
}

impl BounceBuffer<'_> {
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        self.folio.as_deref_mut().unwrap_or_default()
    }
}

impl Drop for BounceBuffer<'_> {
    fn drop(&mut self) {
        *self.of.spare() = self.folio.take();
    }
}

fn total(mut lens: impl Iterator<Item = usize>) -> usize {
    lens.by_ref().fold(0, usize::saturating_add)
}

/// Whether a direct transfer takes this buffer as it is; an empty one is left
/// out.
fn is_aligned(piece: &[u8], memory: usize, block: usize) -> bool {
    piece.is_empty()
        || piece.as_ptr().addr().is_multiple_of(memory) && piece.len().is_multiple_of(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_gathered_scattered_and_zeroed_over_their_borders() {
        let pieces: [&[u8]; 4] = [b"ab", b"", b"cdef", b"g"];
        let mut all = [0; 6];
        Pieces(&pieces).gather(&mut all);
        assert_eq!(&all, b"abcdef");
        let (mut a, mut b, mut c) = ([9; 3], [9; 0], [9; 4]);
        {
            let mut buffers: [&mut [u8]; 3] = [&mut a, &mut b, &mut c];
            let mut pieces = PiecesMut(&mut buffers);
            assert_eq!(pieces.total(), 7);
            pieces.scatter(b"12345");
            pieces.zero(2..4);
            pieces.zero(6..6);
        }
        assert_eq!((a, c), ([b'1', b'2', 0], [0, b'5', 9, 9]));
    }

    #[test]
    fn one_call_takes_so_many_buffers_and_bytes() {
        let many = vec![&b"xy"[..]; 3000];
        assert_eq!(Pieces(&many).slices(usize::MAX).len(), BUFFERS_MAX);
        let many = Pieces(&many);
        let few = many.slices(5).into_iter();
        let lens: Vec<usize> = few.map(|slice| slice.len()).collect();
        assert_eq!(lens, [2, 2, 1]);
    }

    #[test]
    fn a_bounce_buffer_is_aligned_and_used_again() {
        let bounce = Bounce::default();
        let first = bounce.get(512, 4096).unwrap().bytes().as_ptr();
        assert!(first.addr().is_multiple_of(4096));
        let again = bounce.get(4096, 4096).unwrap().bytes().as_ptr();
        assert_eq!(first, again);
        let mut one = bounce.get(Bounce::LEN_MAX, 512).unwrap();
        let mut other = bounce.get(512, 512).unwrap();
        assert_eq!(one.bytes().len(), Bounce::LEN_MAX);
        assert_ne!(one.bytes().as_ptr(), other.bytes().as_ptr());
    }
}
