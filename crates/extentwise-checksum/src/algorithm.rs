//! The choice of a checksum.

use core::fmt;

use extentwise_core::extent_buffer::{BlockMemory, BufferError, ExtentBuffer};

use crate::{Blake2b, CSUM_BYTES, Checksum, Crc32c, Sha256, Xxhash64};

/// A checksum that metadata blocks may carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// CRC-32C (Castagnoli), little-endian.
    Crc32c,
    /// xxHash of 64 bits with seed 0, little-endian.
    Xxhash64,
    /// SHA-256.
    Sha256,
    /// `BLAKE2b` with a digest of 256 bits.
    Blake2b,
}

impl Algorithm {
    /// Every algorithm, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Crc32c, Self::Xxhash64, Self::Sha256, Self::Blake2b];

    /// The number by which a btrfs superblock names the algorithm.
    #[must_use]
    pub const fn id(self) -> u16 {
        match self {
            Self::Crc32c => 0,
            Self::Xxhash64 => 1,
            Self::Sha256 => 2,
            Self::Blake2b => 3,
        }
    }

    /// The algorithm of this number.
    #[must_use]
    pub fn from_id(id: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.id() == id)
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crc32c => "crc32c",
            Self::Xxhash64 => "xxhash64",
            Self::Sha256 => "sha256",
            Self::Blake2b => "blake2b",
        }
    }

    /// The algorithm of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|algorithm| algorithm.name() == name)
    }

    /// Bytes of the digest; what follows in the field is zero.
    #[must_use]
    pub const fn digest_bytes(self) -> usize {
        match self {
            Self::Crc32c => 4,
            Self::Xxhash64 => 8,
            Self::Sha256 | Self::Blake2b => 32,
        }
    }

    /// The checksum of a block: over everything behind its checksum field (B5).
    pub fn of<M: BlockMemory>(
        self,
        block: &ExtentBuffer<M>,
    ) -> Result<[u8; CSUM_BYTES], BufferError> {
        match self {
            Self::Crc32c => block.checksum(Crc32c::new()),
            Self::Xxhash64 => block.checksum(Xxhash64::new()),
            Self::Sha256 => block.checksum(Sha256::new()),
            Self::Blake2b => block.checksum(Blake2b::new()),
        }
    }

    /// The checksum of a slice.
    #[must_use]
    pub fn of_bytes(self, bytes: &[u8]) -> [u8; CSUM_BYTES] {
        match self {
            Self::Crc32c => Crc32c::new().of(bytes),
            Self::Xxhash64 => Xxhash64::new().of(bytes),
            Self::Sha256 => Sha256::new().of(bytes),
            Self::Blake2b => Blake2b::new().of(bytes),
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use extentwise_core::extent_buffer::{Contiguous, Scattered};

    #[test]
    fn names_and_numbers_lead_back_to_their_algorithm() {
        for (number, algorithm) in (0..).zip(Algorithm::ALL) {
            assert_eq!(algorithm.id(), number);
            assert_eq!(Algorithm::from_id(number), Some(algorithm));
            assert_eq!(Algorithm::from_name(algorithm.name()), Some(algorithm));
        }
        assert_eq!(Algorithm::from_id(4), None);
        assert_eq!(Algorithm::from_name("crc32"), None);
    }

    #[test]
    fn b5_pages_and_one_slice_have_the_same_digest_padded_with_zeroes() {
        const PAGE: usize = 64;
        let mut pages = [[0_u8; PAGE]; 9];
        for (at, byte) in (0..).zip(pages.as_flattened_mut()) {
            *byte = u8::try_from(at * 7 % 251).unwrap();
        }
        let copy = pages;
        // From the middle of a page to the middle of another.
        let whole = &copy.as_flattened()[20..20 + 512];
        let mut one = [0_u8; 512];
        one.copy_from_slice(whole);
        let slice = ExtentBuffer::unread(0, Contiguous::new(one));
        let memory = Scattered::new(&mut pages[..], PAGE, 20, 512).unwrap();
        let scattered = ExtentBuffer::unread(0, memory);
        for algorithm in Algorithm::ALL {
            let csum = algorithm.of(&slice).unwrap();
            assert_eq!(algorithm.of(&scattered), Ok(csum), "{algorithm}");
            assert_eq!(csum, algorithm.of_bytes(&whole[CSUM_BYTES..]));
            let padding = &csum[algorithm.digest_bytes()..];
            assert!(padding.iter().all(|byte| *byte == 0), "{algorithm}");
            assert_ne!(csum, [0; CSUM_BYTES]);
        }
    }

    #[test]
    fn a_block_no_longer_than_its_field_has_no_checksum() {
        let block = ExtentBuffer::unread(0, Contiguous::new([0_u8; 31]));
        for algorithm in Algorithm::ALL {
            assert!(algorithm.of(&block).is_err());
        }
    }
}
