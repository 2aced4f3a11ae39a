//! A directory of `.npy` files with `"version": 2` in `meta.json`: a dataset of format 2, or the same with edges as
//! `edge_index`, or `src` and `dst`, in the directories of relations.
//!
//! Arrays of nodes have the names and types of a directory of one type, each optional. Other arrays with a row for each
//! node or edge are kept.

use std::fs::File;
use std::io;
use std::path::Path;

use uva_graph::npy::{NpyArray, NpyType, NpyWriter, write_array};
use uva_graph::typed_meta::{EdgeRowOf, EntryOrder, NodeTypeMeta, RelationMeta};
use uva_graph::{ElementType, GraphError, Meta, NodeType, Relation, Split, names};
use uva_mem::files::open_regular;

use super::edges::{EdgeEnds, Edges};
use super::elements::{integers, types_of};
use super::source::{FeatureArray, ImportedLabels, SourceArrays};
use crate::import::options::Float8;
use crate::import::reading::features::{FeatureSource, FeatureWriter};
use crate::import::reading::nodes::NodeRange;
use crate::import::reading::unread_parts;
use crate::import::reading::values;
use crate::import::request::{ImportRequest, ImportWatch};
use crate::import::writing::output::CHUNK;
use crate::import::writing::typed_output::{self, RelationSizes, TypedSizes};
use crate::typed::{EdgeColumn, EdgeColumns, GraphPlan, RelationPlan, Reversal, TypedWriter};

/// The names of labels.
const LABELS: [&str; 4] = ["label", "labels", "y", "node_label"];

/// The names of features of nodes.
const FEATURES: [&str; 4] = ["feat", "x", "features", "node_feat"];

/// A file of edge features while their rows are moved.
const UNORDERED: &str = "feat.temporary";

/// Imports the source, whose metadata is `meta`.
pub(super) fn import(request: &ImportRequest<'_>, mut meta: Meta) -> Result<(), GraphError> {
    let Some(mut typed) = meta.typed.take() else { return Ok(()) };
    typed_output::refuse_changes(request.options)?;
    let mut sizes = TypedSizes::default();
    let mut types = Vec::with_capacity(typed.nodes.len());
    for entry in &mut typed.nodes {
        let arrays = NodeArrays::open(request, entry)?;
        arrays.describe(entry, request.options.float8);
        sizes.nodes += entry.num;
        sizes.node_bytes += arrays.bytes();
        types.push(arrays);
    }
    let mut relations = Vec::with_capacity(typed.edges.len());
    for entry in &mut typed.edges {
        let arrays = EdgeArrays::open(request, entry, &typed.nodes)?;
        sizes.relations.push(arrays.sizes());
        entry.feat_dtype = arrays.features.as_ref().map(|features| features.element.name().to_owned());
        relations.push(arrays);
    }
    let target = typed.target.clone();
    let plan = GraphPlan {
        nodes: typed.nodes,
        relations: typed
            .edges
            .into_iter()
            .map(|meta| RelationPlan { meta, reversal: Reversal::None })
            .collect(),
        target: typed.target,
    };
    let mut writer = typed_output::begin(request, plan, &sizes)?;
    for (number, arrays) in (0..).zip(relations) {
        arrays.write(request, &mut writer, Relation(number))?;
    }
    let metagraph = writer.metagraph();
    let target = match target {
        Some(name) => metagraph.find_type(&name).ok(),
        None => (metagraph.type_count() == 1).then_some(NodeType::ONLY),
    };
    if request.options.split.is_some() && target.is_none() {
        return Err(GraphError::usage("split", "requires \"target\" in meta.json, the type that is split"));
    }
    for (number, arrays) in (0..).zip(types) {
        arrays.write(request, &writer, NodeType(number), target == Some(NodeType(number)), &mut meta)?;
    }
    typed_output::finish(request, writer, meta)
}

