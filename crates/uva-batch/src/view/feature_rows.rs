//! Feature rows with typed values.

use std::slice::ChunksExact;

/// The feature rows of a batch: row `i` belongs to `input_nodes()[i]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FeatureRows<'a, T> {
    values: &'a [T],
    dim: usize,
}

impl<'a, T> FeatureRows<'a, T> {
    /// `values` are whole rows of `dim` values.
    pub(crate) fn new(values: &'a [T], dim: usize) -> Self {
        Self { values, dim }
    }

    /// All values, row after row.
    pub fn values(&self) -> &'a [T] {
        self.values
    }

    /// Values in a row.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The row of `input_nodes()[node]`.
    ///
    /// # Panics
    /// If the batch has no such node.
    pub fn row(&self, node: usize) -> &'a [T] {
        &self.values[node * self.dim..(node + 1) * self.dim]
    }

    /// The rows, in the order of `input_nodes()`.
    pub fn iter(&self) -> ChunksExact<'a, T> {
        self.values.chunks_exact(self.dim.max(1))
    }
}

impl<'a, T> IntoIterator for FeatureRows<'a, T> {
    type Item = &'a [T];
    type IntoIter = ChunksExact<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
