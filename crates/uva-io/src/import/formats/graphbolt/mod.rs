//! DGL GraphBolt's `OnDiskDataset`: a `metadata.yaml` that names the files, which are `.npy`, or `.csv` for edges.
//!
//! Features are `feature_data` of the domain node called `feat`, or the only one. Labels are those called `label`, or
//! else those of the task's three sets, with −1 for every other node. Edges in `numpy` are [2, E], in `csv` lines of
//! `source,destination` without a header. An edge feature called `weight` is the edges' weight, and one called `feat`,
//! `edge_attr` or `edge_feat` their features. `orig_id` and `node_id` of nodes are kept, and so are an adjacent
//! `meta.json` and `node_names.txt`. Other `feature_data` is not read, which is reported.
//!
//! With several types of nodes or edges, or an adjacent `meta.json` of format 2, the graph is typed ([`typed`]).

mod labels;
pub(crate) mod metadata;
mod seeds;
pub(crate) mod typed;

use std::path::PathBuf;

use uva_files::quote::shown;
use uva_graph::csc::{Changes, CscBuilder};
use uva_graph::npy::{NpyType, write_array};
use uva_graph::{ElementType, GraphError, Meta, Progress, names};

use self::labels::{Collected, GraphboltLabels};
use self::metadata::{Described, EdgesMetadata};
use self::seeds::seed_ids;
use super::npy::names_of_nodes;
use crate::import::importer::{Importer, SourceKind};
use crate::import::options::{Extra, refuse_changes_of_weighted};
use crate::import::reading::edge_lines;
use crate::import::reading::features::feature_type;
use crate::import::reading::nodes::{NodeRange, end_in_rows};
use crate::import::reading::stream::ArrayStream;
use crate::import::reading::values::fits_float32;
use crate::import::request::ImportRequest;
use crate::import::writing::numbering;
use crate::import::writing::output::{
    CHUNK, DatasetOutput, DatasetSizes, edge_feature_columns, feature_columns,
};
use crate::import::writing::read_speed;

/// Names of node arrays that are not features.
const LABELS: [&str; 3] = ["label", "labels", "y"];
const OTHERS: [&str; 5] = ["label", "labels", "y", "orig_id", "node_id"];

/// The row in the table.
pub(crate) const IMPORTER: Importer = Importer {
    name: "graphbolt",
    help: "A directory with the metadata.yaml of a DGL GraphBolt OnDiskDataset",
    source: SourceKind::Either("a directory with metadata.yaml, or that file"),
    takes: &[Extra::Variant, Extra::Regression, Extra::Reverse],
    import,
};

