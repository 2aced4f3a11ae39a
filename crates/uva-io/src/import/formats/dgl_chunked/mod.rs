//! DGL's chunked graphs, the input of its distributed preprocessing: `metadata.json` lists the node types, the relations,
//! and the files of each array, which are read in their order.
//!
//! Chunks are text without a header, `.npy` files or Parquet tables. They are joined in a temporary directory next to the
//! output, unless there is one `.npy` file. Then they are arrays as of a directory of `.npy` files: `feat`, `label`,
//! `train_mask` and others, and of edges `feat`, `weight`, `time`. The node type with splits is the target. A graph of
//! one type becomes a dataset of format 1.

mod chunks;
mod joining;
mod metadata;
mod reads;
mod sizes;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::json;
use uva_graph::csc::Changes;
use uva_graph::typed_meta::{NodeTypeMeta, RelationMeta, TYPED_VERSION, TypedMeta};
use uva_graph::{GraphError, Meta};

use self::joining::Joining;
use self::metadata::{ChunkedGraph, ChunkedRelation, ChunkedType, Chunks};
use self::reads::{EDGE_ARRAYS, ONLY, SPLITS, TYPED};
use self::sizes::ChunkedSizes;
use crate::import::formats::npy;
use crate::import::formats::npy::typed::{ArrayFiles, LABELS, SourceArrays, TypedArrays};
use crate::import::importer::{Importer, SourceKind};
use crate::import::options::Extra;
use crate::import::reading::nodes::NodeRange;
use crate::import::reading::unread_parts;
use crate::import::request::{ImportRequest, ImportWatch};
use crate::import::writing::type_names::TypeNames;
use crate::import::writing::typed_changes::RelationChanges;
use crate::typed::Reversal;

/// The row in the table.
pub(crate) const IMPORTER: Importer = Importer {
    name: "dgl-chunked",
    help: "DGL's chunked graphs: metadata.json and chunks of .csv, .npy or Parquet",
    source: SourceKind::Either(
        "a directory with metadata.json, as DGL's chunk_graph writes it, or that file",
    ),
    takes: &[Extra::Regression, Extra::Reverse],
    import,
};

/// Files by the name of their array.
type Files = BTreeMap<String, PathBuf>;

/// Imports one graph.
fn import(request: &ImportRequest<'_>) -> Result<(), GraphError> {
    let described = ChunkedGraph::read(request.source)?;
    let joining = Joining::begin(request, described.file.clone())?;
    let note = |line: &str| (request.watch.note)(&joining.in_source(line));
    // The estimate is reported before chunks are joined.
    let watch = ImportWatch { estimate: &|_| {}, progress: request.watch.progress, note: &note };
    let renamed = ImportRequest { watch: &watch, ..*request };
    let mut meta = Meta { name: described.name.clone(), ..Meta::default() };
    meta.other.insert("source".to_owned(), json!("dgl-chunked"));
    let imported = match described.is_homogeneous() {
        true => import_only(&renamed, &described, &joining, meta),
        false => import_typed(&renamed, &described, &joining, meta),
    };
    imported.map_err(|error| joining.about_source(error))
}

/// Imports a graph of one node type and one relation.
fn import_only(
    request: &ImportRequest<'_>,
    described: &ChunkedGraph,
    joining: &Joining<'_>,
    meta: Meta,
) -> Result<(), GraphError> {
    request.options.refuse_types()?;
    let changes = request.options.changes(Changes::NONE);
    let reversal = if changes.symmetrise { Reversal::Same } else { Reversal::None };
    ChunkedSizes::of(described, &ONLY, &[RelationChanges { reversal, changes }])?.report(joining.request());
    let (of_type, relation) = (&described.types[0], &described.relations[0]);
    let mut unread = Vec::new();
    let mut files = node_files(joining, of_type, &mut unread, ONLY.nodes)?;
    let edges = edge_files(joining, described, relation, &mut unread, ONLY.edges)?;
    for (name, path) in edges {
        let new = EDGE_ARRAYS.iter().find(|(other, _)| *other == name).map_or(name.as_str(), |(_, new)| new);
        files.insert(new.to_owned(), path);
    }
    unread_parts::say(request.watch.note, &described.file, &unread);
    let source = SourceArrays::listed(described.file.clone(), files, meta);
    npy::import_arrays(request, source)
}

