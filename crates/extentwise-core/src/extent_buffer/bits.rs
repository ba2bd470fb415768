//! Bit operations on an extent buffer, in little-endian bit order (B6).

use super::{BlockMemory, BufferError, ExtentBuffer};

/// What happens to each bit of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BitChange {
    Set,
    Clear,
}

impl<M: BlockMemory> ExtentBuffer<M> {
    /// Whether bit `bit` counted from the byte at `offset` is set; `bit` may
    /// pass 7. Out of range where its byte is.
    pub fn test_bit(&self, offset: u64, bit: u64) -> Result<bool, BufferError> {
        let (byte, bit) = self.locate_bits(offset, bit, 1)?;
        Ok(self.get::<u8>(byte)? >> bit & 1 == 1)
    }

    /// Sets `len` bits from bit `bit` of the byte at `offset` on: a byte at a
    /// time at the edges, whole bytes between.
    pub fn set_bits(&mut self, offset: u64, bit: u64, len: u64) -> Result<(), BufferError> {
        self.change_bits(offset, bit, len, BitChange::Set)
    }

    /// Clears `len` bits from bit `bit` of the byte at `offset` on.
    pub fn clear_bits(&mut self, offset: u64, bit: u64, len: u64) -> Result<(), BufferError> {
        self.change_bits(offset, bit, len, BitChange::Clear)
    }

    fn change_bits(
        &mut self,
        offset: u64,
        bit: u64,
        len: u64,
        change: BitChange,
    ) -> Result<(), BufferError> {
        let (first_byte, first_bit) = self.locate_bits(offset, bit, len)?;
        // Inside the block, so that neither sum can overflow.
        let end = first_byte * 8 + u64::from(first_bit) + len;
        let (last_byte, last_bits) = (end / 8, (end % 8) as u32);
        if len == 0 {
            return self.writable_range(first_byte, 0).map(|_| ());
        }
        let head = 0xff_u8 << first_bit;
        let tail = 0xff_u8.checked_shr(8 - last_bits).unwrap_or(0);
        if first_byte == last_byte {
            return self.change_byte(first_byte, head & tail, change);
        }
        self.change_byte(first_byte, head, change)?;
        let between = last_byte - first_byte - 1;
        let byte = match change {
            BitChange::Set => 0xff,
            BitChange::Clear => 0,
        };
        self.fill(first_byte + 1, between, byte)?;
        if tail == 0 {
            return Ok(());
        }
        self.change_byte(last_byte, tail, change)
    }

    fn change_byte(&mut self, at: u64, mask: u8, change: BitChange) -> Result<(), BufferError> {
        let old = self.get::<u8>(at)?;
        self.set(
            at,
            match change {
                BitChange::Set => old | mask,
                BitChange::Clear => old & !mask,
            },
        )
    }

    /// Byte and bit at which a checked range of bits begins.
    fn locate_bits(&self, offset: u64, bit: u64, len: u64) -> Result<(u64, u32), BufferError> {
        let refused = || BufferError::OutOfRange {
            offset,
            len: bit.saturating_add(len).div_ceil(8),
            block_len: self.len(),
        };
        let start = offset
            .checked_mul(8)
            .and_then(|first| first.checked_add(bit));
        let start = start.ok_or_else(refused)?;
        let end = start.checked_add(len).ok_or_else(refused)?;
        if end.div_ceil(8) > self.len() as u64 {
            return Err(refused());
        }
        Ok((start / 8, (start % 8) as u32))
    }
}
