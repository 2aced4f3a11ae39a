//! The checks of the content of a dataset's files. All checks run in parallel and report the first wrong value.
//!
//! Importers apply the same checks to the arrays of a source, so that a message names the source's own file.

use std::path::Path;

use bytemuck::AnyBitPattern;
use half::{bf16, f16};
use rayon::prelude::*;
use uva_mem::mix;

use crate::description::typed_meta::EntryOrder;
use crate::npy::{NpyArray, TypedArray};
use crate::storage::arrays::label_array::LabelArray;
use crate::storage::arrays::node_files::NodeFiles;
use crate::storage::arrays::relation_files::IndexArray;
use crate::storage::files::{EdgeRowArray, Files};
use crate::storage::graph_files::GraphFiles;
use crate::{Csc, ElementType, EntryTimes, GraphError, NodeType, Relation};

/// Values per task: enough to make a task's cost vanish, few enough to spread over the cores.
const CHUNK: usize = 1 << 16;

/// The largest original id + 1: the random keys have 40 bits for a node.
const ORIGINAL_ID_LIMIT: i64 = 1 << 40;

/// A wrong value. `at` is the byte offset in the file.
#[derive(Debug, thiserror::Error)]
enum ContentProblem {
    #[error("entry 0 at offset {at} is {value}, it has to be 0")]
    IndptrStart { at: usize, value: i64 },
    #[error(
        "entry {position} at offset {at} is {value}, less than the {before} before it: indptr has to be monotone"
    )]
    IndptrFalls { position: usize, at: usize, value: i64, before: i64 },
    #[error(
        "the last entry ({position}) at offset {at} is {value}, but indices.npy has {edges} entries: they have to be equal"
    )]
    IndptrEnd { position: usize, at: usize, value: i64, edges: usize },
    #[error("entry {position} at offset {at}, a neighbour of {owner} {node}, is {value}, {outside}")]
    Neighbour { position: usize, at: usize, owner: String, node: usize, value: i64, outside: String },
    #[error(
        "the label of {one} {node} at offset {at} is {value}, outside -1 to {} (-1 means none)",
        classes - 1
    )]
    Label { one: String, node: usize, at: usize, value: i64, classes: i64 },
    #[error("the label of {one} {node}, column {column}, at offset {at} is {value}, it has to be 0 or 1")]
    LabelBit { one: String, node: usize, column: usize, at: usize, value: u8 },
    #[error(
        "the target of {one} {node}, column {column}, at offset {at} is {value}: targets have to be finite"
    )]
    Target { one: String, node: usize, column: usize, at: usize, value: f32 },
    #[error("entry {position} at offset {at} is {value}, {}", outside(*nodes as u64))]
    Id { position: usize, at: usize, value: i64, nodes: usize },
    #[error("entry {position} at offset {at} names {one} {value} again: a split names a {one} at most once")]
    SplitTwice { one: String, position: usize, at: usize, value: i64 },
    #[error("the original id of {one} {node} at offset {at} is {value}, outside 0 to 2^40 - 1")]
    OriginalId { one: String, node: usize, at: usize, value: i64 },
    #[error("the original id {value} occurs more than once, again for {one} {node} at offset {at}")]
    OriginalIdTwice { one: String, node: usize, at: usize, value: i64 },
    #[error(
        "the in-degree of node {node} at offset {at} is {value}, less than the {listed} neighbours that its list has"
    )]
    Degree { node: usize, at: usize, value: i32, listed: i64 },
    #[error("the weight of edge {position} at offset {at} is {value}: weights have to be finite")]
    Weight { position: usize, at: usize, value: f32 },
    #[error(
        "the weight of edge {position} at offset {at} is {value}: edges are picked by weights of 0 (never) or more"
    )]
    NegativeWeight { position: usize, at: usize, value: f32 },
    #[error(
        "entry {position} at offset {at}, in the list of {owner} {node}, is {value} after {before}: \"order\": \"time\" \
         needs ascending lists; import sorts them with `order=time`"
    )]
    Time { position: usize, at: usize, owner: String, node: usize, value: i64, before: i64 },
    #[error(
        "entry {position} at offset {at}, in the list of {owner} {node}, is of time {value} (that of its {neighbour}) after {before}: \
         \"order\": \"time\" needs ascending lists; import sorts them with `order=time`"
    )]
    SourceTime {
        position: usize,
        at: usize,
        owner: String,
        node: usize,
        neighbour: String,
        value: i64,
        before: i64,
    },
    #[error("entry {position} at offset {at} is {value}, an id has to be 0 or more")]
    EdgeId { position: usize, at: usize, value: i64 },
    #[error("entry {position} at offset {at} is {value}, outside the rows 0 to {} of {file}", *rows as i64 - 1)]
    EdgeRow { position: usize, at: usize, value: i64, rows: usize, file: String },
    #[error(
        "its edges are not those of {reverse} in the other direction, which \"reverse\" of meta.json says: write one of \
         them again, or remove the key"
    )]
    Reverse { reverse: String },
    #[error("row {row}, column {column}, at offset {at} is {value}: features have to be finite")]
    Feature { row: usize, column: usize, at: usize, value: f32 },
}