/// Imports one dataset. The source is the directory with `metadata.yaml`, or that file.
fn import(request: &ImportRequest<'_>) -> Result<(), GraphError> {
    let changes = request.options.changes(Changes::NONE);
    let described = Described::read(request.source)?;
    let beside = described.directory.join(uva_graph::meta::FILE_NAME).exists();
    let mut meta = Meta::read(&described.directory)?;
    if described.is_typed() || meta.typed.is_some() {
        return typed::import(request, &described, meta);
    }
    let (nodes, edges) = described.graph()?;
    let nodes = nodes.num;
    let edges = EdgeFile::open(&described, edges)?;
    let said = meta.feat_dtype.as_deref().and_then(ElementType::from_name);
    let features = described.features(&OTHERS)?;
    let columns = feature_columns(&features, Some(nodes))?;
    let weights = described.feature("edge", &["weight"])?;
    if let Some(weights) = &weights {
        edges.check_weights(weights, changes)?;
    }
    let edge_features = described.feature("edge", &["feat", "edge_attr", "edge_feat"])?;
    let mut edge_row_bytes = 0;
    let said_of_edges = meta.edge_feat_dtype.as_deref().and_then(ElementType::from_name);
    if let Some(table) = &edge_features {
        edges.check_features(table, changes)?;
        let element = feature_type(table.kind(), said_of_edges).0;
        edge_row_bytes = edge_feature_columns(table)? * element.bytes() as u64;
    }
    let original_ids = described.feature("node", &["orig_id"])?;
    let node_ids = described.feature("node", &["node_id"])?;
    let node_names = names_of_nodes(&described.directory, nodes)?;
    let task = described.task(request.options.variant.as_deref())?;
    let classes = task.num_classes.or(meta.classes);
    let regression = request.options.is_regression();
    let (splits, of_sets) = splits(&described, task, nodes, classes, regression)?;
    let labels = match (described.feature("node", &LABELS)?, of_sets) {
        (None, _) if regression => {
            let message = format!(
                "{} has no 'label' of all nodes in its feature_data, which targets of regression are read from",
                request.source.display()
            );
            return Err(GraphError::usage("regression", message));
        }
        (Some(of_all), Some(mut labels)) => {
            labels.add(of_all, None, classes)?;
            GraphboltLabels::Collected(labels)
        }
        (Some(of_all), None) => GraphboltLabels::Table(of_all),
        (None, Some(labels)) => GraphboltLabels::Collected(labels),
        (None, None) => GraphboltLabels::Absent,
    };
    described.say_left_out(task, request.watch.note);
    let named_regression = task.name.as_deref().is_some_and(|name| name.contains("regression"));
    if named_regression && !regression && !matches!(labels, GraphboltLabels::Absent) {
        (request.watch.note)(
            "the task is a regression, but labels are read as classes: `regression` reads targets",
        );
    }

    let sizes = DatasetSizes {
        nodes: Some(nodes),
        edges: edges.count(),
        feature_row_bytes: columns * feature_type(features.kind(), said).0.bytes() as u64,
        label_row_bytes: labels.row_bytes()
            + 8 * (u64::from(original_ids.is_some()) + u64::from(node_ids.is_some())),
        weighted: weights.is_some(),
        edge_row_bytes,
        seconds: edges.seconds()?,
    };
    let output = DatasetOutput::begin(request, sizes, changes)?;
    let of_edges = edge_features.map(|table| output.edge_features(table, said_of_edges)).transpose()?;
    let mut lists = output.lists(nodes, weights.is_some())?;
    let ids = NodeRange::new(nodes, format!("metadata.yaml has num: {nodes}"));
    edges.push_into(&mut lists, weights, &ids, request)?;
    output.finish_lists(lists)?;
    let element = output.features(features, nodes, said)?;
    labels.write(&output, nodes, classes)?;
    output.splits(&splits)?;
    if let Some(mut ids) = original_ids {
        if ids.shape() != [nodes as usize] {
            return Err(ids.wrong_shape(format!("[{nodes}], one id for each node")));
        }
        write_array(&output.path(names::ORIGINAL_IDS), NpyType::I64, &[], &ids.all_integers()?)?;
    }
    if let Some(mut ids) = node_ids {
        if ids.shape() != [nodes as usize] {
            return Err(ids.wrong_shape(format!("[{nodes}], one id for each node")));
        }
        write_array(&output.path(names::NODE_IDS), NpyType::I64, &[], &ids.all_integers()?)?;
    }
    if let Some(from) = node_names {
        numbering::copy_names(&from, output.directory())?;
    }
    meta.name = request.name(meta.name.or(described.metadata.dataset_name));
    if !beside {
        meta.classes = classes.filter(|_| !regression);
    }
    meta.feat_dtype = Some(element.name().to_owned());
    meta.edge_feat_dtype = of_edges.map(|element| element.name().to_owned());
    output.finish(meta)
}

/// The location of the edges.
enum EdgeFile {
    Array(ArrayStream, PathBuf),
    Text(PathBuf),
}

impl EdgeFile {
    fn open(described: &Described, edges: &EdgesMetadata) -> Result<EdgeFile, GraphError> {
        let path = described.inside(&edges.path)?;
        match edges.format.as_str() {
            "csv" => Ok(EdgeFile::Text(path)),
            "numpy" => {
                let array = ArrayStream::open(&path)?;
                match *array.shape() {
                    [2, _] => Ok(EdgeFile::Array(array, path)),
                    _ => Err(array.wrong_shape("[2, edges]: sources, then destinations")),
                }
            }
            other => Err(described.wrong(format!(
                "the edges {} have the format '{}': expected csv or numpy",
                shown(edges.path.as_os_str().as_encoded_bytes()),
                shown(other)
            ))),
        }
    }

    /// Their number, if it is known.
    fn count(&self) -> Option<u64> {
        match self {
            EdgeFile::Array(array, _) => Some(array.len() / 2),
            EdgeFile::Text(_) => None,
        }
    }

