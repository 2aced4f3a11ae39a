//! The numbers of a run's caches, which every role has.

use serde::{Deserialize, Serialize};
use uva_rows::cache::eviction::Eviction;

/// The cached lists and rows of a run. Part of every role's plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caches {
    /// Number of cached lists, which are those of the first nodes in the samplers' order.
    pub lists: usize,
    /// Whether the weights of these lists are cached too, if picks are by weight.
    pub list_weights: bool,
    /// Whether the start of each of these lists in the dataset is cached too, if edge ids are requested.
    pub list_homes: bool,
    /// Whether the samplers' order differs from the dataset's, so that they work on a reordered graph.
    pub reordered: bool,
    /// Number of rows in the feature cache.
    pub rows: usize,
    /// The eviction policy of a feature cache that changes during the run; `None` if its rows do not change.
    pub dynamic: Option<&'static Eviction>,
    /// Bytes of host memory for rows of tables on disk that are kept as batches read them, and for their maps, in
    /// addition to the fixed rows of the feature cache; `None` without `host_cache`.
    pub kept_bytes: Option<u64>,
    /// Number of the run's first epochs on which the choice was based. Their hit rates are not representative of other
    /// epochs.
    pub counted_epochs: u32,
}

impl Caches {
    /// Whether there is any cache.
    pub fn are_there(&self) -> bool {
        self.lists > 0 || self.rows > 0
    }

    /// Whether there is a feature cache whose rows do not change.
    pub fn holds_chosen_rows(&self) -> bool {
        self.rows > 0 && self.dynamic.is_none()
    }

    /// Whether its rows are in host memory before a table on disk, and so on the host's side of the link to a GPU.
    pub fn are_before_disk(&self) -> bool {
        self.kept_bytes.is_some()
    }
}
