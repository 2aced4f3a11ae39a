//! A run's caches, in numbers that every role knows.

use serde::{Deserialize, Serialize};
use uva_rows::cache::eviction::Eviction;

/// What is cached in a run. Part of every role's plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caches {
    /// How many lists: those of the first nodes in the samplers' order.
    pub lists: usize,
    /// Whether the weights of these lists are cached too, where picks are by weight.
    pub list_weights: bool,
    /// Whether it is also cached where each of these lists begins in the dataset, where edge ids are asked for.
    pub list_homes: bool,
    /// Whether the samplers' order differs from the dataset's, so that they work on a reordered graph.
    pub reordered: bool,
    /// How many rows the feature cache holds.
    pub rows: usize,
    /// The eviction policy of a feature cache that changes during the run; `None` where it holds the same rows
    /// throughout.
    pub dynamic: Option<&'static Eviction>,
    /// How many rows of a table on disk are kept in host memory as batches come, beside the rows that the feature cache
    /// holds throughout; `None` without `host_cache`.
    pub kept_rows: Option<usize>,
    /// How many of the run's first epochs the choice was based on: their hit rates say nothing about other epochs.
    pub counted_epochs: u32,
}

impl Caches {
    /// Whether there is any cache.
    pub fn are_there(&self) -> bool {
        self.lists > 0 || self.rows > 0
    }

    /// Whether there is a feature cache that holds the same rows throughout.
    pub fn holds_chosen_rows(&self) -> bool {
        self.rows > 0 && self.dynamic.is_none()
    }

    /// Whether its rows are in host memory before a table on disk, and so on this side of the link to any GPU.
    pub fn are_before_disk(&self) -> bool {
        self.kept_rows.is_some()
    }
}
