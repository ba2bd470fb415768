//! Bytes that tell where they are from, for writes whose files are verified.
//!
//! The byte at file offset `p` of a trace's `k`-th write action is byte
//! `p mod 8`, little-endian, of `splitmix64(floor(p / 8) xor k * GOLDEN)`. It
//! depends on the place and on the write, so bytes of another write, of another
//! place or of a stale copy show.

/// 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
const WORD_LEN: usize = size_of::<u64>();

/// Fills `bytes`, which lie at `offset`, with what write number `write` puts
/// there.
pub fn fill(bytes: &mut [u8], offset: u64, write: u64) {
    let key = write.wrapping_mul(GOLDEN);
    let word = |index: u64| splitmix64(index ^ key).to_le_bytes();
    let skipped = skipped(offset);
    let head_len = bytes.len().min((WORD_LEN - skipped) % WORD_LEN);
    let (head, body) = bytes.split_at_mut(head_len);
    head.copy_from_slice(&word(offset / WORD_LEN as u64)[skipped..][..head_len]);
    let mut index = offset.div_ceil(WORD_LEN as u64);
    for chunk in body.chunks_mut(WORD_LEN) {
        chunk.copy_from_slice(&word(index)[..chunk.len()]);
        index = index.wrapping_add(1);
    }
}

/// The first byte of `bytes`, which lie at `offset`, that write number `write`
/// did not put there: its index and what it ought to be.
#[must_use]
pub fn mismatch(bytes: &[u8], offset: u64, write: u64) -> Option<(usize, u8)> {
    let mut scratch = [0; 4096];
    let mut index = 0;
    for chunk in bytes.chunks(scratch.len()) {
        let expected = &mut scratch[..chunk.len()];
        fill(expected, offset.wrapping_add(index as u64), write);
        if let Some(at) = first_difference(chunk, expected) {
            return Some((index + at, expected[at]));
        }
        index += chunk.len();
    }
    None
}

/// How far into its word a byte lies.
#[allow(clippy::cast_possible_truncation, reason = "below 8")]
const fn skipped(offset: u64) -> usize {
    (offset % WORD_LEN as u64) as usize
}

fn first_difference(left: &[u8], right: &[u8]) -> Option<usize> {
    if left == right {
        return None;
    }
    left.iter()
        .zip(right)
        .position(|(left, right)| left != right)
}

fn splitmix64(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_add(GOLDEN);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_vectors_hold() {
        let mut bytes = [0; 16];
        fill(&mut bytes, 0, 1);
        assert_eq!(
            u128::from_be_bytes(bytes),
            0xf465_b9a1_6a9e_786e_c982_f6db_67f8_9fe9
        );
        let mut bytes = [0; 8];
        fill(&mut bytes, 4093, 3);
        assert_eq!(u64::from_be_bytes(bytes), 0xc254_d08c_3a54_0dce);
    }

    #[test]
    fn a_piece_has_the_bytes_of_the_whole() {
        let mut whole = [0; 64];
        fill(&mut whole, 4096, 9);
        for start in 0..64 {
            for end in start..=64 {
                let mut piece = vec![0; end - start];
                fill(&mut piece, 4096 + start as u64, 9);
                assert_eq!(piece, whole[start..end], "{start}..{end}");
            }
        }
    }

    #[test]
    fn the_first_wrong_byte_is_found_across_chunks() {
        let mut bytes = vec![0; 10_000];
        fill(&mut bytes, 77, 5);
        assert_eq!(mismatch(&bytes, 77, 5), None);
        for at in [0, 1, 4095, 4096, 9_999] {
            let right = bytes[at];
            bytes[at] ^= 0x80;
            assert_eq!(mismatch(&bytes, 77, 5), Some((at, right)));
            bytes[at] = right;
        }
        assert_eq!(mismatch(&bytes, 77, 6).map(|(at, _)| at), Some(0));
    }

    #[test]
    fn the_last_offsets_do_not_overflow() {
        let mut bytes = [0; 32];
        fill(&mut bytes, u64::MAX - 3, u64::MAX);
        assert_eq!(mismatch(&bytes, u64::MAX - 3, u64::MAX), None);
    }
}
