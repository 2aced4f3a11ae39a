//! What a dataset of one kind has.

use std::fmt::Debug;
use std::path::{Path, PathBuf};

use uva_mem::FileState;

use super::hop_rows::Hops;
use super::own_rows::OwnRows;
use crate::storage::files::Files;
use crate::storage::graph_files::GraphFiles;
use crate::{FeatureTable, Labels, Meta, Schema, Split};

/// How messages name a kind of dataset and what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindWords {
    /// The kind.
    pub dataset: &'static str,
    /// What has labels and feature rows.
    pub node: &'static str,
    /// How such a dataset gets labels.
    pub labels: &'static str,
    /// That the training split is empty.
    pub no_training: &'static str,
}

impl KindWords {
    /// Of a graph.
    pub(super) const GRAPH: Self = Self {
        dataset: "dataset",
        node: "node",
        labels: "import it again with labels, or write label.npy (int64 classes, -1 for none, or float32 targets)",
        no_training: "train_idx.npy is empty",
    };
}

/// What a dataset of one kind has. Absent things are `None`.
pub(crate) trait Kind: Debug + Send + Sync {
    /// Names, counts and types.
    fn schema(&self) -> Schema;

    fn meta(&self) -> &Meta;

    /// Identifies the content.
    fn fingerprint(&self) -> String;

    /// A row a node, or of a hop set one a row.
    fn labels(&self) -> Labels<'_>;

    /// The nodes of a split.
    fn split(&self, split: Split) -> &[i64];

    /// How messages name it.
    fn words(&self) -> KindWords;

    /// The files that hold feature rows, each with the state in which it was opened.
    fn row_files(&self) -> Vec<(&Path, FileState)>;

    /// The file and its key that say how many classes there are, in the dataset at this path.
    fn classes_from(&self, path: &Path) -> (&'static str, PathBuf);

    /// The rows of a split's nodes in the labels.
    fn label_rows(&self, split: Split) -> Box<dyn Iterator<Item = usize> + '_> {
        Box::new(self.split(split).iter().map(|&id| id as usize))
    }

    /// The id of each node in the dataset that this one was made of; `None` where it is the same.
    fn original_ids(&self) -> Option<&[i64]> {
        self.graph()?.original_ids.as_ref().map(|ids| ids.values())
    }

    /// The feature rows of all nodes.
    fn feature_rows(&self) -> Option<FeatureTable<'_>> {
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

    /// The feature rows that are here, where others are with other ranks.
    fn own_rows(&self) -> Option<OwnRows<'_>> {
        None
    }

    /// The rows of a hop set.
    fn hops(&self) -> Option<Hops<'_>> {
        None
    }
}

/// The file that says how many classes the labels of a graph have, and what in it does.
pub(super) fn classes_of_graph(graph: &GraphFiles, path: &Path) -> (&'static str, PathBuf) {
    match graph.meta.classes {
        Some(_) => ("\"classes\"", path.join(crate::description::meta::FILE_NAME)),
        None => ("the largest label", path.join(crate::description::names::LABELS)),
    }
}
