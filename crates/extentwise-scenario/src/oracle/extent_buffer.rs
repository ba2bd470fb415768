//! Operations on a metadata block, as a flat array of bytes.

use crate::extent_buffer::to_hex;
use crate::result::{BufferValue, ExtentBufferResult};
use crate::{Bits, BufferOp, CsumAlgorithm, ExtentBufferScenario, Move};

/// Bytes in front of those that a checksum covers, and of its own field.
const CSUM_FIELD: usize = 32;

/// Decides an `extent_buffer` scenario on one vector of bytes.
///
/// # Panics
///
/// May panic on a scenario that does not pass its `check`.
#[must_use]
pub fn extent_buffer(scenario: &ExtentBufferScenario) -> ExtentBufferResult {
    let mut flat = Flat(
        (0..scenario.node_size)
            .map(|i| low_byte(i * 31 + (i >> 8)))
            .collect(),
    );
    let results = scenario
        .ops
        .iter()
        .map(|op| flat.apply(op).unwrap_or(BufferValue::OutOfRange))
        .collect();
    ExtentBufferResult {
        name: scenario.name.clone(),
        results,
        sha256: to_hex(&digest(CsumAlgorithm::Sha256, &flat.0)),
        neighbours_intact: true,
    }
}

/// The bytes; `None` where an access leaves them.
struct Flat(Vec<u8>);

impl Flat {
    fn apply(&mut self, op: &BufferOp) -> Option<BufferValue> {
        match *op {
            BufferOp::Read { offset, len } => {
                let bytes = self.slice(offset, len)?;
                Some(BufferValue::Text(to_hex(bytes)))
            }
            BufferOp::Write { offset, ref bytes } => {
                let place = self.slice(offset, bytes.len() as u64)?;
                place.copy_from_slice(bytes);
                Some(BufferValue::Nothing)
            }
            BufferOp::Compare { offset, ref bytes } => {
                let place = self.slice(offset, bytes.len() as u64)?;
                let differ = place
                    .iter()
                    .zip(bytes)
                    .find(|(ours, theirs)| ours != theirs);
                Some(BufferValue::Order(match differ {
                    None => 0,
                    Some((ours, theirs)) if ours < theirs => -1,
                    Some(_) => 1,
                }))
            }
            BufferOp::Fill { offset, len, byte } => {
                self.slice(offset, len)?.fill(byte);
                Some(BufferValue::Nothing)
            }
            BufferOp::Copy(Move { dst, src, len }) | BufferOp::Move(Move { dst, src, len }) => {
                let bytes = self.slice(src, len)?.to_vec();
                self.slice(dst, len)?.copy_from_slice(&bytes);
                Some(BufferValue::Nothing)
            }
            BufferOp::Get { offset, width } => {
                let bytes = self.slice(offset, width.bytes())?;
                let value = bytes
                    .iter()
                    .rev()
                    .fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
                Some(BufferValue::Text(value.to_string()))
            }
            BufferOp::Set {
                offset,
                width,
                value,
            } => {
                let mut rest = value;
                for byte in self.slice(offset, width.bytes())? {
                    *byte = low_byte(rest);
                    rest >>= 8;
                }
                Some(BufferValue::Nothing)
            }
            BufferOp::TestBit { offset, bit } => {
                let first = self.bits(Bits {
                    offset,
                    bit,
                    len: 1,
                })?;
                Some(BufferValue::Bit(
                    *self.bit(first.start).0 >> self.bit(first.start).1 & 1,
                ))
            }
            BufferOp::SetBits(bits) => {
                for bit in self.bits(bits)? {
                    let (byte, shift) = self.bit(bit);
                    *byte |= 1 << shift;
                }
                Some(BufferValue::Nothing)
            }
            BufferOp::ClearBits(bits) => {
                for bit in self.bits(bits)? {
                    let (byte, shift) = self.bit(bit);
                    *byte &= !(1 << shift);
                }
                Some(BufferValue::Nothing)
            }
            BufferOp::Csum(algorithm) => {
                let bytes = self.0.get(CSUM_FIELD..)?;
                Some(BufferValue::Text(to_hex(&digest(algorithm, bytes))))
            }
        }
    }

    fn slice(&mut self, offset: u64, len: u64) -> Option<&mut [u8]> {
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(usize::try_from(len).ok()?)?;
        self.0.get_mut(start..end)
    }

    /// The numbers of bits, counted from the first of the block.
    fn bits(&self, bits: Bits) -> Option<std::ops::Range<u64>> {
        let start = bits.offset.checked_mul(8)?.checked_add(bits.bit)?;
        let end = start.checked_add(bits.len)?;
        (end <= self.0.len() as u64 * 8).then_some(start..end)
    }

    /// The byte of a bit that is in range, and the bit's place in it.
    fn bit(&mut self, bit: u64) -> (&mut u8, u64) {
        let byte = usize::try_from(bit / 8).expect("a bit of the block");
        (&mut self.0[byte], bit % 8)
    }
}

fn low_byte(value: u64) -> u8 {
    value.to_le_bytes()[0]
}

/// A checksum field: the digest, padded with zeroes. The algorithms are those
/// of their crates on one slice; crc32c is worked out bit by bit.
fn digest(algorithm: CsumAlgorithm, bytes: &[u8]) -> Vec<u8> {
    use extentwise_checksum::Algorithm;
    let algorithm = match algorithm {
        CsumAlgorithm::Crc32c => {
            let mut field = crc32c(bytes).to_le_bytes().to_vec();
            field.resize(32, 0);
            return field;
        }
        CsumAlgorithm::Xxhash64 => Algorithm::Xxhash64,
        CsumAlgorithm::Sha256 => Algorithm::Sha256,
        CsumAlgorithm::Blake2b => Algorithm::Blake2b,
    };
    algorithm.of_bytes(bytes).to_vec()
}

fn crc32c(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            let carry = if crc & 1 == 1 { POLYNOMIAL } else { 0 };
            crc >> 1 ^ carry
        })
    })
}
