//! A directory of `.npy` files, in this program's layout or in that of another library.
//!
//! | what | names, the first found is taken | shape and types |
//! |---|---|---|
//! | graph | `indptr` and `indices` | CSC: `[N + 1]` and `[E]`, any integer type |
//! | | `edge_index` | `[2, E]` (PyG, OGB): sources, then destinations; `[E, 2]` too, unless E is 2 |
//! | | `src` and `dst` | `[E]` each |
//! | features | `feat`, `x`, `features`, `node_feat` | `[N, F]`; float32, float16, uint8 and int8 stay, other numbers become float32, bool uint8, uint16 stays where meta.json says bf16, uint8 is float8 where it says e4m3 |
//! | labels | `label`, `labels`, `y`, `node_label` | optional: `[N]` or `[N, 1]`, integers, or floats that are whole or NaN (none); `[N, C]` of zeros and ones; other floats, or any numbers with `--regression`: `[N]` or `[N, K]` targets, float32 and finite |
//! | splits | `train_idx`, `valid_idx` or `val_idx`, `test_idx` | node ids, any integer type, order kept |
//! | | `train_mask`, `valid_mask` or `val_mask`, `test_mask` | `[N]` of bool or uint8 |
//! | weights | `weight`, `edge_weight` | `[E]`, float32 or float64; only if the edges are unchanged |
//! | edge features | `edge_feat`, `edge_attr`, `edge_features` | `[E, K]` or `[E]`, types as of features; only if the edges are unchanged |
//! | edge types | `edge_type` | `[E]`, any integer type, 0 to 65535; only if the edges are unchanged |
//! | original ids | `orig_id` | `[N]`, any integer type |
//! | ids of the source | `node_id` | `[N]`, any integer type; `node_names.txt` has names in their place, a line each |
//! | `meta.json` | | kept |

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use uva_graph::csc::{Changes, CscBuilder};
use uva_graph::npy::{NpyArray, NpyType, write_array};
use uva_graph::{ElementType, GraphError, Meta, feature_element, label_columns, names, verify};

use crate::import::importer::{Importer, SourceKind};
use crate::import::options::{Extra, refuse_changes_of_weighted};
use crate::import::reading::features::{FeatureSource, feature_type};
use crate::import::reading::nodes::{NodeRange, end_in_pairs, end_in_rows};
use crate::import::reading::unread_parts;
use crate::import::reading::values;
use crate::import::request::{ImportRequest, ImportWatch};
use crate::import::writing::numbering;
use crate::import::writing::output::{
    CHUNK, DatasetOutput, DatasetSizes, FeaturesOf, MarkedRows, narrowed_targets, no_labels,
};

#[derive(Debug, thiserror::Error)]
enum ImportProblem {
    #[error("entry {position} is {value}, too large for a signed 64-bit integer")]
    TooLarge { position: usize, value: u64 },
    #[error("the label of node {node} is {value}, neither a class nor NaN")]
    NoClass { node: usize, value: f64 },
    #[error(
        "the target of node {node}, column {column}, is {value}, and targets of regression have to be finite float32: \
         give a node without one any number, and leave it out of the splits"
    )]
    NoTarget { node: usize, column: usize, value: f64 },
    #[error("entry {position} at offset {at}, {end}, is {value}, {nodes}")]
    Id { position: usize, at: usize, end: String, value: i64, nodes: NodeRange },
    #[error("it names {found} nodes, the features have {nodes} rows")]
    Names { found: u64, nodes: u64 },
    #[error("the type of edge {position} is {value}, it has to be 0 to 65535")]
    NoType { position: usize, value: i64 },
    #[error("entry {position} is {value}, neither 0 nor 1")]
    NoMark { position: usize, value: f64 },
}

/// The row in the table.
pub(crate) const IMPORTER: Importer = Importer {
    name: "npy",
    help: "A directory of .npy files",
    source: SourceKind::Directory(
        "a directory of .npy files: indptr and indices, edge_index, or src and dst; feat; train_idx, valid_idx, \
         test_idx",
    ),
    takes: &[Extra::Regression],
    import,
};