/// A node in messages about a graph whose types have no names.
const NODE: &str = "node";

/// The message about an id outside of `nodes` nodes.
pub fn outside(nodes: u64) -> String {
    match nodes.checked_sub(1) {
        Some(last) => format!("outside the ids 0 to {last}"),
        None => "and there are no nodes".to_owned(),
    }
}

/// The byte offset of element `position` of `array` in its file.
fn offset(array: &NpyArray, position: usize) -> usize {
    array.header().data_offset + position * array.kind().bytes()
}

/// The first position whose value `is_wrong`, searched in parallel.
///
/// Chunks are scanned without a branch per value, so that the compiler can use vector instructions. The exact position
/// is searched only in a chunk that has one.
fn first_wrong<T: Copy + Sync>(values: &[T], is_wrong: impl Fn(T) -> bool + Sync) -> Option<usize> {
    values.par_chunks(CHUNK).enumerate().find_map_first(|(chunk, values)| {
        let any = values.iter().fold(false, |any, &value| any | is_wrong(value));
        any.then(|| chunk * CHUNK + values.iter().position(|&value| is_wrong(value)).unwrap_or(0))
    })
}

/// Checks all files of the dataset in `directory` except its feature values, and leaves no stamp.
///
/// # Errors
/// As [`Dataset::open_verified`](crate::Dataset::open_verified).
pub fn directory(directory: &Path) -> Result<(), GraphError> {
    let files = Files::open(directory)?;
    nodes(&files.graph)?;
    edges(&files.graph)?;
    edge_rows(&files)
}

/// The first error of `check` in the order of `items`, which are checked in parallel.
fn each<T: Send>(
    items: impl Iterator<Item = T>,
    check: impl Fn(T) -> Result<(), GraphError> + Sync + Send,
) -> Result<(), GraphError> {
    let items: Vec<T> = items.collect();
    items.into_par_iter().map(check).find_map_first(Result::err).map_or(Ok(()), Err)
}

/// Checks everything whose size grows with the nodes: `indptr`, labels, splits.
pub(crate) fn nodes(files: &GraphFiles) -> Result<(), GraphError> {
    each(files.relations.iter(), |edges| indptr(edges.indptr.array(), edges.indptr.values(), edges.edges()))?;
    each(files.metagraph.types(), |node_type| {
        let nodes = &files.types[node_type.index()];
        let name = files.metagraph.type_name(node_type);
        labels_of(name, &nodes.labels, nodes.said_classes)?;
        // Only a graph with one relation is a part.
        if let Some(values) = &nodes.degrees {
            degrees(values.array(), values.values(), files.csc().indptr)?;
        }
        splits(name, nodes)
    })
}

