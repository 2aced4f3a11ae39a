//! The graphs of the Illinois Graph Benchmark (Khatua et al. 2023). [`typed`] has the heterogeneous ones. A homogeneous
//! one is `processed/paper/node_feat.npy`, `node_label_19.npy` or `node_label_2K.npy`, and
//! `processed/paper__cites__paper/edge_index.npy` [E, 2], pairs of source and destination. The tables of `large` and
//! `full` have no `.npy` header: they are raw float32, written by numpy's memmap.
//!
//! Splits are those of IGB's own loader: the first 60 % of the nodes train, the next 20 % validate, the rest test. For
//! `full` the same applies to the first nodes, those with a label. As in that loader, every node gets one self-loop.

mod files;
mod typed;

use std::path::Path;

use serde_json::{Map, json};
use uva_graph::csc::{Changes, SelfLoops};
use uva_graph::{GraphError, Meta};

use self::files::{ClassSet, RAW_COLUMNS, labelled, processed, splits, table};
use crate::import::importer::{Importer, SourceKind};
use crate::import::options::Extra;
use crate::import::reading::features::feature_type;
use crate::import::reading::nodes::{NodeRange, end_in_pairs};
use crate::import::reading::stream::ArrayStream;
use crate::import::reading::unread_parts;
use crate::import::request::ImportRequest;
use crate::import::writing::output::{CHUNK, DatasetOutput, DatasetSizes, feature_columns, label_columns};

/// The part of the source to import.
#[derive(Debug, Clone, Copy)]
enum Form {
    /// Papers and their citations.
    Homogeneous,
    /// All types and relations.
    Typed,
    /// All types and relations, with the citations of MLPerf's reference.
    Mlperf,
}

/// The values of `variant`.
const VARIANTS: [(&str, Form, ClassSet); 8] = [
    ("19", Form::Homogeneous, ClassSet::Coarse),
    ("2K", Form::Homogeneous, ClassSet::Fine),
    ("2k", Form::Homogeneous, ClassSet::Fine),
    ("2983", Form::Homogeneous, ClassSet::Fine),
    ("typed", Form::Typed, ClassSet::Coarse),
    ("typed-2K", Form::Typed, ClassSet::Fine),
    ("mlperf", Form::Mlperf, ClassSet::Fine),
    ("mlperf-19", Form::Mlperf, ClassSet::Coarse),
];

/// The row in the table.
pub(crate) const IMPORTER: Importer = Importer {
    name: "igb",
    help: "A graph of the Illinois Graph Benchmark: the directory with processed",
    source: SourceKind::Directory("a directory with processed/paper/node_feat.npy, or that processed"),
    takes: &[Extra::Variant, Extra::Reverse, Extra::Arrays],
    import,
};

/// Imports one graph. The source is the directory of its size, or its subdirectory `processed`.
fn import(request: &ImportRequest<'_>) -> Result<(), GraphError> {
    let variant = request.options.variant.as_deref().unwrap_or("19");
    let Some(&(_, form, set)) = VARIANTS.iter().find(|(name, ..)| *name == variant) else {
        let message = format!(
            "invalid set of IGB labels '{variant}': expected 19 or 2K, or for a typed graph typed, typed-2K, mlperf or \
             mlperf-19"
        );
        return Err(GraphError::usage("variant", message));
    };
    let processed = processed(request.source);
    match form {
        Form::Homogeneous => homogeneous(request, &processed, set),
        Form::Typed => typed::import(request, &processed, set, false),
        Form::Mlperf => typed::import(request, &processed, set, true),
    }
}

fn homogeneous(request: &ImportRequest<'_>, processed: &Path, set: ClassSet) -> Result<(), GraphError> {
    if request.options.edge_list.arrays.is_some() {
        let message = "only valid with `variant=typed` or `variant=mlperf`";
        return Err(GraphError::usage("arrays", message));
    }
    let classes = set.classes();
    let changes = request.options.changes(Changes { self_loops: SelfLoops::Add, ..Changes::NONE });
    let table = table(&processed.join("paper/node_feat.npy"), &[RAW_COLUMNS])?;
    let nodes = table.shape().first().map_or(0, |&rows| rows as u64);
    let columns = feature_columns(&table, Some(nodes))?;
    let labels = self::table(&processed.join("paper").join(set.file()), &[])?;
    let label_row_bytes = label_columns(&labels, nodes)?.map_or(8, |columns| columns as u64);
    let mut edges = ArrayStream::open(&processed.join("paper__cites__paper/edge_index.npy"))?;
    let &[count, 2] = edges.shape() else {
        return Err(edges.wrong_shape("[edges, 2]: pairs of source and destination"));
    };

    let paper = processed.join("paper");
    let is_read = |name: &str| name == "node_feat.npy" || name.starts_with("node_label_");
    unread_parts::say(request.watch.note, &paper, &unread_parts::files(&paper, ".npy", is_read)?);
    let cites = processed.join("paper__cites__paper");
    unread_parts::say(
        request.watch.note,
        &cites,
        &unread_parts::files(&cites, ".npy", |name| name == "edge_index.npy")?,
    );
    // Other types of nodes and edges, of a heterogeneous graph.
    let is_read =
        |name: &str| ["paper", "paper__cites__paper"].contains(&name) || !processed.join(name).is_dir();
    let others = unread_parts::files(processed, "", is_read)?;
    unread_parts::say(request.watch.note, processed, &others);
    if !others.is_empty() {
        (request.watch.note)("`variant=typed` reads all types and relations");
    }
    let (element, _) = feature_type(table.kind(), None);
    let sizes = DatasetSizes {
        nodes: Some(nodes),
        edges: Some(count as u64),
        feature_row_bytes: columns * element.bytes() as u64,
        // A node is in about one split.
        label_row_bytes: label_row_bytes + 8,
        ..DatasetSizes::default()
    };
    let output = DatasetOutput::begin(request, sizes, changes)?;
    let mut lists = output.lists(nodes, false)?;
    let ids_of_nodes = NodeRange::new(nodes, format!("node_feat.npy has {nodes} rows"));
    loop {
        let ids = edges.integers(2 * CHUNK)?;
        if ids.is_empty() {
            break;
        }
        edges.check_ids(&ids, &ids_of_nodes, end_in_pairs)?;
        for &[source, destination] in ids.as_chunks::<2>().0 {
            lists.push(source as u64, destination as u64, 0.0)?;
        }
        output.progress("edges", edges.position() / 2, count as u64);
    }
    output.finish_lists(lists)?;
    output.features(table, nodes, None)?;
    output.labels(labels, nodes, Some(classes))?;
    output.splits(&splits(labelled(nodes, set)))?;
    output.finish(Meta {
        name: request.name(None),
        classes: Some(classes),
        feat_dtype: Some(element.name().to_owned()),
        licence: Some("ODC-By-1.0".to_owned()),
        other: Map::from_iter([("source".to_owned(), json!("igb"))]),
        ..Meta::default()
    })
}