/// A source in a directory of its own, with keys of its entry in `meta.json`.
fn source(directory: std::path::PathBuf, feat_dtype: Option<&String>, classes: Option<u64>) -> SourceArrays {
    let feat_dtype = feat_dtype.cloned();
    let meta = Meta { edge_feat_dtype: feat_dtype.clone(), feat_dtype, classes, ..Meta::default() };
    SourceArrays { directory, meta, read: std::cell::RefCell::default() }
}

/// The arrays with `rows` rows that no other code reads, to be kept; a line about each other one.
fn others(
    source: &SourceArrays,
    rows: usize,
    watch: &ImportWatch<'_>,
) -> Result<Vec<(String, NpyArray)>, GraphError> {
    if !source.directory.is_dir() {
        return Ok(Vec::new());
    }
    let is_read = |name: &str| source.read.borrow().contains(name);
    let (mut kept, mut left) = (Vec::new(), Vec::new());
    for name in unread_parts::files(&source.directory, ".npy", is_read)? {
        let array = NpyArray::open(&source.directory.join(&name))?;
        match array.shape() {
            [count] | [count, _] if *count == rows && array.shape().get(1) != Some(&0) => {
                kept.push((name, array))
            }
            _ => left.push(name),
        }
    }
    unread_parts::say(watch.note, &source.directory, &left);
    Ok(kept)
}

/// The integers of an optional array [`rows`].
fn optional_integers(source: &SourceArrays, name: &str, rows: usize) -> Result<Option<Vec<i64>>, GraphError> {
    let stem = name.trim_end_matches(".npy");
    let Some(array) = source.optional(&[stem])? else { return Ok(None) };
    match array.shape() {
        [found] if *found == rows => integers(&array).map(Some),
        _ => Err(array.wrong_shape(format!("[{rows}]"))),
    }
}

/// Writes features at `path`, and reports their conversion.
fn write_features(
    features: &FeatureArray,
    path: &Path,
    float8: Option<Float8>,
    watch: &ImportWatch<'_>,
) -> Result<(), GraphError> {
    let FeatureArray { array, element } = features;
    let source = FeatureSource {
        place: array.path().to_owned(),
        data_offset: Some(array.header().data_offset as u64),
    };
    let kind = array.kind();
    let mut writer = FeatureWriter::create(path, source, (kind, Some(*element)), features.columns(), float8)?;
    if let Some(line) = writer.conversion() {
        (watch.note)(&line);
    }
    for chunk in array.bytes().chunks(CHUNK * kind.bytes()) {
        writer.write(chunk)?;
    }
    if let Some(line) = writer.finish()?.1 {
        (watch.note)(&line);
    }
    Ok(())
}

/// The arrays of a node type.
struct NodeArrays {
    nodes: usize,
    source: SourceArrays,
    features: Option<FeatureArray>,
    labels: ImportedLabels,
    splits: [Option<Vec<i64>>; 3],
    /// Arrays of int64, by the name of their file.
    integers: Vec<(&'static str, Vec<i64>)>,
    others: Vec<(String, NpyArray)>,
}

impl NodeArrays {
    fn open(request: &ImportRequest<'_>, entry: &NodeTypeMeta) -> Result<Self, GraphError> {
        let directory = request.source.join(names::NODE_TYPES).join(&entry.name);
        let source = source(directory, entry.feat_dtype.as_ref(), entry.classes);
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
        let labels = match source.optional(&LABELS)? {
            Some(_) => source.labels(nodes, request.options.regression, request.watch)?,
            None => ImportedLabels::Absent,
        };
        let splits = [
            source.split(nodes, &["train_idx"], &["train_mask"])?,
            source.split(nodes, &["valid_idx", "val_idx"], &["valid_mask", "val_mask"])?,
            source.split(nodes, &["test_idx"], &["test_mask"])?,
        ];
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
        let others = others(&source, nodes, request.watch)?;
        Ok(Self { nodes, source, features, labels, splits, integers, others })
    }

