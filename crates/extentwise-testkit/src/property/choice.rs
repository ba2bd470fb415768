//! Reading choices out of a fuzzer's bytes.
//!
//! A choice costs a whole number of bytes and never fails: where bytes run out
//! it is the first. So a mutation of one byte changes one choice, and what
//! follows keeps its meaning.

/// Bytes not read yet.
#[derive(Clone, Debug)]
pub(super) struct Choices<'d>(&'d [u8]);

impl<'d> Choices<'d> {
    pub(super) fn new(data: &'d [u8]) -> Self {
        Self(data)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    /// A number below `end`, which is not zero; one byte where that is enough.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        let low = u64::from(self.byte());
        let number = match end {
            0..=256 => low,
            257..=65_536 => low << 8 | u64::from(self.byte()),
            _ => (0..7).fold(low, |number, _| number << 8 | u64::from(self.byte())),
        };
        number % end.max(1)
    }

    pub(super) fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    pub(super) fn one_of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.index(list.len())]
    }

    /// True `times` of 256; false where bytes have run out.
    pub(super) fn chance(&mut self, times: u16) -> bool {
        u16::from(self.byte()) >= 256 - times
    }

    pub(super) fn word(&mut self) -> u64 {
        (0..8).fold(0, |word, _| word << 8 | u64::from(self.byte()))
    }

    /// A pair of numbers up to `end`, the lesser first.
    pub(super) fn pair(&mut self, end: u64) -> (u64, u64) {
        let (a, b) = (self.below(end + 1), self.below(end + 1));
        (a.min(b), a.max(b))
    }

    /// A file size near the edges of a folio or an extent `[start, end)`: 0,
    /// the block around one of its borders, or where arithmetic ends.
    pub(super) fn size_near(&mut self, block: u64, start: u64, end: u64) -> u64 {
        let inside = start.saturating_add(block * self.below((end - start) / block + 1));
        match self.below(16) {
            0 => 0,
            1 => block - 1,
            2 => block,
            3 => block + 1,
            4 => end.saturating_sub(1),
            5 => end,
            6 => end.saturating_add(1),
            7 => i64::MAX as u64,
            8 => u64::MAX,
            9 => start,
            10 => inside.saturating_sub(1),
            11 => inside.saturating_add(1),
            12 | 13 => inside.saturating_add(block / 2),
            _ => inside,
        }
    }
}

/// Where a file is looked at: its start, about 2^63 and the last place below
/// 2^64. Multiples of `align`, a power of two, with room for it behind.
pub(super) fn base(choices: &mut Choices<'_>, align: u64) -> u64 {
    match choices.below(8) {
        0..=3 => 0,
        4 => align,
        5 => (1 << 63) - align,
        6 => 1 << 63,
        _ => 0_u64.wrapping_sub(align.saturating_mul(2)),
    }
}
