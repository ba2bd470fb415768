//! Where the bytes of a metadata block lie: in one slice, or in pages.

use core::fmt;

/// The bytes of one metadata block, as a sequence of contiguous chunks.
///
/// Implementors only say where bytes are; all checks and operations are
/// [`ExtentBuffer`](super::ExtentBuffer)'s, which never asks outside
/// `[0, len)`.
pub trait BlockMemory {
    /// Bytes in the block.
    fn len(&self) -> usize;

    /// Whether the block holds no byte.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes from `offset` to the end of what lies contiguously there;
    /// empty at and behind the end of the block.
    fn chunk(&self, offset: usize) -> &[u8];

    /// The same bytes, to write.
    fn chunk_mut(&mut self, offset: usize) -> &mut [u8];

    /// All bytes of the block, where they are one slice.
    fn whole_mut(&mut self) -> Option<&mut [u8]> {
        None
    }

    /// Bytes from `offset` to the end of what lies contiguously there: the
    /// length of [`chunk`](Self::chunk).
    fn contiguous_after(&self, offset: usize) -> usize {
        self.chunk(offset).len()
    }

    /// Bytes of the contiguous memory that ends right before `end`; zero at the
    /// start of the block.
    fn contiguous_before(&self, end: usize) -> usize;

    /// Copies `len` bytes from `src` to `dst`, as memmove does. Both ranges lie
    /// in the block, and each of them in one chunk.
    fn move_chunk(&mut self, dst: usize, src: usize, len: usize);

    /// Copies `len` bytes from `src` to `dst`, as memmove does, chunk by chunk; ranges
    /// outside the block are left alone. Memory that is one of several kinds hands this on, so that
    /// the kind is asked for once.
    #[inline]
    fn move_range(&mut self, dst: usize, src: usize, len: usize) {
        let end = dst.max(src).checked_add(len);
        if end.is_none_or(|end| end > self.len()) {
            return;
        }
        if self.contiguous_after(dst.min(src)) >= dst.abs_diff(src).saturating_add(len) {
            self.move_chunk(dst, src, len);
        } else if dst <= src {
            let mut done = 0;
            while done < len {
                let (dst, src) = (dst + done, src + done);
                let both = self.contiguous_after(dst).min(self.contiguous_after(src));
                let step = both.clamp(1, len - done);
                self.move_chunk(dst, src, step);
                done += step;
            }
        } else {
            let mut left = len;
            while left > 0 {
                let (dst, src) = (dst + left, src + left);
                let both = self.contiguous_before(dst).min(self.contiguous_before(src));
                let step = both.clamp(1, left);
                self.move_chunk(dst - step, src - step, step);
                left -= step;
            }
        }
    }
}

/// A block whose bytes are one slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contiguous<M>(M);

impl<M: AsRef<[u8]>> Contiguous<M> {
    /// Takes all of `bytes` as the block. `M` is a slice, a vector, or whatever
    /// owns the memory.
    pub const fn new(bytes: M) -> Self {
        Self(bytes)
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        self.0.as_ref()
    }

    /// Gives the memory back.
    pub fn into_inner(self) -> M {
        self.0
    }
}

impl<M: AsRef<[u8]> + AsMut<[u8]>> BlockMemory for Contiguous<M> {
    #[inline]
    fn len(&self) -> usize {
        self.0.as_ref().len()
    }

    #[inline]
    fn chunk(&self, offset: usize) -> &[u8] {
        self.0.as_ref().get(offset..).unwrap_or_default()
    }

    #[inline]
    fn chunk_mut(&mut self, offset: usize) -> &mut [u8] {
        self.0.as_mut().get_mut(offset..).unwrap_or_default()
    }

    #[inline]
    fn whole_mut(&mut self) -> Option<&mut [u8]> {
        Some(self.0.as_mut())
    }

    #[inline]
    fn contiguous_before(&self, end: usize) -> usize {
        end.min(self.len())
    }

    #[inline]
    fn move_chunk(&mut self, dst: usize, src: usize, len: usize) {
        move_inside(self.0.as_mut(), dst, src, len);
    }
}

/// A list of pages of one size.
pub trait PageList {
    /// Pages in the list.
    fn count(&self) -> usize;

    /// The bytes of a page; empty where there is no such page.
    fn page(&self, index: usize) -> &[u8];

    /// The bytes of a page, to write; empty where there is no such page.
    fn page_mut(&mut self, index: usize) -> &mut [u8];

    /// Two different pages, the first to write; `None` where they are the same
    /// or missing.
    fn pair(&mut self, dst: usize, src: usize) -> Option<(&mut [u8], &[u8])>;
}

impl<P: AsRef<[u8]> + AsMut<[u8]>> PageList for &mut [P] {
    #[inline]
    fn count(&self) -> usize {
        self.len()
    }

    #[inline]
    fn page(&self, index: usize) -> &[u8] {
        self.get(index).map(AsRef::as_ref).unwrap_or_default()
    }

    #[inline]
    fn page_mut(&mut self, index: usize) -> &mut [u8] {
        self.get_mut(index).map(AsMut::as_mut).unwrap_or_default()
    }