/// Imports the `.npy` files in a directory; the module's table lists the names. Edges are unchanged by default.
fn import(request: &ImportRequest<'_>) -> Result<(), GraphError> {
    let changes = request.options.changes(Changes::NONE);
    let arrays = NpyArrays::open(request.source, request)?;
    let nodes = arrays.nodes();
    let ids = arrays.ids();
    let edges = arrays.source.edges(nodes)?;
    let weights = arrays.source.weights(edges.count(), changes)?;
    let edge_rows = arrays.source.edge_rows(Some(edges.count()), changes)?;

    let mut sizes = arrays.sizes();
    sizes.edges = Some(edges.count() as u64);
    sizes.weighted = weights.is_some();
    sizes.edge_row_bytes = edge_rows.as_ref().map_or(0, NpyEdgeRows::row_bytes);
    arrays.say_left_out(request.watch, &[])?;
    let output = DatasetOutput::begin(request, sizes, changes)?;
    let of_edges = edge_rows.map(|rows| rows.write(&output)).transpose()?.flatten();
    let mut lists = output.lists(nodes as u64, weights.is_some())?;
    edges.push_into(&mut lists, weights.as_ref(), &ids, &output)?;
    if let Some(weights) = weights.filter(|weights| weights.kind() == NpyType::F64) {
        (request.watch.note)(&format!("{}: float64 becomes float32", weights.path().display()));
    }
    output.finish_lists(lists)?;
    let mut meta = arrays.write(&output)?;
    meta.name = request.name(meta.name);
    meta.edge_feat_dtype = of_edges.map(|element| element.name().to_owned());
    output.finish(meta)
}

/// All arrays except the edges, found and checked.
pub(crate) struct NpyArrays {
    source: Source,
    features: Features,
    labels: ImportedLabels,
    splits: [Vec<i64>; 3],
    original_ids: Option<Vec<i64>>,
    node_ids: Option<Vec<i64>>,
    /// The file with the nodes' names, a line each.
    node_names: Option<PathBuf>,
}

impl NpyArrays {
    /// Opens the arrays in `directory` and checks them against each other.
    pub(crate) fn open(directory: &Path, request: &ImportRequest<'_>) -> Result<NpyArrays, GraphError> {
        let source = Source::new(directory)?;
        let features = source.features()?;
        let nodes = features.array.shape()[0];
        let labels = source.labels(nodes, request.options.regression, request.watch)?;
        let splits = source.splits(nodes, request.options.split.is_some())?;
        let original_ids =
            source.optional(&["orig_id"])?.map(|array| source.ids_of_nodes(&array, nodes)).transpose()?;
        let node_ids = source.optional(&["node_id"])?.map(|array| {
            if array.shape() != [nodes] {
                return Err(array.wrong_shape(format!("[{nodes}], one id for each row of the features")));
            }
            integers(&array)
        });
        let node_ids = node_ids.transpose()?;
        let node_names = names_of_nodes(directory, nodes as u64)?;
        Ok(NpyArrays { source, features, labels, splits, original_ids, node_ids, node_names })
    }

    /// Reports the unread arrays. `elsewhere` lists those that are read by other means.
    pub(crate) fn say_left_out(&self, watch: &ImportWatch<'_>, elsewhere: &[&str]) -> Result<(), GraphError> {
        let read = self.source.read.borrow();
        let is_read = |name: &str| read.contains(name) || elsewhere.contains(&name);
        let left = unread_parts::files(&self.source.directory, ".npy", is_read)?;
        unread_parts::say(watch.note, &self.source.directory, &left);
        Ok(())
    }

    /// Whether the nodes have ids or names of their own, which [`NpyArrays::write`] keeps.
    pub(crate) fn have_ids(&self) -> bool {
        self.node_ids.is_some() || self.node_names.is_some()
    }

    /// The number of nodes: the features have a row for each.
    pub(crate) fn nodes(&self) -> usize {
        self.features.array.shape()[0]
    }

    /// The ids that edges may name.
    fn ids(&self) -> NodeRange {
        let (nodes, path) = (self.nodes() as u64, self.features.array.path());
        let name = path.file_name().unwrap_or_default().display();
        NodeRange::new(nodes, format!("{name} has {nodes} rows"))
    }

    /// The known sizes of the output.
    pub(crate) fn sizes(&self) -> DatasetSizes {
        let label_row_bytes = match &self.labels {
            ImportedLabels::Single(_) => 8,
            ImportedLabels::Multi { classes, .. } => *classes as u64,
            ImportedLabels::Regression { columns, .. } => 4 * columns.unwrap_or(1) as u64,
            ImportedLabels::Absent => 0,
        };
        DatasetSizes {
            nodes: Some(self.nodes() as u64),
            feature_row_bytes: self.features.row_bytes(),
            label_row_bytes: label_row_bytes + if self.original_ids.is_some() { 8 } else { 0 },
            ..DatasetSizes::default()
        }
    }

