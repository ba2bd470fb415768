//! Folios that the kernel reads and writes while the engine has them.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::slice;

use extentwise_engine::{Config, Memory, NoMemory};
use extentwise_memory::{Folio, FolioPool};

use super::ring::Piece;

/// Memory for the folios of an engine under a
/// [`UringDriver`](super::UringDriver): aligned, and kept by whoever the kernel
/// works on it for, whatever becomes of the folio meanwhile.
///
/// Nobody but the driver sees the bytes, through the tickets of its engine.
#[derive(Debug)]
pub struct RingMemory(FolioPool);

impl RingMemory {
    /// Memory for an engine with this configuration.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self(FolioPool::of_cache(config.cache_bytes_max.get()))
    }
}

impl Memory for RingMemory {
    type Bytes = RingFolio;

    fn allocate(&mut self, len: usize) -> Result<RingFolio, NoMemory> {
        let folio = self.0.get(len).map_err(|_| NoMemory)?;
        Ok(RingFolio::new(folio))
    }

    fn zero(&mut self, bytes: &mut RingFolio, range: Range<usize>) {
        if let Some(part) = bytes.part_mut(range) {
            part.fill(0);
        }
    }

    fn release(&mut self, bytes: RingFolio) {
        // One that is shared with the kernel goes when that is over.
        if let Some(shared) = Rc::into_inner(bytes.0) {
            self.0.give_back(shared.folio);
        }
    }
}

/// The bytes of a folio.
#[derive(Debug)]
pub struct RingFolio(Rc<Shared>);

/// A share of the memory of a folio: it stays where it is until the last is gone.
#[derive(Clone, Debug)]
pub(super) struct Share(Rc<Shared>);

/// **Invariant**: `start` is that of the `len` bytes of the folio, which are
/// initialised, and nothing else refers to them. Bytes in `filling` may be
/// written by the kernel at any time: no reference to them is made.
#[derive(Debug)]
struct Shared {
    start: *mut u8,
    len: usize,
    filling: RefCell<Vec<Range<usize>>>,
    /// Owned for its memory alone; not looked at while there is a share.
    folio: Folio,
}

impl RingFolio {
    fn new(mut folio: Folio) -> Self {
        // The bytes lie in an allocation of their own: they stay where they are
        // when the folio moves.
        let start = folio.as_mut_ptr();
        Self(Rc::new(Shared {
            start,
            len: folio.len(),
            filling: RefCell::default(),
            folio,
        }))
    }

    /// A share, to be held as long as the kernel uses a piece.
    pub(super) fn share(&self) -> Share {
        Share(Rc::clone(&self.0))
    }

    /// A part for the kernel to read: `None` if it does not lie inside, or the
    /// kernel writes there.
    pub(super) fn piece(&self, place: Range<usize>) -> Option<Piece> {
        let len = self.usable(&place)?;
        Some(Piece {
            start: self.0.start.wrapping_add(place.start),
            len,
        })
    }

    /// A part for the kernel to write, which is not to be seen until
    /// [`Share::end_fill`]; `None` as for [`piece`](Self::piece).
    ///
    /// Takes the folio exclusively: no reference to a part of it is left.
    pub(super) fn begin_fill(&mut self, place: Range<usize>) -> Option<Piece> {
        let piece = self.piece(place.clone())?;
        self.0.filling.borrow_mut().push(place);
        Some(piece)
    }

    /// A part to look at; `None` as for [`piece`](Self::piece).
    pub(super) fn part(&self, place: Range<usize>) -> Option<&[u8]> {
        let Piece { start, len } = self.piece(place)?;
        // SAFETY: these bytes lie in the folio, which this share keeps, and are
        // initialised. The kernel does not write them (`filling`), and begins to
        // only by `begin_fill`, which takes the folio exclusively; so does
        // `part_mut`. Other shares make no references.
        Some(unsafe { slice::from_raw_parts(start, len) })
    }

    /// A part to change; `None` as for [`piece`](Self::piece). The kernel may be
    /// reading it, as from a page that processes share: it then takes old bytes
    /// or new ones, and the engine writes them again (C3).
    pub(super) fn part_mut(&mut self, place: Range<usize>) -> Option<&mut [u8]> {
        let Piece { start, len } = self.piece(place)?;
        // SAFETY: as for `part`; the folio is taken exclusively.
        Some(unsafe { slice::from_raw_parts_mut(start, len) })
    }

    /// The length of a place that lies inside and is not being filled.
    fn usable(&self, place: &Range<usize>) -> Option<usize> {
        let len = place.end.checked_sub(place.start)?;
        let filling = self.0.filling.borrow();
        let mut filling = filling.iter();
        let is_filled = filling.any(|fill| fill.start < place.end && place.start < fill.end);
        (place.end <= self.0.len && !is_filled).then_some(len)
    }
}

impl Share {
    /// The kernel has written a part, and does so no more.
    ///
    /// # Safety
    ///
    /// The call that was told of the part is over.
    pub(super) unsafe fn end_fill(&self, place: &Range<usize>) {
        let mut filling = self.0.filling.borrow_mut();
        if let Some(nth) = filling.iter().position(|fill| fill == place) {
            filling.swap_remove(nth);
        }
    }
}
