//! A short identifier of a dataset's content, the same for every copy of it.
//!
//! Shapes, types and the class count are included completely, and of each array at most [`SAMPLES`] words, spread
//! evenly. So computing it takes milliseconds at any size. It detects a mix-up of datasets, but not a single changed
//! value in a large file.

use bytemuck::AnyBitPattern;

use crate::description::edge_values::EdgeValues;
use crate::description::typed_meta::TypedMeta;
use crate::npy::{NpyArray, TypedArray};
use crate::storage::arrays::node_files::NodeFiles;
use crate::storage::arrays::relation_files::RelationFiles;
use crate::storage::files::{EdgeRowArray, Files, RowArray};
use crate::{Relation, hash};

/// Words of 8 bytes taken from one array.
const SAMPLES: usize = 1 << 14;

/// The tags of the edges' features and of in-degrees. The others are numbered.
const EDGE_FEATURES: u8 = 32;
const DEGREES: u8 = 33;

/// The fingerprint, 16 hex digits.
pub(crate) fn of(files: &Files) -> String {
    let sum = match &files.graph.meta.typed {
        None => of_homogeneous(files),
        Some(typed) => of_typed(files, typed),
    };
    format!("{sum:016x}")
}

/// The fingerprint of a dataset of format 1.
fn of_homogeneous(files: &Files) -> u64 {
    let graph = &files.graph;
    let (nodes, edges) = (graph.first_type(), graph.first_relation());
    // Every table has the name of the nodes' element type.
    let (features, element) =
        files.first_table().map_or((None, ""), |rows| (Some(&rows.array), rows.element.name()));
    let splits = nodes.splits.iter().map(|split| split.as_ref().map(TypedArray::array));
    let tables = [Some(edges.indptr.array()), Some(edges.indices.array()), features];
    // Absent labels keep their tag, so that the later arrays keep theirs.
    let arrays = tables
        .into_iter()
        .chain([nodes.labels.array()])
        .chain(splits)
        .chain(edges.edge_array(EdgeValues::Weights).map(Some))
        .chain(nodes.original_ids.as_ref().map(|ids| Some(ids.array())));
    let mut sum = hash::term(0, 0, graph.classes() as u64);
    for (tag, array) in (1..).zip(arrays).filter_map(|(tag, array)| Some((tag, array?))) {
        sum = sum.wrapping_add(of_array(tag, array, element));
    }
    // Weights are among the numbered arrays.
    for (spec, array) in edges.edge_arrays().filter(|(spec, _)| spec.values != EdgeValues::Weights) {
        sum = sum.wrapping_add(of_array(spec.tag, array, element));
    }
    if let Some(rows) = files.first_edge_table() {
        sum = sum.wrapping_add(of_array(EDGE_FEATURES, &rows.array, rows.element.name()));
    }
    if let Some(degrees) = &nodes.degrees {
        sum = sum.wrapping_add(of_array(DEGREES, degrees.array(), element));
    }
    sum
}

/// The tags of format 2. Tags and numbers never change.
mod typed_tags {
    pub(super) const METAGRAPH: u8 = 64;
    pub(super) const NODES: u8 = 65;
    pub(super) const EDGES: u8 = 66;
    /// The arrays of a node type, in the order of `arrays_of_nodes`.
    pub(super) const NODE_ARRAYS: u8 = 80;
    /// The arrays of a relation, in the order of `arrays_of_edges`.
    pub(super) const EDGE_ARRAYS: u8 = 112;
}

