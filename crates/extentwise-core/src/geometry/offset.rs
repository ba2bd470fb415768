//! The three 64-bit quantities that must not be mixed up.

use core::fmt;

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u64);

        impl $name {
            /// The value zero.
            pub const ZERO: Self = Self(0);
            /// The largest value, 2^64 - 1.
            pub const MAX: Self = Self(u64::MAX);

            /// Wraps a number of bytes.
            #[must_use]
            pub const fn new(bytes: u64) -> Self {
                Self(bytes)
            }

            /// The number of bytes.
            #[must_use]
            pub const fn get(self) -> u64 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

quantity! {
    /// A byte position in a file.
    FileOffset
}

quantity! {
    /// A byte address on the device.
    DiskByte
}

quantity! {
    /// A number of bytes; 64 bits wide, for sums pass 2^32 (S3).
    LenBytes
}

impl FileOffset {
    /// The position `len` further on, or `None` past 2^64 - 1.
    #[must_use]
    pub const fn checked_add(self, len: LenBytes) -> Option<Self> {
        match self.0.checked_add(len.0) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }

    /// The distance from `earlier` to here; zero where `earlier` lies behind.
    #[must_use]
    pub const fn distance_from(self, earlier: Self) -> LenBytes {
        LenBytes(self.0.saturating_sub(earlier.0))
    }
}

impl DiskByte {
    /// The address `len` further on, or `None` past 2^64 - 1.
    #[must_use]
    pub const fn checked_add(self, len: LenBytes) -> Option<Self> {
        match self.0.checked_add(len.0) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }
}

impl LenBytes {
    /// The sum, or `None` past 2^64 - 1.
    #[must_use]
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }

    /// The sum, held at 2^64 - 1; for counters.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, held at zero.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Whether this is no byte at all.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_past_the_limit_are_refused_not_wrapped() {
        let one = LenBytes::new(1);
        assert_eq!(FileOffset::MAX.checked_add(one), None);
        assert_eq!(DiskByte::MAX.checked_add(one), None);
        assert_eq!(LenBytes::MAX.checked_add(one), None);
        assert_eq!(LenBytes::MAX.saturating_add(one), LenBytes::MAX);
        assert_eq!(
            FileOffset::new(7).checked_add(one),
            Some(FileOffset::new(8))
        );
    }

    #[test]
    fn distance_to_a_later_position_is_zero() {
        let (low, high) = (FileOffset::new(3), FileOffset::new(10));
        assert_eq!(high.distance_from(low), LenBytes::new(7));
        assert_eq!(low.distance_from(high), LenBytes::ZERO);
        assert_eq!(
            LenBytes::ZERO.saturating_sub(LenBytes::new(1)),
            LenBytes::ZERO
        );
        assert!(LenBytes::ZERO.is_zero() && !LenBytes::new(1).is_zero());
    }
}