    /// The external ids of nodes, as an earlier import kept them.
    pub(crate) fn node_ids(&self) -> Option<&[i64]> {
        self.node_ids.as_deref()
    }

    /// Writes the arrays, and returns the content of `meta.json`.
    pub(crate) fn write(self, output: &DatasetOutput<'_>) -> Result<Meta, GraphError> {
        self.features.write(FeaturesOf::Nodes, output)?;
        self.labels.write(&output.path(names::LABELS))?;
        output.splits(&self.splits)?;
        if let Some(ids) = self.original_ids {
            write_array(&output.path(names::ORIGINAL_IDS), NpyType::I64, &[], &ids)?;
        }
        if let Some(ids) = self.node_ids {
            write_array(&output.path(names::NODE_IDS), NpyType::I64, &[], &ids)?;
        }
        if let Some(from) = self.node_names {
            numbering::copy_names(&from, output)?;
        }
        let mut meta = self.source.meta;
        // The result is an independent dataset, whose lists are those of the source.
        meta.part = None;
        if matches!(self.labels, ImportedLabels::Regression { .. }) {
            // Numbers are not classes.
            if meta.classes.take().is_some() | meta.class_names.take().is_some() {
                output.note(
                    "'classes' and 'class_names' of meta.json are dropped: targets of regression have none",
                );
            }
        }
        meta.feat_dtype = Some(self.features.element.name().to_owned());
        Ok(meta)
    }
}

/// The source directory.
struct Source {
    directory: PathBuf,
    meta: Meta,
    /// Names of the files that were opened.
    read: RefCell<BTreeSet<String>>,
}

impl Source {
    fn new(directory: &Path) -> Result<Source, GraphError> {
        let meta = Meta::read(directory)?;
        meta.check_format_1(directory)?;
        Ok(Source { directory: directory.to_owned(), meta, read: RefCell::default() })
    }

