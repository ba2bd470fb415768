//! What a folio remembers of its blocks: uptodate, dirty, in writeback.
//!
//! [`FolioState`] is the state itself; [`SharedFolio`] is one behind a spin
//! lock.

mod shared;
mod state;

pub use shared::SharedFolio;
pub use state::{FolioState, InWriteback, WritebackEnd};
