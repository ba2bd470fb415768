//! Aligned memory in one allocation.

use std::alloc::{self, Layout};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;

use rustix::mm::{Advice, madvise};

use crate::MemoryError;

/// The memory of a folio: a power of two of bytes, owned.
///
/// **Invariant**: `start` is the start of a live allocation of the global
/// allocator with `layout`, all of whose bytes are initialised; only this value
/// knows of it. It is aligned to its size, at least to 4 KiB and at most to
/// 2 MiB.
///
/// There is no folio of bytes that were never written, since a slice of those
/// must not exist; memory to be overwritten anyway comes cheap from a pool
/// ([`Content::Any`](crate::Content::Any)).
#[derive(Debug)]
pub struct Folio {
    start: NonNull<u8>,
    layout: Layout,
}

impl Folio {
    /// The smallest alignment.
    const PAGE: usize = 4096;
    /// From this size on, the system is asked for huge pages.
    const HUGE_PAGE: usize = 2 << 20;

    /// A folio of `size` bytes, a power of two, all zero.
    pub fn zeroed(size: usize) -> Result<Self, MemoryError> {
        let layout = Self::layout(size)?;
        if size >= Self::HUGE_PAGE {
            let start = Self::allocate(layout)?;
            Self::advise_huge_pages(start, layout);
            // SAFETY: `start` is a live allocation of `layout.size()` bytes, and
            // nobody else knows of it.
            unsafe { start.write_bytes(0, layout.size()) };
            return Ok(Self { start, layout });
        }
        // SAFETY: the size is a power of two, so it is not zero.
        let start = unsafe { alloc::alloc_zeroed(layout) };
        let start = NonNull::new(start).ok_or(MemoryError::OutOfMemory(size))?;
        Ok(Self { start, layout })
    }

    /// A folio with these bytes, as many as a power of two.
    pub fn copied(bytes: &[u8]) -> Result<Self, MemoryError> {
        let layout = Self::layout(bytes.len())?;
        let start = Self::allocate(layout)?;
        Self::advise_huge_pages(start, layout);
        // SAFETY: both are valid for `bytes.len()` bytes, which is the size of
        // the allocation; it is new, so `bytes` cannot lie in it.
        unsafe {
            start
                .as_ptr()
                .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        };
        Ok(Self { start, layout })
    }

    /// Where the bytes start; valid as long as the folio lives.
    pub(crate) const fn start(&self) -> NonNull<u8> {
        self.start
    }

    fn layout(size: usize) -> Result<Layout, MemoryError> {
        if !size.is_power_of_two() {
            return Err(MemoryError::FolioSize(size));
        }
        let align = size.clamp(Self::PAGE, Self::HUGE_PAGE);
        // Too large for any address space.
        Layout::from_size_align(size, align).map_err(|_| MemoryError::OutOfMemory(size))
    }

    /// Memory that is not initialised yet.
    fn allocate(layout: Layout) -> Result<NonNull<u8>, MemoryError> {
        // SAFETY: the size is a power of two, so it is not zero.
        let start = unsafe { alloc::alloc(layout) };
        NonNull::new(start).ok_or(MemoryError::OutOfMemory(layout.size()))
    }

    /// Asks for huge pages; memory without them serves as well.
    fn advise_huge_pages(start: NonNull<u8>, layout: Layout) {
        if layout.size() < Self::HUGE_PAGE {
            return;
        }
        // SAFETY: the range is a live allocation of ours; this advice changes
        // neither its bytes nor whether they can be accessed.
        let advised =
            unsafe { madvise(start.as_ptr().cast(), layout.size(), Advice::LinuxHugepage) };
        let _ = advised;
    }
}

impl Deref for Folio {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: by the invariant, these bytes are live, initialised and known
        // to nobody else; the borrow of `self` keeps them so.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.layout.size()) }
    }
}

impl DerefMut for Folio {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`; the borrow of `self` is exclusive.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.layout.size()) }
    }
}

impl AsRef<[u8]> for Folio {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl AsMut<[u8]> for Folio {
    fn as_mut(&mut self) -> &mut [u8] {
        self
    }
}

impl Drop for Folio {
    fn drop(&mut self) {
        // SAFETY: by the invariant, `start` was allocated with this layout and
        // is live; nothing uses it behind this.
        unsafe { alloc::dealloc(self.start.as_ptr(), self.layout) };
    }
}

// SAFETY: a folio owns its bytes as `Box<[u8]>` does: they move with it, and the
// global allocator takes memory back from any thread.
unsafe impl Send for Folio {}
// SAFETY: a shared folio gives out nothing but `&[u8]`.
unsafe impl Sync for Folio {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folios_of_every_power_of_two_are_zeroed_and_aligned() {
        for shift in 0..=22 {
            let size = 1 << shift;
            let mut folio = Folio::zeroed(size).unwrap();
            assert_eq!(folio.len(), size);
            assert!(folio.iter().all(|byte| *byte == 0));
            let align = size.clamp(4096, 2 << 20);
            assert!(folio.start().as_ptr().addr().is_multiple_of(align));
            folio.fill(0xa5);
            let copy = Folio::copied(&folio).unwrap();
            assert_eq!(&*copy, &*folio);
        }
    }

    #[test]
    fn sizes_that_are_no_power_of_two_are_refused_and_impossible_ones_are_no_abort() {
        for size in [0, 3, 4097, usize::MAX] {
            assert_eq!(
                Folio::zeroed(size).err(),
                Some(MemoryError::FolioSize(size))
            );
        }
        let size = 1 << 63;
        assert_eq!(
            Folio::zeroed(size).err(),
            Some(MemoryError::OutOfMemory(size))
        );
        assert_eq!(Folio::copied(&[]).err(), Some(MemoryError::FolioSize(0)));
    }

    #[test]
    fn a_folio_is_dropped_by_another_thread_than_the_one_that_got_it() {
        let mut folio = Folio::zeroed(65536).unwrap();
        folio[7] = 7;
        let read = std::thread::spawn(move || folio[7]).join();
        assert_eq!(read.ok(), Some(7));
    }
}
