//! The write path of a page cache as pure decisions.
//!
//! This crate never performs I/O, reads a clock, spawns a thread, allocates
//! (without the `alloc` feature) or uses `unsafe`. It is told what is dirty,
//! where data goes and what the device answered, and it decides what happens
//! next. The rooms, in the order in which data flows through them:
//!
//! | module | decides | rules |
//! |---|---|---|
//! | [`geometry`] | offsets, block and folio arithmetic that cannot overflow | W2, W13 |
//! | [`bitmap`] | runs of blocks, found by scanning words | W3 |
//! | [`folio`] | uptodate, dirty and writeback per block | W6, W10–W13, V2 |
//! | [`mod@write`] | what a buffered write needs mapped, read and zeroed | V1–V16 |
//! | [`ordered`] | ordered extents: where data goes, what became of it | O1–O8 |
//! | [`writeback`] | which pieces of a folio go into which bio | W1–W15, S1–S4 |
//! | [`errseq`] | which handle has seen which writeback error | E1–E3 |
//!
//! The rules are numbered in `docs/rules.md` of the repository; every public
//! item cites those that it keeps.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(feature = "alloc")]
extern crate alloc;

pub mod bitmap;
pub mod errseq;
pub mod extent_buffer;
pub mod folio;
pub mod geometry;
pub mod ordered;
mod sync;
pub mod write;
pub mod writeback;

/// The example of the repository's README, which must compile and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;
