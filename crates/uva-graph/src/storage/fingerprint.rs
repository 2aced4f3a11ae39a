//! A short identifier of a dataset's content, the same for every copy of it.
//!
//! Shapes, types and the class count are included completely, and of each array at most [`SAMPLES`] words, spread
//! evenly. So computing it takes milliseconds at any size. It detects a mix-up of datasets, but not a single changed
//! value in a large file.

use crate::description::edge_values::EdgeValues;
use crate::hash;
use crate::npy::NpyArray;
use crate::storage::files::Files;

/// Words of 8 bytes taken from one array.
const SAMPLES: usize = 1 << 14;

/// The tags of the edges' features and of in-degrees. The others are numbered.
const EDGE_FEATURES: u8 = 32;
const DEGREES: u8 = 33;

/// The fingerprint, 16 hex digits.
pub(crate) fn of(files: &Files) -> String {
    let Files { graph, features, element, edge_features } = files;
    let splits = graph.splits.iter().map(|split| Some(split.array()));
    let tables = [graph.indptr.array(), graph.indices.array(), features].map(Some);
    // Absent labels keep their tag, so that the later arrays keep theirs.
    let arrays = tables
        .into_iter()
        .chain([graph.labels.array()])
        .chain(splits)
        .chain(graph.edge_array(EdgeValues::Weights).map(Some))
        .chain(graph.original_ids.as_ref().map(|ids| Some(ids.array())));
    let mut sum = hash::term(0, 0, graph.classes() as u64);
    for (tag, array) in (1..).zip(arrays).filter_map(|(tag, array)| Some((tag, array?))) {
        sum = sum.wrapping_add(of_array(tag, array, element.name()));
    }
    // Weights are among the numbered arrays.
    for (spec, array) in graph.edge_arrays().filter(|(spec, _)| spec.values != EdgeValues::Weights) {
        sum = sum.wrapping_add(of_array(spec.tag, array, element.name()));
    }
    if let Some((array, element)) = edge_features {
        sum = sum.wrapping_add(of_array(EDGE_FEATURES, array, element.name()));
    }
    if let Some(degrees) = &graph.degrees {
        sum = sum.wrapping_add(of_array(DEGREES, degrees.array(), element.name()));
    }
    format!("{sum:016x}")
}

/// The fingerprint of arrays, 16 hex digits. Each array has a tag and an element type, for which `.npy` may not have a
/// name.
pub(crate) fn of_arrays<'a>(arrays: impl IntoIterator<Item = (u8, &'a NpyArray, &'a str)>) -> String {
    let terms = arrays.into_iter().map(|(tag, array, element)| of_array(tag, array, element));
    format!("{:016x}", terms.fold(0, u64::wrapping_add))
}

fn of_array(tag: u8, array: &NpyArray, element: &str) -> u64 {
    let mut sum = hash::term(tag, 0, hash::of_bytes(array.kind().name().as_bytes()));
    sum = sum.wrapping_add(hash::term(tag, 1, hash::of_bytes(element.as_bytes())));
    for (axis, &length) in array.shape().iter().enumerate() {
        sum = sum.wrapping_add(hash::term(tag, 2 + axis as u64, length as u64));
    }
    let bytes = array.bytes();
    let (words, rest) = bytes.as_chunks::<8>();
    let stride = words.len().div_ceil(SAMPLES).max(1);
    for (position, word) in words.iter().enumerate().step_by(stride) {
        sum = sum.wrapping_add(hash::term(tag, 64 + position as u64, u64::from_le_bytes(*word)));
    }
    sum.wrapping_add(hash::term(tag, 63, hash::of_bytes(rest)))
}
