//! The hashes: xxHash of 64 bits, SHA-256 and `BLAKE2b`.

use core::hash::Hasher;

use blake2::Blake2b as Blake2bOf;
use blake2::digest::Digest;
use blake2::digest::consts::U32;
use extentwise_core::extent_buffer::{CSUM_BYTES, Checksum};

use crate::padded;

/// xxHash of 64 bits with seed 0, stored little-endian.
#[derive(Clone, Debug)]
pub struct Xxhash64(twox_hash::XxHash64);

/// SHA-256.
#[derive(Clone, Debug, Default)]
pub struct Sha256(sha2::Sha256);

/// `BLAKE2b` with a digest of 256 bits and no key.
#[derive(Clone, Debug, Default)]
pub struct Blake2b(Blake2bOf<U32>);

impl Xxhash64 {
    const SEED: u64 = 0;

    /// Of no bytes yet.
    #[must_use]
    pub fn new() -> Self {
        Self(twox_hash::XxHash64::with_seed(Self::SEED))
    }
}

impl Default for Xxhash64 {
    fn default() -> Self {
        Self::new()
    }
}

impl Sha256 {
    /// Of no bytes yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Blake2b {
    /// Of no bytes yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Checksum for Xxhash64 {
    fn update(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    fn finish(self) -> [u8; CSUM_BYTES] {
        padded(&self.0.finish().to_le_bytes())
    }
}

impl Checksum for Sha256 {
    fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(self) -> [u8; CSUM_BYTES] {
        self.0.finalize().into()
    }
}

impl Checksum for Blake2b {
    fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(self) -> [u8; CSUM_BYTES] {
        self.0.finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The digest that these hex digits spell.
    fn digest(digits: &str) -> [u8; CSUM_BYTES] {
        assert_eq!(digits.len(), 2 * CSUM_BYTES);
        core::array::from_fn(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap())
    }

    /// FIPS 180-4, as NIST publishes its examples.
    #[test]
    fn sha256_keeps_the_published_vectors() {
        assert_eq!(
            Sha256::new().of(b""),
            digest("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
        );
        assert_eq!(
            Sha256::new().of(b"abc"),
            digest("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
        );
        assert_eq!(
            Sha256::new().of(b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            digest("248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1")
        );
    }

    /// The parameters of RFC 7693, with a digest of 32 bytes.
    #[test]
    fn blake2b_keeps_the_published_vectors() {
        assert_eq!(
            Blake2b::new().of(b""),
            digest("0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8")
        );
        assert_eq!(
            Blake2b::new().of(b"abc"),
            digest("bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319")
        );
    }

    /// The reference implementation of xxHash, seed 0.
    #[test]
    fn xxhash64_keeps_the_published_vectors() {
        for (text, digest) in [
            (&b""[..], 0xef46_db37_51d8_e999_u64),
            (b"a", 0xd24e_c4f1_a98c_6e5b),
            (b"abc", 0x44bc_2cf5_ad77_0999),
            (
                b"Nobody inspects the spammish repetition",
                0xfbce_a83c_8a37_8bf1,
            ),
        ] {
            let field = Xxhash64::new().of(text);
            assert_eq!(field[..8], digest.to_le_bytes());
            assert_eq!(field[8..], [0; 24]);
        }
    }
}