    fn seconds(&self) -> Result<Option<f64>, GraphError> {
        match self {
            EdgeFile::Array(..) => Ok(None),
            EdgeFile::Text(path) => read_speed::of_text(path),
        }
    }

    fn check_features(&self, table: &ArrayStream, changes: Changes) -> Result<(), GraphError> {
        refuse_changes_of_weighted(changes, &table.place().display().to_string())?;
        let rows = table.shape().first().map(|rows| *rows as u64);
        match self.count() {
            Some(count) if rows != Some(count) => Err(table.wrong_shape(format!("[{count}, features]"))),
            _ => Ok(()),
        }
    }

    fn check_weights(&self, weights: &ArrayStream, changes: Changes) -> Result<(), GraphError> {
        refuse_changes_of_weighted(changes, &weights.place().display().to_string())?;
        let fits = match *weights.shape() {
            [rows] | [rows, 1] => self.count().is_none_or(|count| count == rows as u64),
            _ => false,
        };
        if fits { Ok(()) } else { Err(weights.wrong_shape("[edges], one weight for each")) }
    }

    fn push_into(
        self,
        lists: &mut CscBuilder,
        mut weights: Option<ArrayStream>,
        nodes: &NodeRange,
        request: &ImportRequest<'_>,
    ) -> Result<(), GraphError> {
        if let Some(weights) = weights.as_ref().filter(|weights| !fits_float32(weights.kind())) {
            (request.watch.note)(&format!(
                "{}: {} becomes float32",
                weights.place().display(),
                weights.kind()
            ));
        }
        // The weight of the next edge, from a buffer.
        let mut ready = Vec::new().into_iter();
        let mut weight = || match &mut weights {
            None => Ok(0.0),
            Some(weights) => {
                if ready.len() == 0 {
                    ready = weights.floats(CHUNK)?.into_iter();
                }
                match ready.next() {
                    Some(weight) if (weight as f32).is_finite() => Ok(weight as f32),
                    Some(weight) => {
                        Err(weights.wrong_entry(ready.len() + 1, weight, "weights have to be finite"))
                    }
                    None => Err(weights.wrong_shape("[edges], one weight for each")),
                }
            }
        };
        match self {
            EdgeFile::Text(path) => {
                let report = |position| request.watch.at("edges", position);
                edge_lines::each_edge(&path, &report, [nodes, nodes], |source, destination| {
                    lists.push(source, destination, weight()?)
                })?;
                match &weights {
                    Some(weights) if weights.position() < weights.len() || ready.len() > 0 => {
                        Err(weights.wrong_shape("[edges], one weight for each"))
                    }
                    _ => Ok(()),
                }
            }
            EdgeFile::Array(mut sources, path) => {
                let count = sources.len() / 2;
                let end = |position| end_in_rows(position, count);
                let mut destinations = ArrayStream::open(&path)?;
                destinations.skip(count)?;
                let mut left = count;
                while left > 0 {
                    let now = left.min(CHUNK as u64) as usize;
                    let (from, to) = (sources.integers(now)?, destinations.integers(now)?);
                    sources.check_ids(&from, nodes, end)?;
                    destinations.check_ids(&to, nodes, end)?;
                    for (source, destination) in from.into_iter().zip(to) {
                        lists.push(source as u64, destination as u64, weight()?)?;
                    }
                    left -= now as u64;
                    let done = count - left;
                    (request.watch.progress)(Progress { stage: "edges", done, total: count });
                }
                Ok(())
            }
        }
    }
}

/// The seeds of the three sets, and the labels that come with them. Targets of regression are not read here.
fn splits(
    described: &Described,
    task: &metadata::TaskMetadata,
    nodes: u64,
    classes: Option<u64>,
    regression: bool,
) -> Result<([Vec<i64>; 3], Option<Collected>), GraphError> {
    let mut splits = [Vec::new(), Vec::new(), Vec::new()];
    let mut labels: Option<Collected> = None;
    for (split, set) in splits.iter_mut().zip(described.sets(task)?) {
        let Some((mut seeds, set_labels)) = set else { continue };
        *split = seed_ids(&mut seeds, nodes)?;
        let Some(of_set) = set_labels.filter(|_| !regression) else { continue };
        let columns = of_set.shape().get(1).copied().unwrap_or(1);
        labels.get_or_insert_with(|| Collected::new(nodes, columns)).add(of_set, Some(split), classes)?;
    }
    Ok((splits, labels))
}
