//! The local content of a graph whose feature rows are divided among ranks.

use std::ops::Range;

use crate::npy::NpyArray;
use crate::storage::graph_files::GraphFiles;
use crate::{ElementType, FeatureTable};

/// The files of a graph, with the feature rows of one range of its nodes.
#[derive(Debug)]
pub(crate) struct DividedFiles {
    pub(crate) graph: GraphFiles,
    /// The fingerprint of the source dataset.
    pub(crate) fingerprint: String,
    /// The number of the part that owns the rows.
    pub(crate) part: usize,
    /// The first node of each part, followed by the number of nodes.
    pub(crate) boundaries: Vec<u64>,
    /// The rows.
    pub(crate) table: NpyArray,
    pub(crate) element: ElementType,
}

impl DividedFiles {
    /// The rows of this part.
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

    /// The number of this part.
    pub fn part(self) -> usize {
        self.0.part
    }

    /// The number of parts.
    pub fn parts(self) -> usize {
        self.0.boundaries.len() - 1
    }

    /// The first node of each part, followed by the number of nodes.
    pub fn boundaries(self) -> &'d [u64] {
        &self.0.boundaries
    }

    /// The nodes whose rows this part has.
    pub fn nodes(self) -> Range<u64> {
        self.0.boundaries[self.0.part]..self.0.boundaries[self.0.part + 1]
    }

    /// The rows of this part, in the order of the nodes.
    pub fn table(self) -> FeatureTable<'d> {
        self.0.own_table()
    }
}
