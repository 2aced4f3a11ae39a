//! The content of `hops.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uva_model::FeatureNorm;

use crate::options::{HopType, KeptNodes, Layout, RowOrder};

/// The file that makes a directory a hop set.
pub const FILE_NAME: &str = "hops.json";

/// Dataset ids of the rows.
pub(crate) const NODE_IDS: &str = "node_idx.npy";
/// Labels of the rows.
pub(crate) const LABELS: &str = "label.npy";
/// The features themselves.
pub(crate) const FEATURES: &str = "x.npy";
/// All hops of every row, with the layout `rows`.
pub(crate) const ROWS: &str = "rows.npy";

/// The version of the format.
pub(crate) const FORMAT: u32 = 1;

/// The content of `hops.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HopSet {
    /// The version of the format: 1.
    pub format: u32,
    /// The dataset that it was made from.
    pub dataset: SourceDataset,
    /// Features per row.
    pub dim: usize,
    /// The element type.
    pub dtype: HopType,
    /// Number of rows.
    pub rows: usize,
    /// Classes of the labels.
    pub classes: usize,
    /// The operators, in the order of their hops.
    pub operators: Vec<AppliedOperator>,
    /// Which values are stored side by side.
    pub layout: Layout,
    /// The byte offset of the elements in hop files.
    pub data_offset: usize,
    /// Rows of train, valid and test as half-open ranges; nodes without a split follow.
    pub splits: BTreeMap<String, [usize; 2]>,
    /// The order of the training rows.
    pub order: TrainingOrder,
    /// Which nodes have rows.
    pub nodes: KeptNodes,
    /// How features were normalised before the first hop.
    pub feature_norm: FeatureNorm,
    /// The element type between hops: always `f32`.
    pub scratch: HopType,
    /// Every array with its length and the hash of its elements.
    pub files: BTreeMap<String, FileFacts>,
    /// The program that made it.
    pub made_by: String,
    /// Duration of the last run in seconds. Interrupted runs do not count.
    pub seconds: f64,
}

/// A dataset that hops were made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceDataset {
    /// Its name.
    pub name: String,
    /// Its [fingerprint](uva_graph::Dataset::fingerprint).
    pub fingerprint: String,
}

/// An operator of a hop set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedOperator {
    /// Its name, with all parameters.
    pub name: String,
    /// The prefix of its files' names.
    pub file: String,
    /// Whether the sums included the node itself.
    pub self_loops: bool,
    /// Whether entries were weighted by `weight.npy`.
    pub weighted: bool,
    /// Number of applications.
    pub hops: u32,
}

/// The order of the training rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrainingOrder {
    /// The kind of order.
    pub kind: RowOrder,
    /// The seed of a shuffled order; 0 for others.
    pub seed: u64,
    /// The purpose of the random words.
    pub purpose: u32,
}

/// An array of a hop set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileFacts {
    /// Its length in bytes, including the header.
    pub bytes: u64,
    /// The [hash](uva_graph::hash::of_array) of its elements: 16 hex digits. The tag is the hop.
    pub hash: String,
}

impl HopSet {
    /// Number of hops per row, including the features themselves.
    pub fn hops(&self) -> usize {
        1 + self.operators.iter().map(|operator| operator.hops as usize).sum::<usize>()
    }

    /// Names of the hops' files in order; the layout `rows` has one file for all.
    pub fn hop_files(&self) -> Vec<String> {
        if self.layout == Layout::Rows {
            return vec![ROWS.to_owned()];
        }
        let of_operators = self
            .operators
            .iter()
            .flat_map(|operator| (1..=operator.hops).map(|hop| format!("{}.{hop}.npy", operator.file)));
        std::iter::once(FEATURES.to_owned()).chain(of_operators).collect()
    }

    /// The rows of a split.
    pub fn split(&self, name: &str) -> [usize; 2] {
        self.splits.get(name).copied().unwrap_or_default()
    }

    /// Bytes of all arrays.
    pub fn bytes(&self) -> u64 {
        self.files.values().map(|file| file.bytes).sum()
    }
}
