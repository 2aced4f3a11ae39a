//! A graph whose feature rows are divided among ranks: what one of them has.

use std::ops::Range;

use crate::npy::NpyArray;
use crate::storage::graph_files::GraphFiles;
use crate::{ElementType, FeatureTable};

/// The files of a graph, with the feature rows of one range of its nodes.
#[derive(Debug)]
pub(crate) struct DividedFiles {
    pub(crate) graph: GraphFiles,
    /// The fingerprint of the dataset that was divided.
    pub(crate) fingerprint: String,
    /// Which part's rows.
    pub(crate) part: usize,
    /// The first node of each part, and the number of nodes.
    pub(crate) boundaries: Vec<u64>,
    /// The rows.
    pub(crate) table: NpyArray,
    pub(crate) element: ElementType,
}

impl DividedFiles {
    /// The rows that are here.
    pub(super) fn own_table(&self) -> FeatureTable<'_> {
        let (table, element) = (&self.table, self.element);
        FeatureTable { bytes: table.bytes(), rows: table.shape()[0], dim: table.shape()[1], element }
    }
}

/// The feature rows of one part, as [`Dataset::own_rows`](crate::Dataset::own_rows) lends them.
#[derive(Clone, Copy, Debug)]
pub struct OwnRows<'d>(&'d DividedFiles);

impl<'d> OwnRows<'d> {
    pub(crate) fn of(files: &'d DividedFiles) -> Self {
        Self(files)
    }

    /// Which part this is.
    pub fn part(self) -> usize {
        self.0.part
    }

    /// How many parts there are.
    pub fn parts(self) -> usize {
        self.0.boundaries.len() - 1
    }

    /// The first node of each part, and the number of nodes behind them.
    pub fn boundaries(self) -> &'d [u64] {
        &self.0.boundaries
    }

    /// The nodes whose rows are here.
    pub fn nodes(self) -> Range<u64> {
        self.0.boundaries[self.0.part]..self.0.boundaries[self.0.part + 1]
    }

    /// Their rows, in the order of the nodes.
    pub fn table(self) -> FeatureTable<'d> {
        self.0.own_table()
    }
}
