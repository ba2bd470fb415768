//! Preparing and committing a buffered write in a folio (V1–V16).
//!
//! [`BufferedWrite`] is a machine that asks (map this block, read it, zero this
//! range, publish this size) and is told; it does none of these itself. What is
//! known of each block beside uptodate and dirty is in a [`MappingState`].

mod mapping;
#[cfg(test)]
mod tests;
mod walk;

pub use mapping::{Mapping, MappingFlags, MappingKind, MappingState};
pub use walk::{Ask, BufferedWrite, WriteContext, WriteError, WriteInputError};