fn splits(name: &str, nodes: &NodeFiles) -> Result<(), GraphError> {
    let present = nodes.splits.iter().flatten();
    present.into_iter().try_for_each(|ids| split_ids_of(name, ids.array(), ids.values(), nodes.count))
}

/// Checks that no in-degree of the whole graph is less than the length of the list. The in-degree of a list longer than
/// int32 allows saturates.
fn degrees(array: &NpyArray, values: &[i32], indptr: &[i64]) -> Result<(), GraphError> {
    let lists = indptr.par_windows(2).map(|ends| ends[1] - ends[0]);
    let wrong = values
        .par_iter()
        .zip(lists)
        .position_first(|(&degree, listed)| i64::from(degree) < listed.min(i32::MAX.into()));
    let Some(node) = wrong else { return Ok(()) };
    let (at, value, listed) = (offset(array, node), values[node], indptr[node + 1] - indptr[node]);
    Err(invalid(array, ContentProblem::Degree { node, at, value, listed }))
}

/// Checks every label. `classes` bounds labels with one class per node.
pub(crate) fn labels(labels: &LabelArray, classes: Option<u64>) -> Result<(), GraphError> {
    labels_of(NODE, labels, classes)
}

fn labels_of(one: &str, labels: &LabelArray, classes: Option<u64>) -> Result<(), GraphError> {
    match labels {
        LabelArray::Single(labels) => class_labels_of(one, labels.array(), labels.values(), classes),
        LabelArray::Multi { array, .. } => label_bits(one, array, array.bytes()),
        LabelArray::Regression { array, .. } => regression_targets_of(one, array.array(), array.values()),
        LabelArray::Absent => Ok(()),
    }
}

/// Runs the checks that a stamp may replace: neighbour ids, weights, times and original ids. Each `indptr` has been
/// checked.
pub(crate) fn edges(files: &GraphFiles) -> Result<(), GraphError> {
    each(files.metagraph.relations(), |relation| edges_of(files, relation))?;
    each(files.metagraph.types(), |node_type| match &files.types[node_type.index()].original_ids {
        Some(ids) => original_ids_of(files.metagraph.type_name(node_type), ids.array(), ids.values()),
        None => Ok(()),
    })
}

fn edges_of(files: &GraphFiles, relation: Relation) -> Result<(), GraphError> {
    let edges = &files.relations[relation.index()];
    let sources = files.types[files.metagraph.source(relation).index()].count;
    match &edges.indices {
        IndexArray::I32(ids) => {
            // Cast to unsigned, a negative id is larger than any node.
            let sources = u32::try_from(sources).unwrap_or(u32::MAX);
            neighbours(files, relation, ids, |id| id.cast_unsigned() >= sources, i64::from)?;
        }
        IndexArray::I64(ids) => {
            let sources = sources as u64;
            neighbours(files, relation, ids, |id| id.cast_unsigned() >= sources, |id| id)?;
        }
    }
    for (spec, array) in edges.edge_arrays().filter(|(spec, _)| spec.finite) {
        weights(array, array.elements(spec.kind)?)?;
    }
    if let Some(ids) = &edges.edge_ids
        && let Some(position) = first_wrong(ids.values(), |id| id < 0)
    {
        let (array, value) = (ids.array(), ids.values()[position]);
        return Err(invalid(array, ContentProblem::EdgeId { position, at: offset(array, position), value }));
    }
    match edges.order {
        Some(EntryOrder::Time) => times_ascend(files, relation),
        None => Ok(()),
    }
}

