//! `metadata.yaml` of a typed graph, and its arrays, in directories of types and relations as in the dataset.
//!
//! Every array of a type or relation is a feature with the name of its file, and splits are sets. Features of edges whose
//! rows `edge_id` names are called `feat_by_edge_id`. An adjacent `meta.json` keeps what the format does not say.

use std::fmt::Write;

use uva_graph::typed_meta::EdgeRowOf;
use uva_graph::{GraphError, Labels, NodeType, Relation, Split, meta, names};
use uva_mem::files::write_new;

use super::export_files::{edge_index, write_rows};
use super::typed_export::TypedExport;
use crate::import::{FEATURES_BY_ID, SEED_TIMES};

pub(super) fn write_types(export: &TypedExport<'_>) -> Result<(), GraphError> {
    let dataset = export.dataset;
    let metagraph = dataset.metagraph();
    let mut description = Description::default();
    for node_type in metagraph.types() {
        description.nodes(metagraph.type_name(node_type), dataset.nodes_of(node_type));
        // A type need not have files.
        if dataset.directory_of_type(node_type).is_dir() {
            write_nodes(export, node_type, &mut description)?;
        }
    }
    for relation in metagraph.relations() {
        write_edges(export, relation, &mut description)?;
    }
    for node_type in metagraph.types() {
        let classes = match dataset.labels_of(node_type) {
            // Marks of one class are read as the classes 0 and 1.
            Labels::Multi { classes: 1, .. } => 2,
            Labels::Single(_) | Labels::Multi { .. } => dataset.classes_of(node_type),
            Labels::Regression { .. } | Labels::Absent => 0,
        };
        let is_set = Split::ALL.into_iter().any(|split| dataset.split_file(node_type, split).is_file());
        description.classes = description.classes.max(if is_set { classes } else { 0 });
    }
    let path = export.to.join("metadata.yaml");
    let yaml = description.yaml(dataset.name());
    write_new(&path, yaml.as_bytes()).map_err(GraphError::io(&path, "write"))?;
    export.copy(&dataset.path().join(meta::FILE_NAME), &export.to.join(meta::FILE_NAME))
}

fn write_nodes(
    export: &TypedExport<'_>,
    node_type: NodeType,
    description: &mut Description,
) -> Result<(), GraphError> {
    let name = export.dataset.metagraph().type_name(node_type);
    let directory = export.dataset.directory_of_type(node_type);
    let to = export.directory(&directory)?;
    let of_splits = Split::ALL.map(|split| (split.file_name(), names::split_times(split)));
    for file in export.copy_all(&directory, &to, &[])? {
        let is_of_split = of_splits.iter().any(|(ids, times)| [*ids, *times].contains(&&*file));
        if let Some(feature) = file.strip_suffix(".npy").filter(|_| !is_of_split) {
            let path = format!("{}/{name}/{file}", names::NODE_TYPES);
            description.feature("node", name, feature, &path);
        }
    }
    for (place, split) in Split::ALL.into_iter().enumerate() {
        let is_there = |file: &str| directory.join(file).is_file();
        if !is_there(split.file_name()) {
            continue;
        }
        let path = |file: &str| format!("{}/{name}/{file}", names::NODE_TYPES);
        let mut data = vec![("seeds", path(split.file_name()))];
        if export.dataset.labels_of(node_type).are_there() {
            let directory = export.to.join("sets").join(name);
            std::fs::create_dir_all(&directory).map_err(GraphError::io(&directory, "create"))?;
            let file = format!("{split}_label.npy");
            let (labels, ids) =
                (export.dataset.labels_of(node_type), export.dataset.split_of(node_type, split));
            write_rows(labels, ids, &directory.join(&file))?;
            data.push(("labels", format!("sets/{name}/{file}")));
        }
        if is_there(names::split_times(split)) {
            data.push((SEED_TIMES, path(names::split_times(split))));
        }
        description.set(place, name, &data);
    }
    Ok(())
}

