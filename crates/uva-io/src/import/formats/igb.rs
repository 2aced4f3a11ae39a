//! The homogeneous graphs of the Illinois Graph Benchmark (Khatua et al. 2023): `processed/paper/node_feat.npy`,
//! `node_label_19.npy` or `node_label_2K.npy`, and `processed/paper__cites__paper/edge_index.npy` [E, 2], pairs of
//! source and destination. The tables of `large` and `full` have no `.npy` header: they are raw float32, written by
//! numpy's memmap.
//!
//! Splits are those of IGB's own loader: the first 60 % of the nodes train, the next 20 % validate, the rest test. For
//! `full` the same applies to the first nodes, those with a label. As in that loader, every node gets one self-loop.

use std::path::{Path, PathBuf};

use serde_json::{Map, json};
use uva_graph::csc::{Changes, SelfLoops};
use uva_graph::npy::NpyType;
use uva_graph::{GraphError, Meta};

use crate::import::importer::{Importer, SourceKind};
use crate::import::options::Extra;
use crate::import::reading::features::feature_type;
use crate::import::reading::nodes::{NodeRange, end_in_pairs};
use crate::import::reading::stream::ArrayStream;
use crate::import::reading::unread_parts;
use crate::import::request::ImportRequest;
use crate::import::writing::output::{CHUNK, DatasetOutput, DatasetSizes, feature_columns, label_columns};

/// Columns of a table without a header.
const RAW_COLUMNS: usize = 1024;

/// Nodes of `full`, and how many of them have a label, for the two sets of classes: from IGB's README and loader.
const FULL_NODES: u64 = 269_346_174;
const FULL_LABELLED: [u64; 2] = [227_130_858, 157_675_969];

/// The row in the table.
pub(crate) const IMPORTER: Importer = Importer {
    name: "igb",
    help: "A homogeneous graph of the Illinois Graph Benchmark: the directory with processed",
    source: SourceKind::Directory("a directory with processed/paper/node_feat.npy, or that processed"),
    takes: &[Extra::Variant],
    import,
};

/// Imports one graph. The source is the directory of its size, or its subdirectory `processed`.
fn import(request: &ImportRequest<'_>) -> Result<(), GraphError> {
    let (which, classes) = match request.options.variant.as_deref() {
        None | Some("19") => (0, 19),
        Some("2K" | "2k" | "2983") => (1, 2983),
        Some(other) => {
            let message = format!("invalid set of IGB labels '{other}': expected 19 or 2K");
            return Err(GraphError::usage("variant", message));
        }
    };
    let changes = request.options.changes(Changes { self_loops: SelfLoops::Add, ..Changes::NONE });
    let processed = processed(request.source);
    let table = table(&processed.join("paper/node_feat.npy"), &[RAW_COLUMNS])?;
    let nodes = table.shape().first().map_or(0, |&rows| rows as u64);
    let columns = feature_columns(&table, Some(nodes))?;
    let label_file = ["node_label_19.npy", "node_label_2K.npy"][which];
    let labels = self::table(&processed.join("paper").join(label_file), &[])?;
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
    unread_parts::say(request.watch.note, &processed, &unread_parts::files(&processed, "", is_read)?);
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
    let labelled = if nodes == FULL_NODES { FULL_LABELLED[which] } else { nodes };
    output.splits(&splits(labelled))?;
    output.finish(Meta {
        name: request.name(None),
        classes: Some(classes),
        feat_dtype: Some(element.name().to_owned()),
        licence: Some("ODC-By-1.0".to_owned()),
        other: Map::from_iter([("source".to_owned(), json!("igb"))]),
        ..Meta::default()
    })
}

fn processed(source: &Path) -> PathBuf {
    let inner = source.join("processed");
    if inner.is_dir() { inner } else { source.to_owned() }
}

/// A table with a header, or one with rows of shape `row` without a header.
fn table(path: &Path, row: &[usize]) -> Result<ArrayStream, GraphError> {
    let row_bytes = 4 * row.iter().product::<usize>() as u64;
    let mut start = [0; 6];
    let begins_as_npy = uva_mem::files::open_regular(path)
        .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut start))
        .map(|()| start == *b"\x93NUMPY")
        .or_else(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => Ok(true),
            _ => Err(error),
        })
        .map_err(GraphError::io(path, "open"))?;
    let bytes = std::fs::metadata(path).map_err(GraphError::io(path, "look at"))?.len();
    if begins_as_npy || !bytes.is_multiple_of(row_bytes) {
        return ArrayStream::open(path);
    }
    let rows = (bytes / row_bytes) as usize;
    ArrayStream::open_raw(path, NpyType::F32, [&[rows], row].concat())
}

fn splits(nodes: u64) -> [Vec<i64>; 3] {
    // As the loader computes them: 60 % and 20 % in doubles, rounded down.
    let train = (nodes as f64 * 0.6) as u64;
    let valid = (nodes as f64 * 0.2) as u64;
    let ids = |from: u64, to: u64| (from as i64..to as i64).collect();
    [ids(0, train), ids(train, train + valid), ids(train + valid, nodes)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_are_cut_where_igbs_loader_cuts_them() {
        assert_eq!(splits(100_000).map(|ids| ids.len()), [60_000, 20_000, 20_000]);
        // int(7 * 0.6) is 4, int(7 * 0.2) is 1.
        assert_eq!(splits(7), [vec![0, 1, 2, 3], vec![4], vec![5, 6]]);
        assert!(splits(0).iter().all(Vec::is_empty));
    }
}