/// Checks that the entries of each list ascend by time. The ids of neighbours have been checked.
fn times_ascend(files: &GraphFiles, relation: Relation) -> Result<(), GraphError> {
    let csc = files.lists(relation);
    let falls = match files.entry_times(relation) {
        Some(EntryTimes::Edges(times)) => first_fall(csc.indptr, |entry| times[entry]),
        Some(EntryTimes::Sources(times)) => {
            first_fall(csc.indptr, |entry| times[csc.indices.get(entry) as usize])
        }
        None => None,
    };
    let Some((node, position, [before, value])) = falls else { return Ok(()) };
    let edges = &files.relations[relation.index()];
    let owner = files.metagraph.type_name(files.metagraph.destination(relation)).to_owned();
    Err(match &edges.times {
        Some(times) => {
            let (array, at) = (times.array(), offset(times.array(), position));
            invalid(array, ContentProblem::Time { position, at, owner, node, value, before })
        }
        None => {
            let array = edges.indices.array();
            let (at, source) = (offset(array, position), files.metagraph.source(relation));
            let neighbour = files.metagraph.type_name(source).to_owned();
            invalid(array, ContentProblem::SourceTime { position, at, owner, node, neighbour, value, before })
        }
    })
}

/// The first list whose times do not ascend: its node, the first entry that is earlier than the one before it, and the
/// times of both.
fn first_fall(ends: &[i64], time: impl Fn(usize) -> i64 + Sync) -> Option<(usize, usize, [i64; 2])> {
    let falls = |node: usize| {
        let mut entries = ends[node] as usize + 1..ends[node + 1] as usize;
        entries.find(|entry| time(entry - 1) > time(*entry))
    };
    let found = (0..ends.len() - 1).into_par_iter().find_map_first(|node| Some((node, falls(node)?)));
    found.map(|(node, entry)| (node, entry, [time(entry - 1), time(entry)]))
}

/// Checks that the ids of edges by which their feature rows are found are those of rows.
pub(crate) fn edge_rows(files: &Files) -> Result<(), GraphError> {
    each(files.graph.metagraph.relations(), |relation| {
        let Some((rows, true)) = files.edge_rows(relation) else { return Ok(()) };
        let Some(ids) = &files.graph.relations[relation.index()].edge_ids else { return Ok(()) };
        let count = rows.array.shape()[0];
        let Some(position) = first_wrong(ids.values(), |id| id.cast_unsigned() >= count as u64) else {
            return Ok(());
        };
        let (array, value) = (ids.array(), ids.values()[position]);
        let (at, file) = (offset(array, position), rows.array.path().display().to_string());
        Err(invalid(array, ContentProblem::EdgeRow { position, at, value, rows: count, file }))
    })
}

/// Checks that each relation has the edges of its reverse in the other direction: by a sum over hashes of all edges.
pub(crate) fn reverses(files: &GraphFiles) -> Result<(), GraphError> {
    each(files.metagraph.relations(), |relation| {
        let Some(reverse) = files.metagraph.reverse(relation) else { return Ok(()) };
        let forward = sum_of_edges(files.lists(relation), |source, destination| (source, destination));
        let backward = sum_of_edges(files.lists(reverse), |source, destination| (destination, source));
        if forward == backward {
            return Ok(());
        }
        let reverse = files.metagraph.full_name(reverse).to_owned();
        let array = files.relations[relation.index()].indices.array();
        Err(invalid(array, ContentProblem::Reverse { reverse }))
    })
}

/// A sum over all edges that does not depend on their order.
fn sum_of_edges(csc: Csc<'_>, ends: impl Fn(i64, i64) -> (i64, i64) + Sync) -> u64 {
    let of_list = |destination: usize| {
        let entries = csc.indptr[destination] as usize..csc.indptr[destination + 1] as usize;
        let of_entry = |entry: usize| {
            let (source, destination) = ends(csc.indices.get(entry), destination as i64);
            mix(mix(source.cast_unsigned()).wrapping_add(destination.cast_unsigned()))
        };
        entries.map(of_entry).fold(0, u64::wrapping_add)
    };
    (0..csc.nodes()).into_par_iter().map(of_list).reduce(|| 0, u64::wrapping_add)
}