/// Imports a typed graph.
fn import_typed(
    request: &ImportRequest<'_>,
    described: &ChunkedGraph,
    joining: &Joining<'_>,
    meta: Meta,
) -> Result<(), GraphError> {
    let (mut type_names, note) = (TypeNames::default(), request.watch.note);
    let nodes: Vec<NodeTypeMeta> =
        described.types.iter().map(|of| type_names.node_type(&of.name, of.nodes, note)).collect();
    let relation_meta = |of: &ChunkedRelation| {
        let [source, destination] = of.ends.map(|end| nodes[end].name.as_str());
        type_names.relation([source, &of.names[1], destination], note)
    };
    let edges: Vec<RelationMeta> = described.relations.iter().map(relation_meta).collect();
    let target = target(&described.types).map(|at| nodes[at].name.clone());
    if request.options.split.is_some() && target.is_none() {
        let message = format!(
            "requires one node type with train_mask or label, the type that is split: {} has several or zero",
            described.file.display()
        );
        return Err(GraphError::usage("split", message));
    }
    let typed = TypedMeta { version: TYPED_VERSION, nodes, edges, target, layout: None };
    let mut arrays = TypedArrays::new(request, typed)?;
    ChunkedSizes::of(described, &TYPED, arrays.changes())?.report(joining.request());
    let mut unread = Vec::new();
    for (at, of) in described.types.iter().enumerate() {
        let files = node_files(joining, of, &mut unread, TYPED.nodes)?;
        let entry = &arrays.typed.nodes[at];
        let source = SourceArrays::of_type(described.file.clone(), ArrayFiles::Listed(files), entry);
        arrays.open_type(source, None, None)?;
    }
    for (at, of) in described.relations.iter().enumerate() {
        let files = edge_files(joining, described, of, &mut unread, TYPED.edges)?;
        let entry = &arrays.typed.edges[at];
        let source = SourceArrays::of_relation(described.file.clone(), ArrayFiles::Listed(files), entry);
        arrays.open_relation(source, None, "metadata.json")?;
    }
    unread_parts::say(note, &described.file, &unread);
    arrays.write(meta)
}

/// The place of the only type with a training split; else of the only one with labels.
fn target(types: &[ChunkedType]) -> Option<usize> {
    let only = |names: &[&str]| {
        let mut found =
            (0..types.len()).filter(|&at| names.iter().any(|name| types[at].data.contains_key(*name)));
        found.next().filter(|_| found.next().is_none())
    };
    only(&SPLITS[..2]).or_else(|| only(&LABELS))
}

/// The arrays of a node type that `is_read`, joined.
fn node_files(
    joining: &Joining<'_>,
    of: &ChunkedType,
    unread: &mut Vec<String>,
    is_read: impl Fn(&str) -> bool,
) -> Result<Files, GraphError> {
    let rows = |name: &str| (!name.ends_with("_idx")).then_some(of.nodes);
    arrays(joining, (&of.name, &of.data), rows, unread, is_read)
}

/// The ends of a relation's edges, and its arrays that `is_read`, joined.
fn edge_files(
    joining: &Joining<'_>,
    described: &ChunkedGraph,
    of: &ChunkedRelation,
    unread: &mut Vec<String>,
    is_read: impl Fn(&str) -> bool,
) -> Result<Files, GraphError> {
    let ends = of.ends.map(|end| {
        let ChunkedType { name, nodes, .. } = &described.types[end];
        NodeRange::new(*nodes, format!("metadata.json has {nodes} of {name}"))
    });
    let owner = of.names.join(":");
    let (edges, [sources, destinations]) = joining.edges((&owner, &of.edges), &ends, of.stated)?;
    let mut files = arrays(joining, (&owner, &of.data), |_| Some(edges), unread, is_read)?;
    files.insert("src".to_owned(), sources);
    files.insert("dst".to_owned(), destinations);
    Ok(files)
}

/// The arrays that `is_read`, each with its number of rows if it is known, joined.
fn arrays(
    joining: &Joining<'_>,
    (owner, data): (&str, &BTreeMap<String, Chunks>),
    rows: impl Fn(&str) -> Option<u64>,
    unread: &mut Vec<String>,
    is_read: impl Fn(&str) -> bool,
) -> Result<Files, GraphError> {
    let mut files = Files::new();
    for (name, chunks) in data {
        if is_read(name) {
            files.insert(name.clone(), joining.array((owner, name), chunks, rows(name))?);
        } else {
            unread.push(format!("{name} of {owner}"));
        }
    }
    Ok(files)
}