    fn optional(&self, names: &[&str]) -> Result<Option<NpyArray>, GraphError> {
        for name in names {
            let path = self.directory.join(format!("{name}.npy"));
            match NpyArray::open(&path) {
                Err(GraphError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
                found => {
                    self.read.borrow_mut().insert(format!("{name}.npy"));
                    return found.map(Some);
                }
            }
        }
        Ok(None)
    }

    fn required(&self, what: &str, names: &[&str]) -> Result<NpyArray, GraphError> {
        self.optional(names)?.ok_or_else(|| self.missing(what, names))
    }

    fn missing(&self, what: &str, names: &[&str]) -> GraphError {
        let names: Vec<String> = names.iter().map(|name| format!("{name}.npy")).collect();
        let message = format!("{} has no {what}: none of {}", self.directory.display(), names.join(", "));
        GraphError::usage("SRC", message)
    }

    fn features(&self) -> Result<Features, GraphError> {
        let array = self.required("features", &["feat", "x", "features", "node_feat"])?;
        if array.shape().len() != 2 || array.shape()[1] == 0 {
            return Err(array.wrong_shape("[nodes, features]"));
        }
        let said = self.meta.feat_dtype.as_deref().and_then(ElementType::from_name);
        let element = match array.kind() {
            // The claims of meta.json about these must be true.
            NpyType::F32 | NpyType::F16 | NpyType::I8 | NpyType::U8 => {
                feature_element(&self.directory, &self.meta, &array)?
            }
            kind => feature_type(kind, said).0,
        };
        Ok(Features { array, element })
    }

    /// The labels; a note if there are none. Floats that are not classes are targets of regression, and so are all
    /// labels with `regression`.
    fn labels(
        &self,
        nodes: usize,
        regression: bool,
        watch: &ImportWatch<'_>,
    ) -> Result<ImportedLabels, GraphError> {
        let Some(array) = self.optional(&["label", "labels", "y", "node_label"])? else {
            let names = ["label.npy", "labels.npy", "y.npy", "node_label.npy"];
            (watch.note)(&no_labels(&self.directory, &names));
            return Ok(ImportedLabels::Absent);
        };
        let columns = label_columns(&array, nodes)?;
        if regression || are_targets(&array) {
            let values = floats(&array);
            let width = columns.unwrap_or(1);
            if let Some(at) = values.iter().position(|&value| !(value as f32).is_finite()) {
                let (node, column, value) = (at / width, at % width, values[at]);
                return Err(GraphError::invalid(
                    array.path(),
                    ImportProblem::NoTarget { node, column, value },
                ));
            }
            if !regression {
                (watch.note)(&format!(
                    "{}: floats that are not whole are targets of regression",
                    array.path().display()
                ));
            }
            if let Some(line) = narrowed_targets(array.path(), array.kind()) {
                (watch.note)(&line);
            }
            let values = values.into_iter().map(|value| value as f32).collect();
            return Ok(ImportedLabels::Regression { columns, values });
        }
        match columns {
            None | Some(1) => {
                let labels = match array.kind() {
                    NpyType::F16 | NpyType::F32 | NpyType::F64 => {
                        let as_class = |(node, value): (usize, f64)| {
                            values::class(value).ok_or_else(|| {
                                GraphError::invalid(array.path(), ImportProblem::NoClass { node, value })
                            })
                        };
                        floats(&array).into_iter().enumerate().map(as_class).collect::<Result<_, _>>()?
                    }
                    _ => integers(&array)?,
                };
                verify::class_labels(&array, &labels, self.meta.classes)?;
                Ok(ImportedLabels::Single(labels))
            }
            Some(classes) => {
                let marks = marks(&array)?;
                let mut rows = MarkedRows::new(classes);
                rows.see(&marks);
                rows.say_one_hot(watch.note, array.path());
                Ok(ImportedLabels::Multi { classes, marks })
            }
        }
    }

    /// With `by_rule`, the splits are optional, since a rule replaces them.
    fn splits(&self, nodes: usize, by_rule: bool) -> Result<[Vec<i64>; 3], GraphError> {
        let split = |ids: &[&str], masks: &[&str]| match self.split(nodes, ids, masks)? {
            None if !by_rule => Err(self.missing("split", &[ids, masks].concat())),
            found => Ok(found.unwrap_or_default()),
        };
        Ok([
            split(&["train_idx"], &["train_mask"])?,
            split(&["valid_idx", "val_idx"], &["valid_mask", "val_mask"])?,
            split(&["test_idx"], &["test_mask"])?,
        ])
    }

    fn split(&self, nodes: usize, ids: &[&str], masks: &[&str]) -> Result<Option<Vec<i64>>, GraphError> {
        if let Some(array) = self.optional(ids)? {
            if array.shape().len() != 1 {
                return Err(array.wrong_shape("one-dimensional"));
            }
            let ids = integers(&array)?;
            verify::split_ids(&array, &ids, nodes)?;
            return Ok(Some(ids));
        }
        match self.optional(masks)? {
            Some(mask) if mask.shape() == [nodes] => {
                let marks = marks(&mask)?;
                Ok(Some((0..).zip(marks).filter(|(_, mark)| *mark == 1).map(|(node, _)| node).collect()))
            }
            Some(mask) => Err(mask.wrong_shape(format!("[{nodes}], one mark for each row of the features"))),
            None => Ok(None),
        }
    }

    fn ids_of_nodes(&self, array: &NpyArray, nodes: usize) -> Result<Vec<i64>, GraphError> {
        if array.shape() != [nodes] {
            return Err(array.wrong_shape(format!("[{nodes}], one id for each row of the features")));
        }
        let ids = integers(array)?;
        verify::original_ids(array, &ids)?;
        Ok(ids)
    }

    fn weights(&self, edges: usize, changes: Changes) -> Result<Option<NpyArray>, GraphError> {
        let Some(weights) = self.optional(&["weight", "edge_weight"])? else { return Ok(None) };
        refuse_changes_of_weighted(changes, &weights.path().display().to_string())?;
        if weights.shape() != [edges] {
            return Err(weights.wrong_shape(format!("[{edges}], one weight for each edge")));
        }
        if !matches!(weights.kind(), NpyType::F32 | NpyType::F64) {
            return Err(weights.wrong_type("float32 or float64"));
        }
        Ok(Some(weights))
    }

    /// Edge features. If the number of `edges` is unknown, [`DatasetOutput::finish_lists`] compares it.
    fn edge_rows(&self, edges: Option<usize>, changes: Changes) -> Result<Option<NpyEdgeRows>, GraphError> {
        let (features, types) = (self.edge_features(edges, changes)?, self.edge_types(edges, changes)?);
        Ok((features.is_some() || types.is_some()).then_some(NpyEdgeRows { features, types }))
    }

    fn edge_types(&self, edges: Option<usize>, changes: Changes) -> Result<Option<NpyArray>, GraphError> {
        let Some(array) = self.optional(&["edge_type"])? else { return Ok(None) };
        refuse_changes_of_weighted(changes, &array.path().display().to_string())?;
        match *array.shape() {
            [found] if edges.is_none_or(|edges| edges == found) => Ok(Some(array)),
            _ => {
                let edges = edges.map_or("edges".to_owned(), |edges| edges.to_string());
                Err(array.wrong_shape(format!("[{edges}], one type for each edge")))
            }
        }
    }

    fn edge_features(&self, edges: Option<usize>, changes: Changes) -> Result<Option<Features>, GraphError> {
        let Some(array) = self.optional(&["edge_feat", "edge_attr", "edge_features"])? else {
            return Ok(None);
        };
        refuse_changes_of_weighted(changes, &array.path().display().to_string())?;
        let (rows, columns) = match *array.shape() {
            [rows] => (Some(rows), 1),
            [rows, columns] => (Some(rows), columns),
            _ => (None, 0),
        };
        if columns == 0 || edges.is_some_and(|edges| rows != Some(edges)) {
            let edges = edges.map_or("edges".to_owned(), |edges| edges.to_string());
            return Err(array.wrong_shape(format!("[{edges}, features], one row for each edge")));
        }
        let said = self.meta.edge_feat_dtype.as_deref().and_then(ElementType::from_name);
        let element = feature_type(array.kind(), said).0;
        Ok(Some(Features { array, element }))
    }

    fn edges(&self, nodes: usize) -> Result<Edges, GraphError> {
        let vector = |array: NpyArray| {
            if array.shape().len() == 1 { Ok(array) } else { Err(array.wrong_shape("one-dimensional")) }
        };
        if let Some(indptr) = self.optional(&["indptr"])? {
            let indptr = vector(indptr)?;
            let indices = vector(self.required("neighbours", &["indices"])?)?;
            if nodes.checked_add(1) != Some(indptr.shape()[0]) {
                return Err(
                    indptr.wrong_shape(format!("[{nodes} + 1], one entry more than the features have rows"))
                );
            }
            let ends = integers(&indptr)?;
            verify::indptr(&indptr, &ends, indices.shape()[0])?;
            return Ok(Edges::Lists { ends, indices });
        }
        if let Some(array) = self.optional(&["edge_index"])? {
            return match *array.shape() {
                [2, _] => Ok(Edges::Rows(array)),
                [_, 2] => Ok(Edges::Pairs(array)),
                _ => Err(array.wrong_shape("[2, edges]: sources, then destinations")),
            };
        }
        let graph = "graph";
        let names = ["indptr", "edge_index", "src"];
        let sources = vector(self.required(graph, &names[2..]).map_err(|error| match error {
            GraphError::Usage { .. } => self.missing(graph, &names),
            error => error,
        })?)?;
        let destinations = vector(self.required("destinations", &["dst"])?)?;
        if destinations.shape() != sources.shape() {
            let edges = sources.shape()[0];
            return Err(destinations.wrong_shape(format!("[{edges}], as long as src.npy")));
        }
        Ok(Edges::Two { sources, destinations })
    }
}

/// Edges as they are in the source.
enum Edges {
    Lists {
        ends: Vec<i64>,
        indices: NpyArray,
    },
    /// [2, edges]
    Rows(NpyArray),
    /// [edges, 2]
    Pairs(NpyArray),
    Two {
        sources: NpyArray,
        destinations: NpyArray,
    },
}

impl Edges {
    fn count(&self) -> usize {
        match self {
            Edges::Lists { indices, .. } => indices.shape()[0],
            Edges::Rows(array) => array.shape()[1],
            Edges::Pairs(array) => array.shape()[0],
            Edges::Two { sources, .. } => sources.shape()[0],
        }
    }