/// Checks that edge weights are finite.
pub(crate) fn weights(array: &NpyArray, values: &[f32]) -> Result<(), GraphError> {
    weights_from(array, 0, values)
}

/// Checks that edge weights are finite, for a part of the array that begins with element `first`.
///
/// # Errors
/// The first wrong value.
pub fn weights_from(array: &NpyArray, first: usize, values: &[f32]) -> Result<(), GraphError> {
    match first_wrong(values, |weight| !weight.is_finite()) {
        None => Ok(()),
        Some(wrong) => {
            let position = first + wrong;
            let (at, value) = (offset(array, position), values[wrong]);
            Err(invalid(array, ContentProblem::Weight { position, at, value }))
        }
    }
}

/// Checks that edges can be picked by their weights: none may be negative. An earlier check has found them finite, but
/// perhaps in an earlier run, and the file may have changed since.
pub(crate) fn weights_to_pick_by(array: &NpyArray, values: &[f32]) -> Result<(), GraphError> {
    match first_wrong(values, |weight| !(0.0..=f32::MAX).contains(&weight)) {
        None => Ok(()),
        Some(position) => {
            let (at, value) = (offset(array, position), values[position]);
            Err(invalid(
                array,
                match value.is_finite() {
                    true => ContentProblem::NegativeWeight { position, at, value },
                    false => ContentProblem::Weight { position, at, value },
                },
            ))
        }
    }
}

/// Checks that no feature is NaN or infinite.
pub(crate) fn features(files: &Files) -> Result<(), GraphError> {
    let of_nodes = files.tables.iter().flatten();
    let of_edges = files.edge_tables.iter().flatten().filter_map(|table| match table {
        EdgeRowArray::Own { rows, .. } => Some(rows),
        EdgeRowArray::Of(_) => None,
    });
    each(of_nodes.chain(of_edges), |rows| finite_rows(&rows.array, rows.element))
}

/// Checks that no value of a table of rows is NaN or infinite.
pub(crate) fn finite_rows(array: &NpyArray, element: ElementType) -> Result<(), GraphError> {
    // Feature bytes may be unaligned, so they are read as bytes, not cast.
    let wrong = match element {
        ElementType::U8 | ElementType::I8 => None,
        ElementType::F32 => first_not_finite(array.bytes(), f32::from_le_bytes),
        ElementType::F16 => first_not_finite(array.bytes(), |bytes| f16::from_le_bytes(bytes).to_f32()),
        ElementType::Bf16 => first_not_finite(array.bytes(), |bytes| bf16::from_le_bytes(bytes).to_f32()),
        // This type has no infinities, and one NaN of each sign.
        ElementType::E4m3 => {
            first_not_finite(
                array.bytes(),
                |[bits]: [u8; 1]| if bits & 0x7f == 0x7f { f32::NAN } else { 0.0 },
            )
        }
    };
    match wrong {
        None => Ok(()),
        Some((position, value)) => {
            let columns = array.shape()[1];
            let (row, column, at) = (position / columns, position % columns, offset(array, position));
            Err(invalid(array, ContentProblem::Feature { row, column, at, value }))
        }
    }
}

fn first_not_finite<const SIZE: usize>(
    bytes: &[u8],
    decode: impl Fn([u8; SIZE]) -> f32 + Sync,
) -> Option<(usize, f32)> {
    let (values, _) = bytes.as_chunks::<SIZE>();
    let position = first_wrong(values, |value| !decode(value).is_finite())?;
    Some((position, decode(values[position])))
}

