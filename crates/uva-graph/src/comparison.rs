//! Array helpers for comparing two datasets.

use std::ops::Range;

use crate::npy::NpyArray;

/// Row `row` of an array with rows of `size` bytes.
pub(crate) fn row(bytes: &[u8], size: usize, row: usize) -> &[u8] {
    &bytes[row * size..(row + 1) * size]
}

/// The bytes of a list's values in an array with one value per edge; `None` without the array.
pub(crate) fn values_of(array: Option<&NpyArray>, list: Range<usize>) -> Option<&[u8]> {
    let array = array?;
    let size = array.kind().bytes();
    Some(&array.bytes()[list.start * size..list.end * size])
}
