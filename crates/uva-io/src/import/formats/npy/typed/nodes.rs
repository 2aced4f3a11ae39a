//! The arrays of a node type.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use uva_graph::npy::{NpyArray, NpyType, NpyWriter, write_array};
use uva_graph::typed_meta::NodeTypeMeta;
use uva_graph::{ElementType, GraphError, Meta, NodeType, Split, names};
use uva_mem::files::open_regular;

use super::super::elements::integers;
use super::super::source::{FeatureArray, ImportedLabels, SourceArrays};
use super::arrays::{others, write_features};
use crate::import::options::Float8;
use crate::import::request::{ImportRequest, ImportWatch};
use crate::import::writing::typed_output;
use crate::typed::TypedWriter;

/// The names of labels.
pub(crate) const LABELS: [&str; 4] = ["label", "labels", "y", "node_label"];

/// The names of features of nodes.
pub(crate) const FEATURES: [&str; 4] = ["feat", "x", "features", "node_feat"];

/// The integers of an optional array [`rows`].
fn optional_integers(source: &SourceArrays, name: &str, rows: usize) -> Result<Option<Vec<i64>>, GraphError> {
    source.optional_column(name, rows)?.as_ref().map(integers).transpose()
}

/// The arrays of a node type, found and checked.
pub(crate) struct NodeArrays {
    nodes: usize,
    features: Option<FeatureArray>,
    labels: ImportedLabels,
    splits: [Option<Vec<i64>>; 3],
    /// Arrays of int64, by the name of their file.
    integers: Vec<(&'static str, Vec<i64>)>,
    others: Vec<(String, NpyArray)>,
    /// The file with the nodes' names, a line each.
    node_names: Option<PathBuf>,
}

impl NodeArrays {
    /// The labels of `source`.
    pub(super) fn labels(
        source: &SourceArrays,
        entry: &NodeTypeMeta,
        regression: bool,
        watch: &ImportWatch<'_>,
    ) -> Result<ImportedLabels, GraphError> {
        let nodes = usize::try_from(entry.num).unwrap_or(usize::MAX);
        match source.optional(&LABELS)? {
            Some(_) => source.labels(nodes, regression, watch),
            None => Ok(ImportedLabels::Absent),
        }
    }

    /// Opens the arrays of `source`, with these labels. `node_names` is the file of the nodes' names.
    pub(super) fn open(
        entry: &NodeTypeMeta,
        source: SourceArrays,
        labels: ImportedLabels,
        node_names: Option<PathBuf>,
        watch: &ImportWatch<'_>,
    ) -> Result<Self, GraphError> {
        // The labels of other files include these.
        source.optional(&LABELS)?;
        let nodes = usize::try_from(entry.num).unwrap_or(usize::MAX);
        let features = match source.optional(&FEATURES)? {
            Some(array) if array.shape().first() != Some(&nodes) => {
                return Err(
                    array.wrong_shape(format!("[{nodes}, features], one row for each {}", entry.name))
                );
            }
            Some(_) => Some(source.features()?),
            None => None,
        };
        let splits = source.optional_splits(nodes)?;
        let mut integers = Vec::new();
        for name in [names::TIMES, names::ORIGINAL_IDS, names::NODE_IDS] {
            integers.extend(optional_integers(&source, name, nodes)?.map(|values| (name, values)));
        }
        for (split, ids) in Split::ALL.into_iter().zip(&splits) {
            if let Some(ids) = ids {
                let name = names::split_times(split);
                integers.extend(optional_integers(&source, name, ids.len())?.map(|values| (name, values)));
            }
        }
        let others = others(&source, nodes, watch)?;
        Ok(Self { nodes, features, labels, splits, integers, others, node_names })
    }

    /// Sets the keys of the type's entry in `meta.json` that follow from its arrays.
    pub(super) fn describe(&self, entry: &mut NodeTypeMeta, float8: Option<Float8>) {
        entry.feat_dtype = self.features.as_ref().map(|features| {
            let element = if float8.is_some() { ElementType::E4m3 } else { features.element };
            element.name().to_owned()
        });
        if matches!(self.labels, ImportedLabels::Regression { .. }) {
            entry.classes = None;
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        let rows = self.features.as_ref().map_or(0, FeatureArray::row_bytes) + self.labels.row_bytes();
        let others: usize = self.others.iter().map(|(_, array)| array.bytes().len()).sum();
        (self.nodes as u64)
            .saturating_mul(rows + 8 * self.integers.len() as u64)
            .saturating_add(others as u64)
    }

    pub(super) fn write(
        self,
        request: &ImportRequest<'_>,
        writer: &TypedWriter,
        (node_type, is_target): (NodeType, bool),
        float8: Option<Float8>,
        meta: &mut Meta,
    ) -> Result<(), GraphError> {
        let file = |name: &str| writer.node_file(node_type, name);
        if let Some(features) = &self.features {
            write_features(features, &file(names::FEATURES), float8, request.watch)?;
        }
        self.labels.write(&file(names::LABELS))?;
        let is_split_by_rule = is_target && request.options.split.is_some();
        if is_split_by_rule {
            let classes = match &self.labels {
                ImportedLabels::Single(classes) => Some(&classes[..]),
                _ => None,
            };
            typed_output::split_by_rule(request, writer, node_type, (self.nodes, classes), meta)?;
        }
        for (split, ids) in Split::ALL.into_iter().zip(&self.splits).filter(|_| !is_split_by_rule) {
            if let Some(ids) = ids {
                write_array(&file(split.file_name()), NpyType::I64, &[], ids)?;
            }
        }
        let of_splits = Split::ALL.map(names::split_times);
        for (name, values) in &self.integers {
            if !(is_split_by_rule && of_splits.contains(name)) {
                write_array(&file(name), NpyType::I64, &[], values)?;
            }
        }
        for (name, array) in &self.others {
            let mut copy = NpyWriter::create(&file(name), array.kind(), &array.shape()[1..])?;
            copy.write_bytes(array.bytes())?;
            copy.finish()?;
        }
        if let Some(from) = &self.node_names {
            let mut source = open_regular(from).map_err(GraphError::io(from, "open"))?;
            let to = file(names::NODE_NAMES);
            let mut copy = File::create_new(&to).map_err(GraphError::io(&to, "create"))?;
            io::copy(&mut source, &mut copy).map_err(GraphError::io(from, "copy"))?;
        }
        Ok(())
    }
}