    #[inline]
    fn pair(&mut self, dst: usize, src: usize) -> Option<(&mut [u8], &[u8])> {
        let [dst, src] = self.get_disjoint_mut([dst, src]).ok()?;
        Some((dst.as_mut(), (*src).as_ref()))
    }
}

/// Pages that cannot hold a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScatteredError {
    /// The page size is no power of two.
    PageSize(usize),
    /// A page, by its index, is not of the page size but of this length.
    PageLength(usize, usize),
    /// The offset at which the block begins lies behind the first page.
    FirstOffset(usize),
    /// The pages hold fewer bytes than the block has.
    TooFewPages {
        /// Bytes that the pages hold from the block's start on.
        held: usize,
        /// Bytes that the block has.
        wanted: usize,
    },
}

impl fmt::Display for ScatteredError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PageSize(size) => write!(f, "page size {size}: must be a power of two"),
            Self::PageLength(index, len) => {
                write!(f, "page {index} has {len} bytes: must have the page size")
            }
            Self::FirstOffset(offset) => write!(f, "offset {offset} lies behind the first page"),
            Self::TooFewPages { held, wanted } => {
                write!(f, "the pages hold {held} bytes of a block of {wanted}")
            }
        }
    }
}

impl core::error::Error for ScatteredError {}

/// A block whose bytes lie in separate pages, from an offset in the first on:
/// several small blocks may share a large page (B4).
///
/// **Invariant**: every page that the block reaches has `1 << page_shift` bytes.
#[derive(Clone, Copy, Debug)]
pub struct Scattered<L> {
    pages: L,
    page_shift: u32,
    first_offset: usize,
    len: usize,
}

impl<L: PageList> Scattered<L> {
    /// A block of `len` bytes that begins `first_offset` bytes into the first of
    /// `pages`, each of `page_size` bytes.
    pub fn new(
        pages: L,
        page_size: usize,
        first_offset: usize,
        len: usize,
    ) -> Result<Self, ScatteredError> {
        if !page_size.is_power_of_two() {
            return Err(ScatteredError::PageSize(page_size));
        }
        if first_offset >= page_size {
            return Err(ScatteredError::FirstOffset(first_offset));
        }
        let all = pages.count().saturating_mul(page_size);
        let held = all.saturating_sub(first_offset);
        if held < len {
            return Err(ScatteredError::TooFewPages { held, wanted: len });
        }
        let reached = (first_offset + len).div_ceil(page_size);
        if let Some(index) = (0..reached).find(|index| pages.page(*index).len() != page_size) {
            return Err(ScatteredError::PageLength(index, pages.page(index).len()));
        }
        Ok(Self {
            pages,
            page_shift: page_size.trailing_zeros(),
            first_offset,
            len,
        })
    }

    /// The pages.
    pub const fn pages(&self) -> &L {
        &self.pages
    }

    /// Gives the pages back.
    pub fn into_pages(self) -> L {
        self.pages
    }

    /// Page and place in it of a byte of the block.
    #[inline]
    const fn locate(&self, offset: usize) -> (usize, usize) {
        let at = self.first_offset.saturating_add(offset);
        (at >> self.page_shift, at & ((1 << self.page_shift) - 1))
    }
}

impl<L: PageList> BlockMemory for Scattered<L> {
    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn chunk(&self, offset: usize) -> &[u8] {
        let (page, into) = self.locate(offset);
        let len = self.contiguous_after(offset);
        let bytes = self.pages.page(page).get(into..into + len);
        bytes.unwrap_or_default()
    }

    #[inline]
    fn chunk_mut(&mut self, offset: usize) -> &mut [u8] {
        let (page, into) = self.locate(offset);
        let len = self.contiguous_after(offset);
        let bytes = self.pages.page_mut(page).get_mut(into..into + len);
        bytes.unwrap_or_default()
    }

    #[inline]
    fn contiguous_after(&self, offset: usize) -> usize {
        let (_, into) = self.locate(offset);
        let in_page = (1 << self.page_shift) - into;
        in_page.min(self.len.saturating_sub(offset))
    }

    #[inline]
    fn contiguous_before(&self, end: usize) -> usize {
        let end = end.min(self.len);
        let Some(last) = end.checked_sub(1) else {
            return 0;
        };
        let (_, into) = self.locate(last);
        (into + 1).min(end)
    }

    #[inline]
    fn move_chunk(&mut self, dst: usize, src: usize, len: usize) {
        let ((dst_page, dst_into), (src_page, src_into)) = (self.locate(dst), self.locate(src));
        if dst_page == src_page {
            move_inside(self.pages.page_mut(dst_page), dst_into, src_into, len);
            return;
        }
        if let Some((dst, src)) = self.pages.pair(dst_page, src_page)
            && let Some(dst) = dst.get_mut(dst_into..dst_into + len)
            && let Some(src) = src.get(src_into..src_into + len)
        {
            dst.copy_from_slice(src);
        }
    }
}

/// memmove inside one slice; ranges outside it are left alone.
#[inline]
fn move_inside(bytes: &mut [u8], dst: usize, src: usize, len: usize) {
    let (from, to) = (src.checked_add(len), dst.checked_add(len));
    if let (Some(from), Some(to)) = (from, to)
        && from <= bytes.len()
        && to <= bytes.len()
    {
        bytes.copy_within(src..from, dst);
    }
}
