//! The one mixing function of the workspace.

/// splitmix64's finaliser (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014): a bijection
/// in which every bit of `z` affects every bit of the result.
///
/// Not a cryptographic hash. This crate uses it to check headers. Other crates use it to key generated graphs, to
/// fingerprint datasets and to hash batches; docs/spec/reproducible-batches.md specifies the latter.
#[inline]
#[must_use]
pub const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