    /// Sets the keys of the type's entry in `meta.json` that follow from its arrays.
    fn describe(&self, entry: &mut NodeTypeMeta, float8: Option<Float8>) {
        entry.feat_dtype = self.features.as_ref().map(|features| {
            let element = if float8.is_some() { ElementType::E4m3 } else { features.element };
            element.name().to_owned()
        });
        if matches!(self.labels, ImportedLabels::Regression { .. }) {
            entry.classes = None;
        }
    }

    fn bytes(&self) -> u64 {
        let rows = self.features.as_ref().map_or(0, FeatureArray::row_bytes) + self.labels.row_bytes();
        let others: usize = self.others.iter().map(|(_, array)| array.bytes().len()).sum();
        self.nodes as u64 * (rows + 8 * self.integers.len() as u64) + others as u64
    }

    fn write(
        self,
        request: &ImportRequest<'_>,
        writer: &TypedWriter,
        node_type: NodeType,
        is_target: bool,
        meta: &mut Meta,
    ) -> Result<(), GraphError> {
        let file = |name: &str| writer.node_file(node_type, name);
        if let Some(features) = &self.features {
            write_features(features, &file(names::FEATURES), request.options.float8, request.watch)?;
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
        let from = self.source.directory.join(names::NODE_NAMES);
        if from.is_file() {
            let mut source = open_regular(&from).map_err(GraphError::io(&from, "open"))?;
            let to = file(names::NODE_NAMES);
            let mut copy = File::create_new(&to).map_err(GraphError::io(&to, "create"))?;
            io::copy(&mut source, &mut copy).map_err(GraphError::io(&from, "copy"))?;
        }
        Ok(())
    }
}

/// The arrays of a relation.
struct EdgeArrays {
    edges: Edges,
    /// The nodes at both ends, and the name of the destination's type.
    ends: [NodeRange; 2],
    owner: String,
    features: Option<FeatureArray>,
    /// Whether the rows of the features are those of `edge_id.npy`.
    by_id: bool,
    weights: Option<NpyArray>,
    types: Option<NpyArray>,
    times: Option<Vec<i64>>,
    is_ordered: bool,
    edge_ids: Option<Vec<i64>>,
    others: Vec<(String, NpyArray)>,
}

impl EdgeArrays {
    fn open(
        request: &ImportRequest<'_>,
        entry: &RelationMeta,
        types: &[NodeTypeMeta],
    ) -> Result<Self, GraphError> {
        let full_name = entry.names.join("__");
        let directory = request.source.join(names::RELATIONS).join(&full_name);
        let source = source(directory, entry.feat_dtype.as_ref(), None);
        let range = |name: &str| {
            let num = types.iter().find(|entry| entry.name == name).map_or(0, |entry| entry.num);
            NodeRange::new(num, format!("meta.json has {num} of {name}"))
        };
        let [from, _, owner] = &entry.names;
        let ends = [range(from), range(owner)];
        let counted = format!("there are nodes of {owner}");
        let edges = source.edges(usize::try_from(ends[1].count).unwrap_or(usize::MAX), &counted)?;
        let count = edges.count();
        let unchanged = uva_graph::csc::Changes::NONE;
        let weights = source.weights(count, unchanged)?;
        let types = source.edge_types(Some(count), unchanged)?;
        let by_id = entry.feat_rows == Some(EdgeRowOf::EdgeId);
        let features = source.edge_features_of(
            &["feat", "edge_feat", "edge_attr", "edge_features"],
            (!by_id).then_some(count),
        )?;
        let times = optional_integers(&source, names::TIMES, count)?;
        let edge_ids = optional_integers(&source, names::EDGE_IDS, count)?;
        let others = others(&source, count, request.watch)?;
        let is_ordered = entry.order == Some(EntryOrder::Time);
        let owner = owner.clone();
        Ok(Self { edges, ends, owner, features, by_id, weights, types, times, is_ordered, edge_ids, others })
    }

