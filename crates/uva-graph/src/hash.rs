//! Hashes that identify arrays.

use uva_mem::mix;

/// The summand of `value` at `position` of array `tag` in a sum over all values. A sum has no order, so parts of it can
/// be computed in parallel. The position makes swapped values change the sum.
#[inline]
pub(crate) const fn term(tag: u8, position: u64, value: u64) -> u64 {
    mix(mix(((tag as u64) << 56).wrapping_add(position)) ^ value)
}

/// A hash of bytes, including their number.
pub(crate) fn of_bytes(bytes: &[u8]) -> u64 {
    let mut sum = term(0, u64::MAX >> 8, bytes.len() as u64);
    for (position, chunk) in bytes.chunks(8).enumerate() {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        sum = sum.wrapping_add(term(0, position as u64, u64::from_le_bytes(word)));
    }
    sum
}