    /// Passes all edges to `lists`, a piece at a time, each checked before.
    fn push_into(
        &self,
        lists: &mut CscBuilder,
        weights: Option<&NpyArray>,
        nodes: &NodeRange,
        output: &DatasetOutput<'_>,
    ) -> Result<(), GraphError> {
        let count = self.count();
        // The node whose list the edges have reached, if they are already lists.
        let mut node = 0;
        for first in (0..count).step_by(CHUNK) {
            let last = (first + CHUNK).min(count);
            let ids = |array: &NpyArray, first: usize, last: usize, end: &dyn Fn(u64) -> String| {
                let values = integers_of(array, first, last)?;
                match values.iter().position(|&id| !nodes.has(id)) {
                    None => Ok(values),
                    Some(wrong) => {
                        let (position, value) = (first + wrong, values[wrong]);
                        let at = array.header().data_offset + position * array.kind().bytes();
                        let (end, nodes) = (end(position as u64), nodes.clone());
                        let problem = ImportProblem::Id { position, at, end, value, nodes };
                        Err(GraphError::invalid(array.path(), problem))
                    }
                }
            };
            let in_rows = |position| end_in_rows(position, count as u64);
            let (sources, destinations) = match self {
                Edges::Lists { ends, indices } => {
                    let in_list = |position: u64| {
                        let lists = ends.partition_point(|&end| end <= position as i64);
                        format!("a neighbour of node {}", lists.saturating_sub(1))
                    };
                    let sources = ids(indices, first, last, &in_list)?;
                    let destinations = (first..last).map(|edge| {
                        while ends[node + 1] <= edge as i64 {
                            node += 1;
                        }
                        node as i64
                    });
                    (sources, destinations.collect())
                }
                Edges::Rows(array) => {
                    (ids(array, first, last, &in_rows)?, ids(array, count + first, count + last, &in_rows)?)
                }
                Edges::Pairs(array) => ids(array, 2 * first, 2 * last, &end_in_pairs)?
                    .as_chunks::<2>()
                    .0
                    .iter()
                    .map(|&[from, to]| (from, to))
                    .unzip(),
                Edges::Two { sources, destinations } => (
                    ids(sources, first, last, &in_rows)?,
                    ids(destinations, first, last, &|edge| format!("the destination of edge {edge}"))?,
                ),
            };
            let weights = weights.map(|array| weights_of(array, first, last)).transpose()?;
            for (edge, (source, destination)) in sources.into_iter().zip(destinations).enumerate() {
                let weight = weights.as_ref().map_or(0.0, |weights: &Vec<f32>| weights[edge]);
                lists.push(source as u64, destination as u64, weight)?;
            }
            if (first / CHUNK).is_multiple_of(64) {
                output.progress("edges", first as u64, count as u64);
            }
        }
        Ok(())
    }
}

/// Edge features and types, at least one of them, in the order of the source.
pub(crate) struct NpyEdgeRows {
    features: Option<Features>,
    types: Option<NpyArray>,
}

impl NpyEdgeRows {
    /// Opens the edge features and types in `directory`, if any.
    pub(crate) fn open(directory: &Path, changes: Changes) -> Result<Option<NpyEdgeRows>, GraphError> {
        Source::new(directory)?.edge_rows(None, changes)
    }