/// The fingerprint of a dataset of format 2: all of the metagraph, and of each array a sample under its field and the
/// number of its type or relation.
fn of_typed(files: &Files, typed: &TypedMeta) -> u64 {
    use typed_tags::{EDGE_ARRAYS, EDGES, METAGRAPH, NODE_ARRAYS, NODES};
    let (graph, metagraph) = (&files.graph, &files.graph.metagraph);
    let mut sum = hash::term(METAGRAPH, 0, metagraph.type_count() as u64);
    let mut add = |tag, number: usize, value| sum = sum.wrapping_add(hash::term(tag, number as u64, value));
    add(METAGRAPH, 1, metagraph.relation_count() as u64);
    for node_type in metagraph.types() {
        let (number, nodes) = (node_type.index(), &graph.types[node_type.index()]);
        let name = hash::of_bytes(metagraph.type_name(node_type).as_bytes());
        add(NODES, number, of_words([name, nodes.count as u64, nodes.classes() as u64]));
        let rows = files.tables[number].as_ref();
        for (tag, array, element) in fields(NODE_ARRAYS, arrays_of_nodes(nodes, rows)) {
            add(tag, number, of_array(0, array, element));
        }
    }
    for relation in metagraph.relations() {
        let (number, edges) = (relation.index(), &graph.relations[relation.index()]);
        let entry = &typed.edges[number];
        let name = hash::of_bytes(metagraph.full_name(relation).as_bytes());
        // 0 stands for an absent relation.
        let after = |relation: Option<Relation>| relation.map_or(0, |relation| u64::from(relation.0) + 1);
        let (own, by_id, of) = match &files.edge_tables[number] {
            Some(EdgeRowArray::Own { rows, by_id }) => (Some(rows), u64::from(*by_id), None),
            Some(EdgeRowArray::Of(other)) => (None, 1, Some(*other)),
            None => (None, 0, None),
        };
        let reverse = after(metagraph.reverse(relation));
        let ordered = u64::from(entry.order.is_some());
        add(EDGES, number, of_words([name, edges.edges() as u64, reverse, ordered, by_id, after(of)]));
        for (tag, array, element) in fields(EDGE_ARRAYS, arrays_of_edges(edges, own)) {
            add(tag, number, of_array(0, array, element));
        }
    }
    sum
}

/// One word of several, in which the order counts.
fn of_words<const N: usize>(words: [u64; N]) -> u64 {
    (0..).zip(words).map(|(position, word)| hash::term(0, position, word)).fold(0, u64::wrapping_add)
}

/// An array and the name of its element type, for which `.npy` may not have a name.
type Field<'a> = Option<(&'a NpyArray, &'static str)>;

/// The present fields with their tags, of which the first has `first`.
fn fields<'a, const N: usize>(
    first: u8,
    fields: [Field<'a>; N],
) -> impl Iterator<Item = (u8, &'a NpyArray, &'static str)> {
    (first..).zip(fields).filter_map(|(tag, field)| field.map(|(array, element)| (tag, array, element)))
}

fn typed_array<T: AnyBitPattern>(array: Option<&TypedArray<T>>) -> Field<'_> {
    array.map(|array| (array.array(), ""))
}

fn row_array(rows: Option<&RowArray>) -> Field<'_> {
    rows.map(|rows| (&rows.array, rows.element.name()))
}

fn arrays_of_nodes<'a>(nodes: &'a NodeFiles, rows: Option<&'a RowArray>) -> [Field<'a>; 10] {
    let [train, valid, test] = nodes.splits.each_ref().map(|ids| typed_array(ids.as_ref()));
    let [train_times, valid_times, test_times] =
        nodes.split_times.each_ref().map(|times| typed_array(times.as_ref()));
    let labels = nodes.labels.array().map(|array| (array, ""));
    let (times, ids) = (typed_array(nodes.times.as_ref()), typed_array(nodes.original_ids.as_ref()));
    [row_array(rows), labels, train, valid, test, train_times, valid_times, test_times, times, ids]
}

fn arrays_of_edges<'a>(edges: &'a RelationFiles, rows: Option<&'a RowArray>) -> [Field<'a>; 7] {
    let values = |values| edges.edge_array(values).map(|array| (array, ""));
    [
        typed_array(Some(&edges.indptr)),
        Some((edges.indices.array(), "")),
        values(EdgeValues::Weights),
        values(EdgeValues::Types),
        row_array(rows),
        typed_array(edges.times.as_ref()),
        typed_array(edges.edge_ids.as_ref()),
    ]
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
