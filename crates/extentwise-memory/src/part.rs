//! Parts of owned memory, each of one owner.

use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

use extentwise_core::extent_buffer::PageList;

use crate::Folio;
use crate::mapping::Mapping;

/// Memory in one piece, however it was got.
#[derive(Debug)]
pub(crate) enum Region {
    Folio(Folio),
    Mapping(Mapping),
}

impl Region {
    const fn start(&self) -> NonNull<u8> {
        match self {
            Self::Folio(folio) => folio.start(),
            Self::Mapping(mapping) => mapping.start(),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Folio(folio) => folio.len(),
            Self::Mapping(mapping) => mapping.len(),
        }
    }
}

/// Some bytes of a region; several parts may share one (B4).
///
/// **Invariant**: the `len` bytes from `start` on lie in the region of `owner`
/// and in no other part of it, and the region itself gives no access to its
/// bytes once it has parts. So these bytes belong to this value alone.
#[derive(Debug)]
pub(crate) struct Part {
    start: NonNull<u8>,
    len: usize,
    _owner: Owner,
}

/// Keeps the memory of a part alive.
#[derive(Debug)]
enum Owner {
    Alone(#[expect(dead_code, reason = "held for its drop")] Region),
    Shared(#[expect(dead_code, reason = "held for its drop")] Arc<Region>),
}

impl Part {
    /// All of a region.
    pub(crate) fn whole(region: Region) -> Self {
        Self {
            start: region.start(),
            len: region.len(),
            _owner: Owner::Alone(region),
        }
    }

    /// A region cut into parts of `len` bytes each, which is not zero, in order.
    pub(crate) fn split(region: Region, len: usize) -> impl ExactSizeIterator<Item = Self> {
        let start = region.start();
        let count = region.len() / len;
        let region = Arc::new(region);
        (0..count).map(move |index| {
            // SAFETY: `index` is less than `count`, so `index * len` is less
            // than the length of the region.
            let start = unsafe { start.add(index * len) };
            Self {
                start,
                len,
                _owner: Owner::Shared(Arc::clone(&region)),
            }
        })
    }
}

impl AsRef<[u8]> for Part {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        // SAFETY: by the invariant, these bytes are live while `self` is, are
        // initialised as those of every region, and belong to this part.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl AsMut<[u8]> for Part {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `as_ref`; the borrow of `self` is exclusive.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

// SAFETY: a part owns its bytes as `Box<[u8]>` does; what it shares with other
// parts is only the count of owners, which is atomic, and the region, which is
// `Send` and `Sync`.
unsafe impl Send for Part {}
// SAFETY: a shared part gives out nothing but `&[u8]`.
unsafe impl Sync for Part {}

/// The pages of one block, in order.
#[derive(Debug)]
pub(crate) struct Pages(pub(crate) Vec<Part>);

impl PageList for Pages {
    #[inline]
    fn count(&self) -> usize {
        self.0.len()
    }

    #[inline]
    fn page(&self, index: usize) -> &[u8] {
        self.0.get(index).map(AsRef::as_ref).unwrap_or_default()
    }

    #[inline]
    fn page_mut(&mut self, index: usize) -> &mut [u8] {
        self.0.get_mut(index).map(AsMut::as_mut).unwrap_or_default()
    }

    #[inline]
    fn pair(&mut self, dst: usize, src: usize) -> Option<(&mut [u8], &[u8])> {
        let [dst, src] = self.0.get_disjoint_mut([dst, src]).ok()?;
        Some((dst.as_mut(), (*src).as_ref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b4_parts_of_a_region_are_apart_and_outlive_each_other() {
        let region = Region::Folio(Folio::zeroed(65536).unwrap());
        let mut parts: Vec<Part> = Part::split(region, 16384).collect();
        for (byte, part) in (1..).zip(&mut parts) {
            part.as_mut().fill(byte);
        }
        parts.remove(0);
        let last = parts.pop().unwrap();
        let threads = parts.into_iter().map(|mut part| {
            std::thread::spawn(move || {
                part.as_mut()[0] += 10;
                part.as_ref()[0]
            })
        });
        let threads: Vec<_> = threads.collect();
        let firsts: Vec<u8> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        assert_eq!(firsts, [12, 13]);
        assert!(last.as_ref().iter().all(|byte| *byte == 4));
    }
}