    pub(crate) fn row_bytes(&self) -> u64 {
        let types = if self.types.is_some() { size_of::<u16>() as u64 } else { 0 };
        types + self.features.as_ref().map_or(0, Features::row_bytes)
    }

    /// Writes both, and returns the type of the features.
    pub(crate) fn write(self, output: &DatasetOutput<'_>) -> Result<Option<ElementType>, GraphError> {
        if let Some(features) = &self.features {
            features.write(FeaturesOf::Edges, output)?;
        }
        if let Some(types) = &self.types {
            let mut writer = output.edge_types()?;
            let edges = types.header().elements();
            for first in (0..edges).step_by(CHUNK) {
                writer.write(&types_of(types, first, (first + CHUNK).min(edges))?)?;
            }
            writer.finish()?;
        }
        Ok(self.features.map(|features| features.element))
    }
}

/// The source's features, and their stored type.
struct Features {
    array: NpyArray,
    element: ElementType,
}

impl Features {
    fn columns(&self) -> usize {
        self.array.shape().get(1).copied().unwrap_or(1)
    }

    fn row_bytes(&self) -> u64 {
        (self.columns() * self.element.bytes()) as u64
    }

    fn write(&self, of: FeaturesOf, output: &DatasetOutput<'_>) -> Result<(), GraphError> {
        let (kind, columns) = (self.array.kind(), self.columns());
        let source = FeatureSource {
            place: self.array.path().to_owned(),
            data_offset: Some(self.array.header().data_offset as u64),
        };
        let mut writer = output.feature_writer(of, source, kind, columns, Some(self.element))?;
        for chunk in self.array.bytes().chunks(CHUNK * kind.bytes()) {
            writer.write(chunk)?;
        }
        output.finish_features(writer).map(drop)
    }
}

enum ImportedLabels {
    Single(Vec<i64>),
    Multi {
        classes: usize,
        marks: Vec<u8>,
    },
    /// Rows of `columns`, or one number per node.
    Regression {
        columns: Option<usize>,
        values: Vec<f32>,
    },
    Absent,
}

impl ImportedLabels {
    fn write(&self, path: &Path) -> Result<(), GraphError> {
        match self {
            ImportedLabels::Absent => Ok(()),
            ImportedLabels::Regression { columns, values } => {
                let columns: Vec<usize> = columns.iter().copied().collect();
                write_array(path, NpyType::F32, &columns, values)
            }
            ImportedLabels::Single(labels) => write_array(path, NpyType::I64, &[], labels),
            ImportedLabels::Multi { classes, marks } => write_array(path, NpyType::U8, &[*classes], marks),
        }
    }
}

/// The file with the names of the nodes in `directory`, if there is one.
///
/// # Errors
/// If the number of names differs from `nodes`.
pub(crate) fn names_of_nodes(directory: &Path, nodes: u64) -> Result<Option<PathBuf>, GraphError> {
    let path = directory.join(names::NODE_NAMES);
    if !path.exists() {
        return Ok(None);
    }
    let found = numbering::named(&path)?.nodes();
    match found == nodes {
        true => Ok(Some(path)),
        false => Err(GraphError::invalid(&path, ImportProblem::Names { found, nodes })),
    }
}

/// Whether these are floats that are not classes: some number is not whole.
fn are_targets(array: &NpyArray) -> bool {
    matches!(array.kind(), NpyType::F16 | NpyType::F32 | NpyType::F64)
        && floats(array).iter().any(|value| value.is_finite() && value.fract() != 0.0)
}

/// Weights of the edges `first..last`.
fn weights_of(weights: &NpyArray, first: usize, last: usize) -> Result<Vec<f32>, GraphError> {
    let bytes = &weights.bytes()[first * weights.kind().bytes()..last * weights.kind().bytes()];
    let values: Vec<f32> =
        values::floats(weights.kind(), bytes).into_iter().map(|weight| weight as f32).collect();
    verify::weights_from(weights, first, &values)?;
    Ok(values)
}

/// Edge types `first..last`.
fn types_of(types: &NpyArray, first: usize, last: usize) -> Result<Vec<u16>, GraphError> {
    let values = (first..).zip(integers_of(types, first, last)?);
    let types_of = values.map(|(position, value)| {
        u16::try_from(value)
            .map_err(|_| GraphError::invalid(types.path(), ImportProblem::NoType { position, value }))
    });
    types_of.collect()
}

/// The elements as integers, if they are integers.
fn integers(array: &NpyArray) -> Result<Vec<i64>, GraphError> {
    integers_of(array, 0, array.header().elements())
}

/// The elements `first..last` as integers, if they are integers.
fn integers_of(array: &NpyArray, first: usize, last: usize) -> Result<Vec<i64>, GraphError> {
    if !values::is_integer(array.kind()) {
        return Err(array.wrong_type("an integer type"));
    }
    let size = array.kind().bytes();
    values::integers(array.kind(), &array.bytes()[first * size..last * size]).map_err(|wrong| {
        let problem = ImportProblem::TooLarge { position: first + wrong.position, value: wrong.value };
        GraphError::invalid(array.path(), problem)
    })
}

/// The elements as doubles, for any number type.
fn floats(array: &NpyArray) -> Vec<f64> {
    values::floats(array.kind(), array.bytes())
}

/// Elements that are all 0 or 1, as bytes.
fn marks(array: &NpyArray) -> Result<Vec<u8>, GraphError> {
    let mut marks = Vec::with_capacity(array.header().elements());
    for (position, value) in floats(array).into_iter().enumerate() {
        if value != 0.0 && value != 1.0 {
            return Err(GraphError::invalid(array.path(), ImportProblem::NoMark { position, value }));
        }
        marks.push(value as u8);
    }
    Ok(marks)
}
