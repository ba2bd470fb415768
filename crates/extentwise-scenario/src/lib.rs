//! Write-path scenarios: what a case is, how it is written down, and what must
//! come out of it.
//!
//! A scenario is one JSON object: some folios, some ordered extents, a file
//! size, and what the device does; or a write into a folio, or operations on a
//! metadata block. The crate
//!
//! - reads and checks it ([`parse`], [`Scenario`]) and prints it back,
//! - decides it block by block, naively ([`oracle`]), and through the core
//!   ([`run`]), both into the same [`result`] types,
//! - draws a scenario and its result for people ([`picture`]),
//! - makes scenarios up, always valid ones (`generate`, by a feature of that
//!   name).
//!
//! The oracle shares no code with the core: two answers that agree were
//! reached in two ways.

mod extent_buffer;
mod fields;
#[cfg(feature = "generate")]
pub mod generate;
mod invalid;
mod json;
pub mod oracle;
pub mod parse;
pub mod picture;
mod ranges;
pub mod result;
pub mod run;
mod scenario;
mod write_begin;
mod writeback;

pub use extent_buffer::{
    Backing, Bits, BufferOp, CsumAlgorithm, ExtentBufferScenario, Move, Width,
};
pub use invalid::Invalid;
pub use scenario::{BLOCKS_MAX, Scenario};
pub use write_begin::{BlockMapping, BufferFlag, BufferFlags, MapAnswer, WriteBeginScenario};
pub use writeback::{
    BioLimits, FolioPass, MAX_BYTES_DEFAULT, MAX_SEGMENTS_DEFAULT, OrderedExtent, OrderedKind,
    WritebackScenario,
};
