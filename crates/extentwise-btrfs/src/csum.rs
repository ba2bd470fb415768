//! The checksum of an image (B5).

use blake2::Blake2b256;
use blake2::digest::Digest;
use extentwise_core::extent_buffer::{
    BlockMemory, BufferError, CSUM_BYTES, Checksum, ExtentBuffer,
};
use sha2::Sha256;
use std::hash::Hasher;
use twox_hash::XxHash64;

use crate::fault::Reason;

/// The algorithm of an image's checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// CRC-32C.
    Crc32c,
    /// xxHash of 64 bits.
    Xxhash64,
    /// SHA-256.
    Sha256,
    /// `BLAKE2b` of 256 bits.
    Blake2b,
}

impl Algorithm {
    /// The algorithm of this number in a superblock.
    #[must_use]
    pub const fn from_id(id: u16) -> Option<Self> {
        Some(match id {
            0 => Self::Crc32c,
            1 => Self::Xxhash64,
            2 => Self::Sha256,
            3 => Self::Blake2b,
            _ => return None,
        })
    }

    /// Its name, as `mkfs.btrfs` has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crc32c => "crc32c",
            Self::Xxhash64 => "xxhash64",
            Self::Sha256 => "sha256",
            Self::Blake2b => "blake2b",
        }
    }

    /// Bytes that it fills of a checksum field.
    #[must_use]
    pub const fn digest_len(self) -> usize {
        match self {
            Self::Crc32c => 4,
            Self::Xxhash64 => 8,
            Self::Sha256 | Self::Blake2b => CSUM_BYTES,
        }
    }

    /// The checksum of one slice, padded with zeroes.
    #[must_use]
    pub fn of(self, bytes: &[u8]) -> [u8; CSUM_BYTES] {
        match self {
            Self::Crc32c => Crc32c::new().of(bytes),
            Self::Xxhash64 => Xxhash64::new().of(bytes),
            Self::Sha256 => Hash(Sha256::new()).of(bytes),
            Self::Blake2b => Hash(Blake2b256::new()).of(bytes),
        }
    }

    /// The checksum of a block.
    pub(crate) fn of_block<M: BlockMemory>(
        self,
        buffer: &ExtentBuffer<M>,
    ) -> Result<[u8; CSUM_BYTES], BufferError> {
        match self {
            Self::Crc32c => buffer.checksum(Crc32c::new()),
            Self::Xxhash64 => buffer.checksum(Xxhash64::new()),
            Self::Sha256 => buffer.checksum(Hash(Sha256::new())),
            Self::Blake2b => buffer.checksum(Hash(Blake2b256::new())),
        }
    }
}

/// Compares a checksum field with what was computed.
pub(crate) fn compare_csum(
    algorithm: Algorithm,
    found: &[u8; CSUM_BYTES],
    computed: &[u8; CSUM_BYTES],
) -> Result<(), Reason> {
    if found == computed {
        return Ok(());
    }
    let len = algorithm.digest_len();
    if found.get(..len) == computed.get(..len) {
        return Err(Reason::ChecksumPadding);
    }
    let digest = |bytes: &[u8]| bytes.get(..len).unwrap_or_default().to_vec();
    Err(Reason::Checksum {
        found: digest(found),
        computed: digest(computed),
    })
}

struct Crc32c(crc_fast::Digest);

impl Crc32c {
    fn new() -> Self {
        Self(crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi))
    }
}

impl Checksum for Crc32c {
    fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(self) -> [u8; CSUM_BYTES] {
        padded(self.0.finalize().to_le_bytes().get(..4).unwrap_or_default())
    }
}

struct Xxhash64(XxHash64);

impl Xxhash64 {
    const fn new() -> Self {
        Self(XxHash64::with_seed(0))
    }
}

impl Checksum for Xxhash64 {
    fn update(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    fn finish(self) -> [u8; CSUM_BYTES] {
        padded(&self.0.finish().to_le_bytes())
    }

    fn of(self, bytes: &[u8]) -> [u8; CSUM_BYTES] {
        padded(&XxHash64::oneshot(0, bytes).to_le_bytes())
    }
}

struct Hash<D>(D);

impl<D: Digest> Checksum for Hash<D> {
    fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(self) -> [u8; CSUM_BYTES] {
        padded(&self.0.finalize())
    }
}

fn padded(digest: &[u8]) -> [u8; CSUM_BYTES] {
    let mut field = [0; CSUM_BYTES];
    for (to, from) in field.iter_mut().zip(digest) {
        *to = *from;
    }
    field
}
