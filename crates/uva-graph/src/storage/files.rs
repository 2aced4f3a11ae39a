//! The files of a dataset, mapped, their shapes and types checked against each other. Their content is not checked
//! here.

use std::path::Path;

use crate::description::feature_element::{SaidElement, edge_feature_element, element_of, feature_element};
use crate::description::typed_meta::{EdgeRowOf, TypedMeta};
use crate::description::{meta, names};
use crate::npy::NpyArray;
use crate::storage::arrays::place::ArrayDirectory;
use crate::storage::graph_files::GraphFiles;
use crate::{ElementType, FeatureTable, GraphError, Meta, NodeType, Relation};

/// All files of a dataset.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) graph: GraphFiles,
    /// The feature rows of each node type.
    pub(crate) tables: Vec<Option<RowArray>>,
    /// The feature rows of the edges of each relation.
    pub(crate) edge_tables: Vec<Option<EdgeRowArray>>,
}

/// An array of feature rows.
#[derive(Debug)]
pub(crate) struct RowArray {
    pub(crate) array: NpyArray,
    pub(crate) element: ElementType,
}

impl RowArray {
    pub(crate) fn table(&self) -> FeatureTable<'_> {
        let (rows, dim) = (self.array.shape()[0], self.array.shape()[1]);
        FeatureTable { bytes: self.array.bytes(), rows, dim, element: self.element }
    }
}

/// Where the feature rows of a relation's edges are.
#[derive(Debug)]
pub(crate) enum EdgeRowArray {
    /// In a file of the relation. Edge `p` has row `p`, or, with `by_id`, row `edge_id[p]`.
    Own { rows: RowArray, by_id: bool },
    /// In the file of another relation. Edge `p` has row `edge_id[p]`.
    Of(Relation),
}

/// Whether a dataset of the format has feature rows for its nodes in any case.
fn requires_features(meta: &Meta) -> bool {
    meta.typed.is_none()
}

#[derive(Debug, thiserror::Error)]
#[error(
    "\"feat_of\" of meta.json names the features of {other} for this relation: remove the file or the key"
)]
struct OwnAndShared {
    other: String,
}

#[derive(Debug, thiserror::Error)]
#[error(
    "this is a hop set, whose rows are trained on without a graph: only `uvatrain train`, `uvatrain info` and \
     Python's HopLoader accept it; other commands require the dataset that it was made from"
)]
struct IsHopSet;

#[derive(Debug, thiserror::Error)]
#[error(
    "this belongs to a partition in ranges and is not a dataset: graph and feature rows lie in separate directories; \
     `uvatrain info` shows it, other commands require the dataset that was partitioned"
)]
struct IsOfRanges;

impl Files {
    /// Maps every file of the dataset in `directory`.
    pub(crate) fn open(directory: &Path) -> Result<Files, GraphError> {
        Self::open_described(directory, Self::read_meta(directory)?)
    }

    /// The metadata of `directory`, if it is a dataset.
    pub(crate) fn read_meta(directory: &Path) -> Result<Meta, GraphError> {
        let metadata = std::fs::metadata(directory).map_err(GraphError::io(directory, "open"))?;
        if !metadata.is_dir() {
            return Err(GraphError::Io {
                path: directory.to_owned(),
                action: "open",
                source: std::io::Error::new(
                    std::io::ErrorKind::NotADirectory,
                    "a dataset is a directory of .npy files",
                ),
            });
        }
        let of_hops = directory.join(names::HOP_SET);
        if of_hops.is_file() {
            return Err(GraphError::invalid(&of_hops, IsHopSet));
        }
        let meta = Meta::read(directory)?;
        if meta.ranges.is_some() {
            return Err(GraphError::invalid(&directory.join(meta::FILE_NAME), IsOfRanges));
        }
        Ok(meta)
    }