/// Checks that `values`, which `array` holds in any width, are the list ends of a graph of `edges` edges.
///
/// # Errors
/// The first wrong value.
///
/// # Panics
/// If `values` is empty.
pub fn indptr(array: &NpyArray, values: &[i64], edges: usize) -> Result<(), GraphError> {
    let at = |position| offset(array, position);
    if values[0] != 0 {
        return Err(invalid(array, ContentProblem::IndptrStart { at: at(0), value: values[0] }));
    }
    let falls = values.par_windows(2).position_first(|pair| pair[0] > pair[1]);
    if let Some(before) = falls {
        let position = before + 1;
        let (before, value) = (values[before], values[position]);
        return Err(invalid(
            array,
            ContentProblem::IndptrFalls { position, at: at(position), value, before },
        ));
    }
    let position = values.len() - 1;
    let value = values[position];
    if value != edges as i64 {
        return Err(invalid(array, ContentProblem::IndptrEnd { position, at: at(position), value, edges }));
    }
    Ok(())
}

fn neighbours<T: AnyBitPattern + Sync>(
    files: &GraphFiles,
    relation: Relation,
    ids: &TypedArray<T>,
    is_wrong: impl Fn(T) -> bool + Sync,
    widen: impl Fn(T) -> i64,
) -> Result<(), GraphError> {
    let Some(position) = first_wrong(ids.values(), is_wrong) else { return Ok(()) };
    Err(wrong_neighbour(files, relation, position, widen(ids.values()[position])))
}

/// The error about entry `position` of a relation's `indices.npy`, whose value `value` is not a node.
pub(crate) fn wrong_neighbour(
    files: &GraphFiles,
    relation: Relation,
    position: usize,
    value: i64,
) -> GraphError {
    let (metagraph, edges) = (&files.metagraph, &files.relations[relation.index()]);
    let array = edges.indices.array();
    let at = offset(array, position);
    // The list that holds the position: the last one that starts at or before it.
    let lists = edges.indptr.values().partition_point(|&start| start <= position as i64);
    let (node, owner) = (lists.saturating_sub(1), metagraph.type_name(metagraph.destination(relation)));
    let outside = outside_type(files, metagraph.source(relation));
    invalid(array, ContentProblem::Neighbour { position, at, owner: owner.to_owned(), node, value, outside })
}

/// The message about an id outside of the nodes of a type.
fn outside_type(files: &GraphFiles, node_type: NodeType) -> String {
    let nodes = files.types[node_type.index()].count as u64;
    let name = files.metagraph.type_name(node_type);
    match (files.metagraph.is_named(), nodes.checked_sub(1)) {
        (false, _) => outside(nodes),
        (true, Some(last)) => format!("outside the {name} ids 0 to {last}"),
        (true, None) => format!("and there are no nodes of {name}"),
    }
}

/// The error about entry `position` of a split, whose value `value` is not a node.
pub(crate) fn wrong_id(array: &NpyArray, position: usize, value: i64, nodes: usize) -> GraphError {
    invalid(array, ContentProblem::Id { position, at: offset(array, position), value, nodes })
}

/// Checks the labels of nodes that have one class each; `array` holds `values` in any width. Without `classes`, any
/// label that fits a class count is valid, since the largest one then determines their number.
///
/// # Errors
/// The first wrong value.
pub fn class_labels(array: &NpyArray, values: &[i64], classes: Option<u64>) -> Result<(), GraphError> {
    class_labels_of(NODE, array, values, classes)
}

fn class_labels_of(
    one: &str,
    array: &NpyArray,
    values: &[i64],
    classes: Option<u64>,
) -> Result<(), GraphError> {
    let classes = classes.map_or(i64::from(u32::MAX), |classes| classes as i64);
    match first_wrong(values, |label| label < -1 || label >= classes) {
        None => Ok(()),
        Some(node) => {
            let (at, value) = (offset(array, node), values[node]);
            Err(invalid(array, ContentProblem::Label { one: one.to_owned(), node, at, value, classes }))
        }
    }
}

/// Checks the labels of nodes that may have several classes.
fn label_bits(one: &str, array: &NpyArray, bits: &[u8]) -> Result<(), GraphError> {
    match first_wrong(bits, |bit| bit > 1) {
        None => Ok(()),
        Some(position) => {
            let columns = array.shape()[1];
            let (node, column) = (position / columns, position % columns);
            let (at, value) = (offset(array, position), bits[position]);
            Err(invalid(array, ContentProblem::LabelBit { one: one.to_owned(), node, column, at, value }))
        }
    }
}

