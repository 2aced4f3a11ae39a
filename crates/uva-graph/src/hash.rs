//! The one mixing function of this crate: splitmix64's finaliser.
//!
//! It is no cryptographic hash. It keys the generator's random numbers and tells datasets apart.

/// Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators": every input bit moves every output bit.
#[inline]
pub(crate) const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// What `value` at `position` of array `tag` adds to a sum over all values. A sum has no order, so parts of it can be
/// formed in parallel; the position keeps values from changing places unnoticed.
#[inline]
pub(crate) const fn term(tag: u8, position: u64, value: u64) -> u64 {
    mix(mix(((tag as u64) << 56).wrapping_add(position)) ^ value)
}

/// A hash of bytes, their number included.
pub(crate) fn of_bytes(bytes: &[u8]) -> u64 {
    let mut sum = term(0, u64::MAX >> 8, bytes.len() as u64);
    for (position, chunk) in bytes.chunks(8).enumerate() {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        sum = sum.wrapping_add(term(0, position as u64, u64::from_le_bytes(word)));
    }
    sum
}
