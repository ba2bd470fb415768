//! A folio's state that threads share.

use super::{FolioState, InWriteback, WritebackEnd};
use crate::geometry::{BlockRange, FileRange};
use crate::sync::Mutex;

/// A [`FolioState`] behind a spin lock that is held for one operation.
///
/// **Invariant**: each operation is seen whole or not at all; what must be seen
/// together goes into one [`with`](Self::with).
#[derive(Debug)]
pub struct SharedFolio<W>(Mutex<FolioState<W>>);

impl<W: AsRef<[u64]> + AsMut<[u64]>> SharedFolio<W> {
    /// Shares this state.
    #[must_use]
    pub fn new(state: FolioState<W>) -> Self {
        Self(Mutex::new(state))
    }

    /// Runs `run` with the folio locked. `run` must not come back to this folio.
    pub fn with<R>(&self, run: impl FnOnce(&mut FolioState<W>) -> R) -> R {
        self.0.with(run)
    }

    /// See [`FolioState::mark_dirty`].
    pub fn mark_dirty(&self, run: BlockRange) {
        self.with(|folio| folio.mark_dirty(run));
    }

    /// See [`FolioState::clear_dirty`].
    pub fn clear_dirty(&self, run: BlockRange) {
        self.with(|folio| folio.clear_dirty(run));
    }

    /// See [`FolioState::tag_for_sync`].
    pub fn tag_for_sync(&self) {
        self.with(FolioState::tag_for_sync);
    }

    /// See [`FolioState::start_writeback`].
    pub fn start_writeback(&self, run: BlockRange) {
        self.with(|folio| folio.start_writeback(run));
    }

    /// See [`FolioState::end_writeback`].
    pub fn end_writeback(&self, run: BlockRange) -> WritebackEnd {
        self.with(|folio| folio.end_writeback(run))
    }

    /// See [`FolioState::begin_pass`].
    pub fn begin_pass(&self) {
        self.with(FolioState::begin_pass);
    }

    /// See [`FolioState::end_pass`].
    pub fn end_pass(&self) -> WritebackEnd {
        self.with(FolioState::end_pass)
    }

    /// See [`FolioState::invalidate`].
    pub fn invalidate(&self, range: FileRange) -> Result<BlockRange, InWriteback> {
        self.with(|folio| folio.invalidate(range))
    }

    /// Gives the state back.
    pub fn into_inner(self) -> FolioState<W> {
        self.0.into_inner()
    }
}
