//! Separate pages, made adjacent in the address space.

use std::os::fd::OwnedFd;
use std::ptr::{self, NonNull};

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, memfd_create};
use rustix::io::{self, Errno};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use rustix::param::page_size;

use crate::{NodeGeometry, Step, Steps};

/// Where pages come from that can be mapped: a file in memory.
///
/// A page is a place in the file that was never used before; places that are
/// given up are holes and cost nothing. So there is no list of free places, and
/// nothing to lock.
///
/// **Invariant**: the file never shrinks (it is sealed), so that a mapped place
/// stays backed by a page.
#[derive(Debug)]
pub(crate) struct PageFile {
    fd: OwnedFd,
    /// Behind the last place that was used.
    next: u64,
}

impl PageFile {
    pub(crate) fn new() -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = memfd_create("metadata pages", flags)?;
        fcntl_add_seals(&fd, SealFlags::SHRINK)?;
        Ok(Self { fd, next: 0 })
    }

    /// Bytes of the pages that are held.
    pub(crate) fn held_bytes(&self) -> io::Result<u64> {
        // In units of 512 bytes, whatever the file.
        let stat = rustix::fs::fstat(&self.fd)?;
        Ok(u64::try_from(stat.st_blocks).unwrap_or(0) * 512)
    }

    /// A zeroed page at a place of its own; the place is answered.
    fn get_page(&mut self, len: u64) -> io::Result<u64> {
        let at = self.next;
        let end = at.checked_add(len).ok_or(Errno::FBIG)?;
        // Asked for now, because an access that finds no page is a signal, not
        // an error.
        fallocate(&self.fd, FallocateFlags::empty(), at, len)?;
        self.next = end;
        Ok(at)
    }

    /// Gives a page back that is not mapped.
    fn give_back(&self, at: u64, len: u64) {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // Where that fails, the page is held until the file is closed.
        let _ = fallocate(&self.fd, hole, at, len);
    }
}

/// Pages of a [`PageFile`] side by side.
///
/// **Invariant**: `[reserved, reserved + reserved_len)` is address space that
/// only this value knows of; its `mapped` bytes from `start` on are readable,
/// writable, initialised and backed by pages that are mapped nowhere else.
#[derive(Debug)]
pub(crate) struct Mapping {
    reserved: NonNull<u8>,
    reserved_len: usize,
    start: NonNull<u8>,
    /// Bytes of the reservation from `start` on that pages may take.
    room: usize,
    mapped: usize,
}

impl Mapping {
    /// All pages that are got at once in this geometry, zeroed. What was got
    /// before a step failed is given back (B7).
    pub(crate) fn new(
        file: &mut PageFile,
        geometry: NodeGeometry,
        steps: &mut impl Steps,
    ) -> io::Result<Self> {
        let page = geometry.page_size();
        if !steps.allows(Step::Map) || !page.is_multiple_of(page_size()) {
            return Err(Errno::NOMEM);
        }
        let mut mapping = Self::reserve(geometry.unit_size(), page)?;
        for index in 0..geometry.pages() {
            if !steps.allows(Step::Page(index)) {
                return Err(Errno::NOMEM);
            }
            mapping.append(file, page)?;
        }
        Ok(mapping)
    }

    /// Bytes that are mapped.
    pub(crate) const fn len(&self) -> usize {
        self.mapped
    }

