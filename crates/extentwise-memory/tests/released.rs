//! Every page that was got is released, counted at the allocator.
//!
//! Alone in its process, so that no other test's pages count.
#![allow(
    unsafe_code,
    reason = "an allocator that counts can only be put in place so"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use extentwise_memory::testing::Faults;
use extentwise_memory::{Backing, Content, NodeGeometry, NodePool};

/// Pages, by their alignment, that were got and not released.
static LIVE: AtomicUsize = AtomicUsize::new(0);
static GOT: AtomicUsize = AtomicUsize::new(0);

struct Counting;

fn is_page(layout: Layout) -> bool {
    layout.align() >= 4096
}

// SAFETY: all of it is the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_page(layout) {
            LIVE.fetch_add(1, Ordering::Relaxed);
            GOT.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the caller keeps the promises of this function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        if is_page(layout) {
            LIVE.fetch_sub(1, Ordering::Relaxed);
        }
        // SAFETY: the caller keeps the promises of this function.
        unsafe { System.dealloc(start, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn b7_a_failure_at_page_k_of_n_releases_exactly_the_k_pages_got() {
    let geometry = NodeGeometry::new(65536, 4096).unwrap();
    for page in 0..geometry.pages() {
        let faults = Faults {
            page_at: Some(page),
            ..Faults::default()
        };
        let mut pool = NodePool::with_steps(1 << 20, faults);
        let before = GOT.load(Ordering::Relaxed);
        let refused = pool.get(geometry, Backing::Scattered, Content::Any);
        assert!(refused.is_err());
        assert_eq!(GOT.load(Ordering::Relaxed) - before, page);
        assert_eq!(LIVE.load(Ordering::Relaxed), 0);
    }

    let mut pool = NodePool::new(1 << 20);
    let memory = pool.get(geometry, Backing::Scattered, Content::Any);
    assert_eq!(LIVE.load(Ordering::Relaxed), 16);
    pool.give_back(memory.unwrap());
    assert_eq!(LIVE.load(Ordering::Relaxed), 16);
    drop(pool);
    assert_eq!(LIVE.load(Ordering::Relaxed), 0);

    // The last block of a shared page takes the page with it.
    let shared = NodeGeometry::new(16384, 65536).unwrap();
    let mut memories = NodePool::new(0)
        .get_page(shared, Backing::Contiguous)
        .unwrap();
    while let Some(memory) = memories.pop() {
        assert_eq!(LIVE.load(Ordering::Relaxed), 1);
        drop(memory);
    }
    assert_eq!(LIVE.load(Ordering::Relaxed), 0);
}
