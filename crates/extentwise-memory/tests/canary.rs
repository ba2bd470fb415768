//! A mistake that memory checkers must find: one that does not fail here proves
//! nothing elsewhere.
#![allow(unsafe_code, reason = "the mistake can only be made so")]

use std::hint::black_box;

#[test]
#[ignore = "wrong on purpose; `cargo xtask memcheck` runs it and wants it to fail"]
fn reads_behind_an_allocation() {
    let bytes = black_box(vec![1_u8; 64]);
    let behind = bytes.as_ptr().wrapping_add(bytes.len());
    // SAFETY: none; this is the mistake. Without a checker it reads a byte of
    // the allocator's own.
    black_box(unsafe { behind.read_volatile() });
}
