//! What a checksum field must be (B5).

use extentwise_checksum::{Algorithm, CSUM_BYTES};

use crate::fault::Reason;

/// Compares a checksum field with what was computed.
pub(crate) fn compare_csum(
    algorithm: Algorithm,
    found: &[u8; CSUM_BYTES],
    computed: &[u8; CSUM_BYTES],
) -> Result<(), Reason> {
    if found == computed {
        return Ok(());
    }
    let len = algorithm.digest_bytes();
    if found.get(..len) == computed.get(..len) {
        return Err(Reason::ChecksumPadding);
    }
    let digest = |bytes: &[u8]| bytes.get(..len).unwrap_or_default().to_vec();
    Err(Reason::Checksum {
        found: digest(found),
        computed: digest(computed),
    })
}
