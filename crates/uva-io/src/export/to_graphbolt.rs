//! DGL GraphBolt's `OnDiskDataset`: `metadata.yaml`, and the arrays that it names.
//!
//! The labels of all nodes are a feature called `label`. The sets also contain the labels of the seeds, as GraphBolt
//! requires. A dataset without labels is exported without them. Ids of the source are a feature called `node_id`; names
//! are in `node_names.txt` next to `metadata.yaml`. Typed graphs have other files ([`write_types`]).

use std::fmt::Write;

use uva_graph::{GraphError, Labels, Split, names};
use uva_mem::files::write_new;

use super::export_files::{Export, write_rows};
use super::exporter::Exporter;
use super::graphbolt_types::write_types;

/// The row in the table.
pub(super) const EXPORTER: Exporter = Exporter {
    name: "graphbolt",
    help: "A DGL GraphBolt OnDiskDataset",
    has_lines: false,
    omits: &[names::EDGE_TYPES],
    write,
    write_types: Some(write_types),
};

fn write(export: &Export<'_>) -> Result<Vec<&'static str>, GraphError> {
    let dataset = export.dataset;
    export.edge_index()?;
    export.copy_arrays()?;
    export.copy(&[], &[names::WEIGHTS, names::EDGE_FEATURES])?;
    for split in Split::ALL {
        set_labels(export, split)?;
    }

    // A JSON string is a YAML string.
    let name = serde_json::Value::from(dataset.name());
    let mut yaml = format!(
        "dataset_name: {name}\n\
         graph:\n  nodes:\n    - num: {}\n  edges:\n    - format: numpy\n      path: edge_index.npy\n\
         feature_data:\n",
        dataset.nodes()
    );
    let mut feature = |domain: &str, name: &str, path: &str, in_memory: bool| {
        // Writing to a string cannot fail.
        let _ = write!(
            yaml,
            "  - domain: {domain}\n    name: {name}\n    format: numpy\n    in_memory: {in_memory}\n    path: {path}\n"
        );
    };
    feature("node", "feat", names::FEATURES, false);
    let labels = dataset.labels();
    if labels.are_there() {
        feature("node", "label", names::LABELS, true);
    }
    if dataset.original_ids().is_some() {
        feature("node", "orig_id", names::ORIGINAL_IDS, true);
    }
    if export.to.join(names::NODE_IDS).exists() {
        feature("node", "node_id", names::NODE_IDS, true);
    }
    if dataset.weights().is_some() {
        feature("edge", "weight", names::WEIGHTS, true);
    }
    if dataset.edge_features().is_some() {
        feature("edge", "feat", names::EDGE_FEATURES, false);
    }
    let _ = match labels {
        Labels::Regression { .. } | Labels::Absent => write!(yaml, "tasks:\n  - name: node_regression\n"),
        Labels::Single(_) | Labels::Multi { .. } => {
            // Marks of one class are read as the classes 0 and 1.
            let classes = match labels {
                Labels::Multi { classes: 1, .. } => 2,
                _ => dataset.classes(),
            };
            write!(yaml, "tasks:\n  - name: node_classification\n    num_classes: {classes}\n")
        }
    };
    for (split, set) in Split::ALL.into_iter().zip(["train_set", "validation_set", "test_set"]) {
        let _ = write!(yaml, "    {set}:\n      - data:\n");
        let files = [("seeds", split.file_name().to_owned()), ("labels", label_file(split))];
        let files = files.into_iter().filter(|(name, _)| *name == "seeds" || labels.are_there());
        for (name, path) in files {
            let _ = write!(
                yaml,
                "          - name: {name}\n            format: numpy\n            in_memory: true\n            path: {path}\n"
            );
        }
    }
    let path = export.to.join("metadata.yaml");
    write_new(&path, yaml.as_bytes()).map_err(GraphError::io(&path, "write"))?;
    Ok(Vec::new())
}

fn label_file(split: Split) -> String {
    format!("{split}_label.npy")
}

/// The labels of a split's nodes, in their order.
fn set_labels(export: &Export<'_>, split: Split) -> Result<(), GraphError> {
    let path = export.to.join(label_file(split));
    write_rows(export.dataset.labels(), export.dataset.split(split), &path)
}
