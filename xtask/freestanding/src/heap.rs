//! The heap of the engine: a free list over memory of the program's own.

use core::mem::MaybeUninit;

use linked_list_allocator::LockedHeap;
use spin::{Mutex, MutexGuard};

/// Many times what the scenario needs: the engine gives back what it no longer uses.
const BYTES: usize = 1 << 20;

#[global_allocator]
static HEAP: LockedHeap = LockedHeap::empty();

static MEMORY: Mutex<[MaybeUninit<u8>; BYTES]> =
    Mutex::new([const { MaybeUninit::uninit() }; BYTES]);

/// Hands the memory over, once. Nothing can be allocated before; were this called twice, the
/// second call would wait for ever.
pub(crate) fn begin() {
    // A guard that is leaked is how safe code turns a static into memory for good.
    let memory = MutexGuard::leak(MEMORY.lock());
    HEAP.lock().init_from_slice(memory);
}

/// Bytes that are allocated now.
pub(crate) fn used() -> usize {
    HEAP.lock().used()
}