    /// Maps every file of the dataset in `directory`, which `meta` describes.
    pub(crate) fn open_described(directory: &Path, meta: Meta) -> Result<Files, GraphError> {
        let graph = GraphFiles::open(directory, meta)?;
        let metagraph = &graph.metagraph;
        let tables = metagraph
            .types()
            .map(|node_type| node_table(directory, &graph, node_type))
            .collect::<Result<_, _>>()?;
        let edge_tables = match &graph.meta.typed {
            None => {
                let edges = (graph.first_relation().edges(), "one row for each edge of indices.npy");
                let own = edge_table(directory, &graph.meta, edges)?;
                vec![own.map(|(array, element)| EdgeRowArray::Own {
                    rows: RowArray { array, element },
                    by_id: false,
                })]
            }
            Some(typed) => {
                let tables = metagraph
                    .relations()
                    .map(|relation| typed_edge_table(directory, &graph, typed, relation));
                tables.collect::<Result<_, _>>()?
            }
        };
        let files = Files { graph, tables, edge_tables };
        files.check_shared_tables(directory)?;
        Ok(files)
    }

    /// Checks that a relation whose rows are those of another has the ids of these rows.
    fn check_shared_tables(&self, directory: &Path) -> Result<(), GraphError> {
        let metagraph = &self.graph.metagraph;
        for (relation, table) in metagraph.relations().zip(&self.edge_tables) {
            let Some(EdgeRowArray::Of(other)) = table else { continue };
            if self.edge_tables[other.index()].is_none() {
                let missing = std::io::Error::new(
                    std::io::ErrorKind::NotFound,
                    format!(
                        "the file does not exist, but \"feat_of\" of {} requires it",
                        metagraph.full_name(relation)
                    ),
                );
                let path =
                    ArrayDirectory::of_relation(directory, metagraph, *other).directory.join(names::FEATURES);
                return Err(GraphError::io(&path, "open")(missing));
            }
        }
        Ok(())
    }

    /// The rows of the nodes of a dataset that is known to have one type with rows.
    ///
    /// # Panics
    /// If the first type has no rows.
    pub(crate) fn table(&self) -> &RowArray {
        self.first_table().expect("the nodes have feature rows")
    }

    /// The rows of the nodes of the first type, if there are any.
    pub(crate) fn first_table(&self) -> Option<&RowArray> {
        self.tables.first()?.as_ref()
    }

    /// The rows of the edges of the first relation, in the order of the lists, if there are any.
    pub(crate) fn first_edge_table(&self) -> Option<&RowArray> {
        match self.edge_tables.first()?.as_ref()? {
            EdgeRowArray::Own { rows, by_id: false } => Some(rows),
            EdgeRowArray::Own { .. } | EdgeRowArray::Of(_) => None,
        }
    }

    /// The feature rows of a relation's edges, and whether an edge has the row of its id.
    pub(crate) fn edge_rows(&self, relation: Relation) -> Option<(&RowArray, bool)> {
        match self.edge_tables[relation.index()].as_ref()? {
            EdgeRowArray::Own { rows, by_id } => Some((rows, *by_id)),
            EdgeRowArray::Of(other) => match self.edge_tables[other.index()].as_ref()? {
                EdgeRowArray::Own { rows, .. } => Some((rows, true)),
                EdgeRowArray::Of(_) => None,
            },
        }
    }
}

/// The feature rows of a node type, if it has any.
fn node_table(
    directory: &Path,
    graph: &GraphFiles,
    node_type: NodeType,
) -> Result<Option<RowArray>, GraphError> {
    let place = ArrayDirectory::of_type(directory, &graph.metagraph, node_type);
    let array = match requires_features(&graph.meta) {
        true => Some(place.open(names::FEATURES)?),
        false => place.optional(names::FEATURES)?,
    };
    let Some(array) = array else { return Ok(None) };
    let said = match &graph.meta.typed {
        Some(typed) => typed.nodes[node_type.index()].feat_dtype.as_ref(),
        None => graph.meta.feat_dtype.as_ref(),
    };
    let wanted = format!("one row for each {}", place.a_node());
    rows_of(&place, array, graph.types[node_type.index()].count, &wanted, ("feat_dtype", said)).map(Some)
}