/// Checks that targets of regression are finite, so that no loss becomes NaN; `array` holds `values` in any width.
///
/// # Errors
/// The first wrong value.
pub fn regression_targets(array: &NpyArray, values: &[f32]) -> Result<(), GraphError> {
    regression_targets_of(NODE, array, values)
}

fn regression_targets_of(one: &str, array: &NpyArray, values: &[f32]) -> Result<(), GraphError> {
    match first_wrong(values, |value| !value.is_finite()) {
        None => Ok(()),
        Some(position) => {
            let columns = array.shape().get(1).copied().unwrap_or(1);
            let (node, column) = (position / columns, position % columns);
            let (at, value) = (offset(array, position), values[position]);
            Err(invalid(array, ContentProblem::Target { one: one.to_owned(), node, column, at, value }))
        }
    }
}

/// Checks the node ids of a split; `array` holds `values` in any width.
///
/// # Errors
/// The first wrong value.
pub fn split_ids(array: &NpyArray, values: &[i64], nodes: usize) -> Result<(), GraphError> {
    split_ids_of(NODE, array, values, nodes)
}

fn split_ids_of(one: &str, array: &NpyArray, values: &[i64], nodes: usize) -> Result<(), GraphError> {
    let at = |position| offset(array, position);
    ids(array, values, nodes)?;
    // One bit per node. Splits in ascending order, as most are, need no bits.
    if values.is_sorted_by(|a, b| a < b) {
        return Ok(());
    }
    let mut seen = vec![0_u64; nodes.div_ceil(64)];
    for (position, &value) in values.iter().enumerate() {
        let (word, bit) = (value as usize / 64, 1 << (value % 64));
        if seen[word] & bit != 0 {
            return Err(invalid(
                array,
                ContentProblem::SplitTwice { one: one.to_owned(), position, at: at(position), value },
            ));
        }
        seen[word] |= bit;
    }
    Ok(())
}

/// Checks that `values`, which `array` holds in any width, are ids of nodes.
pub(crate) fn ids(array: &NpyArray, values: &[i64], nodes: usize) -> Result<(), GraphError> {
    match first_wrong(values, |id| id.cast_unsigned() >= nodes as u64) {
        None => Ok(()),
        Some(wrong) => Err(wrong_id(array, wrong, values[wrong], nodes)),
    }
}

/// Checks that original ids fit the random keys and that each belongs to one node; `array` holds `values` in any width.
///
/// # Errors
/// The first wrong value.
pub fn original_ids(array: &NpyArray, values: &[i64]) -> Result<(), GraphError> {
    original_ids_of(NODE, array, values)
}

fn original_ids_of(one: &str, array: &NpyArray, values: &[i64]) -> Result<(), GraphError> {
    let at = |node| offset(array, node);
    if let Some(node) = first_wrong(values, |id| !(0..ORIGINAL_ID_LIMIT).contains(&id)) {
        let value = values[node];
        return Err(invalid(
            array,
            ContentProblem::OriginalId { one: one.to_owned(), node, at: at(node), value },
        ));
    }
    let mut sorted = values.to_vec();
    sorted.par_sort_unstable();
    if let Some(position) = sorted.par_windows(2).position_first(|pair| pair[0] == pair[1]) {
        let value = sorted[position];
        let node = values.iter().rposition(|&id| id == value).unwrap_or(0);
        return Err(invalid(
            array,
            ContentProblem::OriginalIdTwice { one: one.to_owned(), node, at: at(node), value },
        ));
    }
    Ok(())
}

fn invalid(array: &NpyArray, problem: ContentProblem) -> GraphError {
    GraphError::invalid(array.path(), problem)
}
