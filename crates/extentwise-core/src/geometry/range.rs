//! Half-open byte ranges of a file.

use super::{FileOffset, LenBytes};
use core::fmt;

/// A half-open range `[start, end)` of bytes in a file.
///
/// **Invariant**: `start <= end`, so a length can always be taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FileRange {
    start: FileOffset,
    end: FileOffset,
}

impl FileRange {
    /// The range from `start` to `end`, or `None` where `start > end`.
    #[must_use]
    pub const fn new(start: FileOffset, end: FileOffset) -> Option<Self> {
        if start.get() <= end.get() {
            Some(Self { start, end })
        } else {
            None
        }
    }

    /// The `len` bytes from `start`, or `None` where they pass 2^64 - 1.
    #[must_use]
    pub const fn at(start: FileOffset, len: LenBytes) -> Option<Self> {
        match start.checked_add(len) {
            Some(end) => Some(Self { start, end }),
            None => None,
        }
    }

    /// From `start` to the later of `start` and `end`: empty where they cross.
    #[must_use]
    pub const fn clamped(start: FileOffset, end: FileOffset) -> Self {
        if start.get() <= end.get() {
            Self { start, end }
        } else {
            Self { start, end: start }
        }
    }

    /// First byte of the range.
    #[must_use]
    pub const fn start(self) -> FileOffset {
        self.start
    }

    /// First byte behind the range.
    #[must_use]
    pub const fn end(self) -> FileOffset {
        self.end
    }

    /// Bytes in the range.
    #[must_use]
    pub const fn len(self) -> LenBytes {
        // By the invariant this does not wrap.
        LenBytes::new(self.end.get().wrapping_sub(self.start.get()))
    }

    /// Whether the range holds no byte.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.start.get() == self.end.get()
    }

    /// Whether `offset` lies in the range.
    #[must_use]
    pub const fn contains(self, offset: FileOffset) -> bool {
        self.start.get() <= offset.get() && offset.get() < self.end.get()
    }

    /// Whether all of `other` lies in the range; an empty `other` does where
    /// its position does, the end included.
    #[must_use]
    pub const fn covers(self, other: Self) -> bool {
        self.start.get() <= other.start.get() && other.end.get() <= self.end.get()
    }

    /// The bytes in both ranges, or `None` where there is none.
    #[must_use]
    pub const fn overlap(self, other: Self) -> Option<Self> {
        let start = if self.start.get() > other.start.get() {
            self.start
        } else {
            other.start
        };
        let end = if self.end.get() < other.end.get() {
            self.end
        } else {
            other.end
        };
        if start.get() < end.get() {
            Some(Self { start, end })
        } else {
            None
        }
    }
}

impl fmt::Display for FileRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {})", self.start, self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, end: u64) -> FileRange {
        FileRange::new(FileOffset::new(start), FileOffset::new(end)).unwrap()
    }

    #[test]
    fn crossed_and_overflowing_ranges_are_refused() {
        assert_eq!(FileRange::new(FileOffset::new(2), FileOffset::new(1)), None);
        assert_eq!(FileRange::at(FileOffset::MAX, LenBytes::new(1)), None);
        assert!(FileRange::clamped(FileOffset::new(2), FileOffset::new(1)).is_empty());
    }

    #[test]
    fn touching_ranges_do_not_overlap() {
        assert_eq!(range(0, 4).overlap(range(4, 8)), None);
        assert_eq!(range(0, 5).overlap(range(4, 8)), Some(range(4, 5)));
        assert_eq!(range(0, 9).overlap(range(4, 4)), None);
    }

    #[test]
    fn covering_includes_the_edges() {
        assert!(range(4, 8).covers(range(4, 8)));
        assert!(range(4, 8).covers(range(8, 8)));
        assert!(!range(4, 8).covers(range(7, 9)));
        assert!(range(4, 8).contains(FileOffset::new(7)));
        assert!(!range(4, 8).contains(FileOffset::new(8)));
        assert_eq!(range(4, 8).len(), LenBytes::new(4));
    }
}
