//! Parts of a dataset that are lost in an export.

use std::fs;

use uva_files::quote::shown;
use uva_graph::{Dataset, GraphError, Indices, Labels, Split, TypedDataset, meta, names};

/// A line about each part of the dataset that is not exported, or is imported differently. `omits` lists the files that
/// the format does not keep.
///
/// # Errors
/// If the directory cannot be read.
pub(super) fn lost(dataset: &Dataset, omits: &[&str]) -> Result<Vec<String>, GraphError> {
    let directory = dataset.path();
    let exported = [
        names::INDPTR,
        names::INDICES,
        names::FEATURES,
        names::LABELS,
        names::WEIGHTS,
        names::EDGE_FEATURES,
        names::EDGE_TYPES,
        names::ORIGINAL_IDS,
        names::NODE_IDS,
        names::NODE_NAMES,
        meta::FILE_NAME,
    ];
    let exported = |name: &str| {
        !omits.contains(&name) && exported.contains(&name)
            || Split::ALL.iter().any(|split| split.file_name() == name)
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(GraphError::io(directory, "read"))? {
        let name = entry.map_err(GraphError::io(directory, "read"))?.file_name();
        // Stamps and similar files are not part of a dataset.
        if !name.as_encoded_bytes().starts_with(b".") && !name.to_str().is_some_and(exported) {
            files.push(shown(name.as_encoded_bytes()));
        }
    }
    files.sort_unstable();
    let mut lines: Vec<String> = files.iter().map(|name| format!("{name} is not exported")).collect();
    let meta = dataset.meta();
    for (key, there) in [("part", meta.part.is_some()), ("ranges", meta.ranges.is_some())] {
        if there {
            lines
                .push(format!("`{key}` of meta.json does not come back: the export is a dataset of its own"));
        }
    }
    if matches!(dataset.labels(), Labels::Multi { classes: 1, .. }) {
        lines.push("label.npy [N, 1] comes back as one class a node, 0 or 1".to_owned());
    }
    if matches!(dataset.csc().indices, Indices::I64(_)) && dataset.nodes() <= i32::MAX as usize {
        lines.push("indices.npy comes back in 32 bits, which are enough".to_owned());
    }
    Ok(lines)
}

/// Likewise for a typed graph, of whose arrays all are exported.
///
/// # Errors
/// If the directory cannot be read.
pub(super) fn lost_of_types(dataset: &TypedDataset) -> Result<Vec<String>, GraphError> {
    let directory = dataset.path();
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(GraphError::io(directory, "read"))? {
        let name = entry.map_err(GraphError::io(directory, "read"))?.file_name();
        let exported = [meta::FILE_NAME, names::NODE_TYPES, names::RELATIONS];
        if !name.as_encoded_bytes().starts_with(b".") && !exported.iter().any(|known| name == *known) {
            files.push(shown(name.as_encoded_bytes()));
        }
    }
    files.sort_unstable();
    let mut lines: Vec<String> = files.iter().map(|name| format!("{name} is not exported")).collect();
    let metagraph = dataset.metagraph();
    for node_type in metagraph.types() {
        if matches!(dataset.labels_of(node_type), Labels::Multi { classes: 1, .. }) {
            let name = metagraph.type_name(node_type);
            lines.push(format!("label.npy [N, 1] of {name} comes back as one class a node, 0 or 1"));
        }
    }
    for relation in metagraph.relations() {
        let sources = dataset.nodes_of(metagraph.source(relation));
        if matches!(dataset.lists(relation).indices, Indices::I64(_)) && sources <= i32::MAX as usize {
            let name = metagraph.full_name(relation);
            lines.push(format!("indices.npy of {name} comes back in 32 bits, which are enough"));
        }
    }
    Ok(lines)
}
