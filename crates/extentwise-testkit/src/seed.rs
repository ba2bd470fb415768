//! Bytes from a seed: the same on every machine, for ever.

/// The first `len` bytes of the stream of `seed` (splitmix64, little-endian).
#[must_use]
pub fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&next(&mut state).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// The next number of the stream whose state this is.
pub fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_stream_of_a_seed_begins_with_the_shorter() {
        assert_eq!(bytes(7, 5), bytes(7, 100)[..5]);
        assert_ne!(bytes(7, 8), bytes(8, 8));
        assert!(bytes(7, 0).is_empty());
    }
}
