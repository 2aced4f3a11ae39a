//! The one mixing function of the workspace.

/// splitmix64's finaliser (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014): a bijection
/// in which every bit of `z` moves every bit of the result.
///
/// No cryptographic hash. Here it checks headers; the crates above key generated graphs by it, tell datasets apart,
/// and hash batches, for which docs/reproducible-batches.md fixes it.
#[inline]
#[must_use]
pub const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
