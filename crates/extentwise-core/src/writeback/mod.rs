//! Writing back a folio extent by extent (W1–W15, S1–S4).
//!
//! [`WritebackPass`] is a machine of steps for embedders who submit
//! asynchronously or complete inside the submit call; [`run`] drives it over a
//! [`Submit`]ter for those who do not. Pieces are joined into bios by a
//! [`BioAssembler`], which lives across the folios of a file.

mod allocate;
mod bio;
mod counts;
mod pass;
mod submit;
#[cfg(test)]
mod tests;

pub use allocate::{Allocate, AllocationFailure, allocate_missing};
pub use bio::{Bio, BioAssembler, BioLimits, BioLimitsError, FixedSegments, Segment, SegmentList};
pub use counts::{PassCounts, PassError, PassReport};
pub use pass::{PassContext, PassInputError, Piece, Step, Stride, WritebackPass};
pub use submit::{Submit, complete_bio, run};
