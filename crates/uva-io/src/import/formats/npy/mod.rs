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
//!
//! With `"version": 2` in `meta.json`, such arrays lie in directories of node types and relations ([`typed`]).

mod edges;
mod elements;
mod problem;
mod source;
pub(super) mod typed;

use std::path::{Path, PathBuf};

use uva_graph::csc::Changes;
use uva_graph::npy::{NpyArray, NpyType, write_array};
use uva_graph::{ElementType, GraphError, Meta, names};

use self::edges::EdgeEnds;
use self::elements::{integers, types_of};
use self::problem::ImportProblem;
use self::source::{FeatureArray, ImportedLabels, SourceArrays};
use crate::import::importer::{Importer, SourceKind};
use crate::import::options::Extra;
use crate::import::reading::nodes::NodeRange;
use crate::import::reading::unread_parts;
use crate::import::request::{ImportRequest, ImportWatch};
use crate::import::writing::numbering;
use crate::import::writing::output::{CHUNK, DatasetOutput, DatasetSizes, FeaturesOf};

/// The row in the table.
pub(crate) const IMPORTER: Importer = Importer {
    name: "npy",
    help: "A directory of .npy files",
    source: SourceKind::Directory(
        "a directory of .npy files: indptr and indices, edge_index, or src and dst; feat; train_idx, valid_idx, \
         test_idx",
    ),
    takes: &[Extra::Regression, Extra::Reverse],
    import,
};

/// Imports the `.npy` files in a directory; the module's table lists the names. Edges are unchanged by default.
fn import(request: &ImportRequest<'_>) -> Result<(), GraphError> {
    let meta = Meta::read(request.source)?;
    if meta.typed.is_some() {
        return typed::import(request, meta);
    }
    import_arrays(request, SourceArrays::new(request.source)?)
}

/// Imports the arrays of a graph of one type.
pub(super) fn import_arrays(request: &ImportRequest<'_>, source: SourceArrays) -> Result<(), GraphError> {
    let changes = request.options.changes(Changes::NONE);
    let arrays = NpyArrays::of(source, request)?;
    let nodes = arrays.nodes();
    let ids = arrays.ids();
    let edges = arrays.source.edges(nodes, "the features have rows")?;
    let weights = arrays.source.weights(edges.count(), changes)?;
    let edge_rows = NpyEdgeRows::of(&arrays.source, Some(edges.count()), changes)?;

    let mut sizes = arrays.sizes();
    sizes.edges = Some(edges.count() as u64);
    sizes.weighted = weights.is_some();
    sizes.edge_row_bytes = edge_rows.as_ref().map_or(0, NpyEdgeRows::row_bytes);
    arrays.say_left_out(request.watch, &[])?;
    let output = DatasetOutput::begin(request, sizes, changes)?;
    let of_edges = edge_rows.map(|rows| rows.write(&output)).transpose()?.flatten();
    let mut lists = output.lists(nodes as u64, weights.is_some())?;
    let ends = EdgeEnds { sources: ids.clone(), destinations: ids, owner: "node" };
    edges.push_into(&mut lists, weights.as_ref(), &ends, request.watch.progress)?;
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
    source: SourceArrays,
    features: FeatureArray,
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
        Self::of(SourceArrays::new(directory)?, request)
    }

    fn of(source: SourceArrays, request: &ImportRequest<'_>) -> Result<NpyArrays, GraphError> {
        let features = source.features()?;
        let nodes = features.array.shape()[0];
        let labels = source.labels(nodes, request.options.is_regression(), request.watch)?;
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
        let node_names = names_of_nodes(&source.directory, nodes as u64)?;
        Ok(NpyArrays { source, features, labels, splits, original_ids, node_ids, node_names })
    }

    /// Reports the unread arrays. `elsewhere` lists those that are read by other means.
    pub(crate) fn say_left_out(&self, watch: &ImportWatch<'_>, elsewhere: &[&str]) -> Result<(), GraphError> {
        let left = self.source.unread()?.into_iter().map(|(name, _)| name);
        let left: Vec<String> = left.filter(|name| !elsewhere.contains(&name.as_str())).collect();
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
        let label_row_bytes = self.labels.row_bytes();
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
            numbering::copy_names(&from, output.directory())?;
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

/// Edge features and types, at least one of them, in the order of the source.
pub(crate) struct NpyEdgeRows {
    features: Option<FeatureArray>,
    types: Option<NpyArray>,
}

impl NpyEdgeRows {
    /// Opens the edge features and types in `directory`, if any.
    pub(crate) fn open(directory: &Path, changes: Changes) -> Result<Option<NpyEdgeRows>, GraphError> {
        NpyEdgeRows::of(&SourceArrays::new(directory)?, None, changes)
    }

    /// Those of a source. If the number of `edges` is unknown, [`DatasetOutput::finish_lists`] compares it.
    fn of(
        source: &SourceArrays,
        edges: Option<usize>,
        changes: Changes,
    ) -> Result<Option<NpyEdgeRows>, GraphError> {
        let (features, types) = (source.edge_features(edges, changes)?, source.edge_types(edges, changes)?);
        Ok((features.is_some() || types.is_some()).then_some(NpyEdgeRows { features, types }))
    }

    pub(crate) fn row_bytes(&self) -> u64 {
        let types = if self.types.is_some() { size_of::<u16>() as u64 } else { 0 };
        types + self.features.as_ref().map_or(0, FeatureArray::row_bytes)
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
