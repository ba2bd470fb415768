//! Properties of the write path, each written once.
//!
//! [`property`] holds one body a property: bytes go in, and a panic comes out
//! if the property does not hold. The same body is a libFuzzer target (package
//! `fuzz`), is replayed over the committed corpus by `cargo test`, and runs
//! over seeded bytes, so that whatever one of them finds is a test for all.
//!
//! [`device`] has devices for tests: faulty ones, and one that a power cut can
//! strike. [`conformance`] holds any device to its trait. [`model`] says what a
//! user of a page cache may see, now and after a crash.
//!
//! An embedder who swaps a part of the core (a table of ordered extents, a list
//! of segments) can run the same bodies over bytes of its own.

pub mod conformance;
pub mod device;
pub mod model;
pub mod property;
pub mod search;
pub mod seed;
pub mod sim;
