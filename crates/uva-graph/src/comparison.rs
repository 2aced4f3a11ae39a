//! Array helpers for comparing two datasets.

use std::ops::Range;

/// Row `row` of an array with rows of `size` bytes.
pub(crate) fn row(bytes: &[u8], size: usize, row: usize) -> &[u8] {
    &bytes[row * size..(row + 1) * size]
}

/// The bit patterns of a list's weights; empty without weights.
pub(crate) fn bits(weights: Option<&[f32]>, list: Range<usize>) -> impl Iterator<Item = u32> {
    weights.map_or(&[][..], |weights| &weights[list]).iter().map(|weight| weight.to_bits())
}