    fn sizes(&self) -> RelationSizes {
        let features = self.features.as_ref().map_or(0, FeatureArray::row_bytes);
        let present = |is_present: bool, bytes: u64| if is_present { bytes } else { 0 };
        let others: usize =
            self.others.iter().map(|(_, array)| array.bytes().len() / self.edges.count().max(1)).sum();
        RelationSizes {
            lists: self.ends[1].count,
            entries: self.edges.count() as u64,
            row_bytes: features
                + present(self.weights.is_some(), 4)
                + present(self.types.is_some(), 2)
                + present(self.times.is_some(), 8)
                + present(self.edge_ids.is_some(), 8)
                + others as u64,
            temporary_row_bytes: present(!self.by_id, features),
        }
    }

    fn write(
        self,
        request: &ImportRequest<'_>,
        writer: &mut TypedWriter,
        relation: Relation,
    ) -> Result<(), GraphError> {
        let file = |name: &str| writer.relation_file(relation, name);
        // Rows found by an id keep their places.
        let unordered = file(if self.by_id { names::FEATURES } else { UNORDERED });
        if let Some(features) = &self.features {
            write_features(features, &unordered, None, request.watch)?;
        }
        let rows = match &self.features {
            Some(_) if !self.by_id => Some(NpyArray::open(&unordered)?),
            _ => None,
        };
        let types =
            self.types.as_ref().map(|types| types_of(types, 0, types.header().elements())).transpose()?;
        let mut columns = Vec::new();
        if let Some(weights) = &self.weights {
            if weights.kind() == NpyType::F64 {
                (request.watch.note)(&format!("{}: float64 becomes float32", weights.path().display()));
            }
            columns.push(weight_column(weights));
        }
        let of_integers = |name: &'static str, values| {
            EdgeColumn::of_bytes(name, NpyType::I64, &[], bytemuck::cast_slice::<i64, u8>(values))
        };
        columns.extend(types.as_ref().map(|types| {
            EdgeColumn::of_bytes(names::EDGE_TYPES, NpyType::U16, &[], bytemuck::cast_slice(types))
        }));
        columns.extend(self.edge_ids.as_ref().map(|ids| of_integers(names::EDGE_IDS, ids)));
        columns.extend(self.others.iter().map(|(name, array)| EdgeColumn::of_array(name.as_str(), array)));
        let times = self.times.as_ref().map(|times| of_integers(names::TIMES, times));
        let (times, unsorted) = if self.is_ordered { (times, None) } else { (None, times) };
        columns.extend(unsorted);
        let features = rows.as_ref().map(|rows| EdgeColumn::of_array(names::FEATURES, rows));
        let values = EdgeColumns { columns, features, times, edge_ids: false };
        let [sources, destinations] = self.ends.clone();
        let ends = EdgeEnds { sources, destinations, owner: &self.owner };
        let progress = request.watch.progress;
        writer.relation(relation, &values, progress, &mut |lists| {
            self.edges.push_into(lists, self.weights.as_ref(), &ends, progress)
        })?;
        if rows.is_some() {
            std::fs::remove_file(&unordered).map_err(GraphError::io(&unordered, "remove"))?;
        }
        Ok(())
    }
}

/// Weights, narrowed to float32 if they are wider. They are checked as edges are pushed.
fn weight_column(weights: &NpyArray) -> EdgeColumn<'_> {
    if weights.kind() == NpyType::F32 {
        return EdgeColumn::of_array(names::WEIGHTS, weights);
    }
    let bytes = weights.kind().bytes();
    EdgeColumn::new(names::WEIGHTS, NpyType::F32, &[], weights.shape()[0] as u64, move |number, row| {
        let at = number as usize * bytes;
        let values = values::floats(weights.kind(), &weights.bytes()[at..at + bytes]);
        values.iter().for_each(|&value| row.extend_from_slice(&(value as f32).to_le_bytes()));
        Ok(())
    })
}