/// The feature rows of a relation's edges in format 2, if it has any.
fn typed_edge_table(
    directory: &Path,
    graph: &GraphFiles,
    typed: &TypedMeta,
    relation: Relation,
) -> Result<Option<EdgeRowArray>, GraphError> {
    let metagraph = &graph.metagraph;
    let place = ArrayDirectory::of_relation(directory, metagraph, relation);
    let of = typed.features_of(metagraph, relation).map_err(|problem| place.wrong_meta(problem))?;
    let entry = &typed.edges[relation.index()];
    let by_id = of != relation || entry.feat_rows == Some(EdgeRowOf::EdgeId);
    let files = &graph.relations[relation.index()];
    let array = place.optional(names::FEATURES)?;
    if by_id && files.edge_ids.is_none() && (of != relation || array.is_some()) {
        let missing = "the file does not exist, but the feature rows of this relation are found by it";
        let missing = std::io::Error::new(std::io::ErrorKind::NotFound, missing);
        return Err(GraphError::io(&place.directory.join(names::EDGE_IDS), "open")(missing));
    }
    let Some(array) = array else { return Ok((of != relation).then_some(EdgeRowArray::Of(of))) };
    if of != relation {
        let other = metagraph.full_name(of).to_owned();
        return Err(GraphError::invalid(array.path(), OwnAndShared { other }));
    }
    let (count, wanted) = match by_id {
        true => (array.shape().first().copied().unwrap_or(0), "one row for each id of edge_id.npy"),
        false => (files.edges(), "one row for each edge of indices.npy"),
    };
    let rows = rows_of(&place, array, count, wanted, ("feat_dtype", entry.feat_dtype.as_ref()))?;
    Ok(Some(EdgeRowArray::Own { rows, by_id }))
}

/// The array as `count` rows; `wanted` is the reason, for the message. `key` of `meta.json` has the element type.
fn rows_of(
    place: &ArrayDirectory<'_>,
    array: NpyArray,
    count: usize,
    wanted: &str,
    (key, said): (&'static str, Option<&String>),
) -> Result<RowArray, GraphError> {
    match *array.shape() {
        [found, columns] if found == count && columns > 0 => {
            let said = SaidElement { meta_file: place.meta_file(), key: place.key(key), bare_key: key, said };
            let element = element_of(&said, &array)?;
            Ok(RowArray { array, element })
        }
        _ => Err(array.wrong_shape(format!("[{count}, features], {wanted}"))),
    }
}

/// The element type of a table of feature rows in `directory`. Checks the number of rows; `wanted` is the reason, for
/// the message.
pub(crate) fn table_element(
    directory: &Path,
    meta: &Meta,
    features: &NpyArray,
    (rows, wanted): (usize, &str),
) -> Result<ElementType, GraphError> {
    match *features.shape() {
        [found, columns] if found == rows && columns > 0 => feature_element(directory, meta, features),
        _ => Err(features.wrong_shape(format!("[{rows}, features], {wanted}"))),
    }
}

/// The edge feature rows in `directory` and their element type, if any.
pub(crate) fn edge_table(
    directory: &Path,
    meta: &Meta,
    (rows, wanted): (usize, &str),
) -> Result<Option<(NpyArray, ElementType)>, GraphError> {
    let Some(array) = ArrayDirectory::of_dataset(directory).optional(names::EDGE_FEATURES)? else {
        return Ok(None);
    };
    match *array.shape() {
        [found, columns] if found == rows && columns > 0 => {
            let element = edge_feature_element(directory, meta, &array)?;
            Ok(Some((array, element)))
        }
        _ => Err(array.wrong_shape(format!("[{rows}, features], {wanted}"))),
    }
}
