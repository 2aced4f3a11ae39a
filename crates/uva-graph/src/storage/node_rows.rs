//! Feature rows of all nodes that are stored next to a dataset and replace those of its table.

use crate::npy::NpyArray;
use crate::{ElementType, FeatureTable};

/// A row for each node, in the order of their ids: passed to [`Dataset::with_rows`](crate::Dataset::with_rows).
#[derive(Debug)]
pub struct NodeRows {
    /// The file with these rows only.
    pub array: NpyArray,
    /// Values per row.
    pub dim: usize,
    /// The element type.
    pub element: ElementType,
}

impl NodeRows {
    /// The rows as the feature table of `nodes` nodes, which must match.
    pub(crate) fn table(&self, nodes: usize) -> FeatureTable<'_> {
        FeatureTable { bytes: self.array.bytes(), rows: nodes, dim: self.dim, element: self.element }
    }

    /// Why the rows do not fit `nodes` nodes, if they do not.
    pub(crate) fn misfit(&self, nodes: usize) -> Option<String> {
        let wanted = self.table(nodes).row_bytes().checked_mul(nodes);
        let found = self.array.bytes().len();
        (self.dim == 0 || wanted != Some(found)).then(|| {
            format!(
                "{} has {found} bytes, which are not {nodes} rows of {} {} values",
                self.array.path().display(),
                self.dim,
                self.element.name()
            )
        })
    }
}
