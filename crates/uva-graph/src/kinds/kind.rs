//! The interface of a dataset kind.

use std::fmt::Debug;
use std::path::{Path, PathBuf};

use uva_mem::MappedFile;

use super::hop_rows::Hops;
use super::own_rows::OwnRows;
use crate::storage::files::Files;
use crate::storage::graph_files::GraphFiles;
use crate::{FeatureTable, Labels, Meta, Metagraph, NodeType, Schema, Split};

/// Names that messages use for a dataset kind and its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindWords {
    /// The name of the kind.
    pub dataset: &'static str,
    /// The name of an item with a label and a feature row.
    pub node: &'static str,
    /// A hint on how such a dataset gets labels.
    pub labels: &'static str,
    /// That the training split is empty.
    pub no_training: &'static str,
}

impl KindWords {
    /// The names for a graph.
    pub(super) const GRAPH: Self = Self {
        dataset: "dataset",
        node: "node",
        labels: "import it again with labels, or write label.npy (int64 classes, -1 for none, or float32 targets)",
        no_training: "train_idx.npy is empty",
    };
}

/// The interface of a dataset kind. Absent content is `None`.
pub(crate) trait Kind: Debug + Send + Sync {
    /// Names, counts and types.
    fn schema(&self) -> Schema;

    fn meta(&self) -> &Meta;

    /// Identifier of the content.
    fn fingerprint(&self) -> String;

    /// The types of nodes and edges.
    fn metagraph(&self) -> &Metagraph;

    /// The labels of a type, one row per node, or per row of a hop set.
    fn labels(&self, node_type: NodeType) -> Labels<'_>;

    /// The nodes of a split of a type.
    fn split(&self, node_type: NodeType, split: Split) -> &[i64];

    /// Names that messages use.
    fn words(&self) -> KindWords;

    /// The mapped files that hold feature rows.
    fn row_files(&self) -> Vec<&MappedFile>;

    /// The key and file that give the number of classes of the first type of the dataset at `path`.
    fn classes_from(&self, path: &Path) -> (&'static str, PathBuf);

    /// The label rows of the nodes of a split of a type.
    fn label_rows(&self, node_type: NodeType, split: Split) -> Box<dyn Iterator<Item = usize> + '_> {
        Box::new(self.split(node_type, split).iter().map(|&id| id as usize))
    }

    /// The id of each node of a type in the source dataset; `None` if the ids are the same.
    fn original_ids(&self, node_type: NodeType) -> Option<&[i64]> {
        self.graph()?.types[node_type.index()].original_ids()
    }

    /// The feature rows of all nodes of a type.
    fn feature_rows(&self, _node_type: NodeType) -> Option<FeatureTable<'_>> {
        None
    }

    /// The graph.
    fn graph(&self) -> Option<&GraphFiles> {
        None
    }

    /// The graph and all feature rows.
    fn whole(&self) -> Option<&Files> {
        None
    }

    /// The feature rows of this rank in a divided dataset.
    fn own_rows(&self) -> Option<OwnRows<'_>> {
        None
    }

    /// The rows of a hop set.
    fn hops(&self) -> Option<Hops<'_>> {
        None
    }
}

/// The key and file that give the number of classes of the labels of a graph's first type.
pub(super) fn classes_of_graph(graph: &GraphFiles, path: &Path) -> (&'static str, PathBuf) {
    let nodes = graph.first_type();
    match (nodes.said_classes, nodes.labels.array()) {
        (None, Some(labels)) => ("the largest label", labels.path().to_owned()),
        _ => ("\"classes\"", path.join(crate::description::meta::FILE_NAME)),
    }
}