fn write_edges(
    export: &TypedExport<'_>,
    relation: Relation,
    description: &mut Description,
) -> Result<(), GraphError> {
    let dataset = export.dataset;
    let of_type = dataset.metagraph().names(relation).join(":");
    let name = dataset.metagraph().full_name(relation);
    let directory = dataset.directory_of_relation(relation);
    let to = export.directory(&directory)?;
    edge_index(dataset.lists(relation), &to, export.progress)?;
    description.edges(&of_type, &format!("{}/{name}/edge_index.npy", names::RELATIONS));
    let entry = dataset.meta().typed.as_ref().and_then(|typed| typed.edges.get(relation.index()));
    let is_by_id = entry.is_some_and(|entry| entry.feat_rows == Some(EdgeRowOf::EdgeId));
    for file in export.copy_all(&directory, &to, &[names::INDPTR, names::INDICES])? {
        let Some(feature) = file.strip_suffix(".npy") else { continue };
        let feature = if file == names::FEATURES && is_by_id { FEATURES_BY_ID } else { feature };
        description.feature("edge", &of_type, feature, &format!("{}/{name}/{file}", names::RELATIONS));
    }
    Ok(())
}

/// The parts of `metadata.yaml`. Writing to a string cannot fail.
#[derive(Default)]
struct Description {
    nodes: String,
    edges: String,
    features: String,
    sets: [String; 3],
    /// The largest number of classes of a type with sets; 0 without classes.
    classes: usize,
}

impl Description {
    fn nodes(&mut self, name: &str, count: usize) {
        let _ = write!(self.nodes, "    - type: {}\n      num: {count}\n", quoted(name));
    }

    fn edges(&mut self, of_type: &str, path: &str) {
        let (of_type, path) = (quoted(of_type), quoted(path));
        let _ = write!(self.edges, "    - type: {of_type}\n      format: numpy\n      path: {path}\n");
    }

    fn feature(&mut self, domain: &str, of_type: &str, name: &str, path: &str) {
        let in_memory = !path.ends_with(names::FEATURES);
        let (of_type, name, path) = (quoted(of_type), quoted(name), quoted(path));
        let _ = write!(
            self.features,
            "  - domain: {domain}\n    type: {of_type}\n    name: {name}\n    format: numpy\n    in_memory: {in_memory}\n    \
             path: {path}\n"
        );
    }

    fn set(&mut self, place: usize, of_type: &str, data: &[(&str, String)]) {
        let set = &mut self.sets[place];
        let _ = write!(set, "      - type: {}\n        data:\n", quoted(of_type));
        for (name, path) in data {
            let path = quoted(path);
            let _ = write!(
                set,
                "          - name: {name}\n            format: numpy\n            in_memory: true\n            path: {path}\n"
            );
        }
    }

    fn yaml(&self, name: &str) -> String {
        let Self { nodes, edges, features, sets, classes } = self;
        let mut yaml = format!("dataset_name: {}\ngraph:\n  nodes:\n{nodes}  edges:\n{edges}", quoted(name));
        let _ = match features.is_empty() {
            true => writeln!(yaml, "feature_data: []"),
            false => write!(yaml, "feature_data:\n{features}"),
        };
        if sets.iter().all(String::is_empty) {
            return yaml + "tasks: []\n";
        }
        let _ = match classes {
            0 => write!(yaml, "tasks:\n  - name: node_regression\n"),
            classes => write!(yaml, "tasks:\n  - name: node_classification\n    num_classes: {classes}\n"),
        };
        for (what, set) in ["train_set", "validation_set", "test_set"].into_iter().zip(sets) {
            let _ = match set.is_empty() {
                true => writeln!(yaml, "    {what}: []"),
                false => write!(yaml, "    {what}:\n{set}"),
            };
        }
        yaml
    }
}

/// A JSON string is a YAML string, whatever its characters.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