    /// Where the bytes start; valid as long as the mapping lives.
    pub(crate) const fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Address space for `len` bytes at a multiple of `align`, a power of two,
    /// with nothing mapped yet.
    fn reserve(len: usize, align: usize) -> io::Result<Self> {
        let slack = align.saturating_sub(page_size());
        let reserved_len = len.checked_add(slack).ok_or(Errno::NOMEM)?;
        // SAFETY: without an address of ours, the system chooses one where
        // nothing is.
        let reserved = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                reserved_len,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }?;
        let reserved = NonNull::new(reserved.cast::<u8>()).ok_or(Errno::NOMEM)?;
        let into = reserved.addr().get().next_multiple_of(align) - reserved.addr().get();
        // SAFETY: `reserved` is a multiple of the system's page size, so `into`
        // is at most `slack`: the sum stays in the reserved range.
        let start = unsafe { reserved.add(into) };
        Ok(Self {
            reserved,
            reserved_len,
            start,
            room: len,
            mapped: 0,
        })
    }

    /// Gets one more page and maps it behind the others.
    fn append(&mut self, file: &mut PageFile, page: usize) -> io::Result<()> {
        if self.room - self.mapped < page {
            return Err(Errno::NOMEM);
        }
        let at = file.get_page(page as u64)?;
        // SAFETY: `mapped` is less than `room`, which was reserved from `start`
        // on, so the sum stays in the reservation.
        let place = unsafe { self.start.add(self.mapped) };
        let flags = MapFlags::SHARED | MapFlags::FIXED | MapFlags::POPULATE;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: what is replaced is a part of our reservation to which no
        // reference was ever given out. The page is new, so it is mapped
        // nowhere else.
        let mapped = unsafe { mmap(place.as_ptr().cast(), page, access, flags, &file.fd, at) };
        match mapped {
            Ok(_) => {
                self.mapped += page;
                Ok(())
            }
            Err(error) => {
                file.give_back(at, page as u64);
                Err(error)
            }
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.mapped > 0 {
            // SAFETY: by the invariant, the range is ours and mapped from the
            // file; whoever had references borrowed from the owner of this.
            let removed =
                unsafe { madvise(self.start.as_ptr().cast(), self.mapped, Advice::LinuxRemove) };
            // Where that fails, the pages are held until the file is closed.
            let _ = removed;
        }
        // SAFETY: the range was reserved by us, and nobody else knows of it.
        let unmapped = unsafe { munmap(self.reserved.as_ptr().cast(), self.reserved_len) };
        // Fails only where splitting areas would pass the system's limit of
        // them; then the address space is lost, and nothing else.
        let _ = unmapped;
    }
}

// SAFETY: a mapping owns its pages, which belong to the process, not to a
// thread.
unsafe impl Send for Mapping {}
// SAFETY: a shared mapping tells no more than an address.
unsafe impl Sync for Mapping {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Unhindered;
    use crate::testing::Faults;

    fn geometry() -> NodeGeometry {
        NodeGeometry::new(16384, 4096).unwrap()
    }

    #[test]
    fn pages_are_held_while_mapped_and_given_back_when_dropped() {
        let mut file = PageFile::new().unwrap();
        let first = Mapping::new(&mut file, geometry(), &mut Unhindered).unwrap();
        let second = Mapping::new(&mut file, geometry(), &mut Unhindered).unwrap();
        assert_eq!(file.held_bytes(), Ok(2 * 16384));
        drop(first);
        assert_eq!(file.held_bytes(), Ok(16384));
        drop(second);
        assert_eq!(file.held_bytes(), Ok(0));
    }

    #[test]
    fn b7_a_failure_at_page_k_gives_back_exactly_the_pages_got() {
        let mut file = PageFile::new().unwrap();
        let other = Mapping::new(&mut file, geometry(), &mut Unhindered).unwrap();
        for page in 0..4 {
            let mut faults = Faults {
                page_at: Some(page),
                ..Faults::default()
            };
            let refused = Mapping::new(&mut file, geometry(), &mut faults);
            assert_eq!(refused.err(), Some(Errno::NOMEM));
            assert_eq!(faults.pages_got, page);
            assert_eq!(file.held_bytes(), Ok(16384));
        }
        drop(other);
    }

    #[test]
    fn large_pages_are_aligned_to_their_size() {
        let mut file = PageFile::new().unwrap();
        for (node, page) in [(4096, 65536), (65536, 16384), (16384, 16384)] {
            let geometry = NodeGeometry::new(node, page).unwrap();
            let mapping = Mapping::new(&mut file, geometry, &mut Unhindered).unwrap();
            assert!(mapping.start().addr().get().is_multiple_of(page));
        }
    }

    #[test]
    fn a_place_at_the_end_of_all_places_is_refused() {
        let mut file = PageFile::new().unwrap();
        for next in [u64::MAX - 4095, u64::MAX, (1 << 63) - 4096] {
            file.next = next;
            assert!(Mapping::new(&mut file, geometry(), &mut Unhindered).is_err());
        }
        assert_eq!(file.held_bytes(), Ok(0));
    }
}
