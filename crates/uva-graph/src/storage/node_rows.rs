//! Feature rows of all nodes that lie beside a dataset, and stand in for those of its table.

use crate::npy::NpyArray;
use crate::{ElementType, FeatureTable};

/// A row for each node, in the order of their ids: [`Dataset::with_rows`](crate::Dataset::with_rows) takes them.
#[derive(Debug)]
pub struct NodeRows {
    /// The file that holds them and nothing else.
    pub array: NpyArray,
    /// Values of a row.
    pub dim: usize,
    /// The element type.
    pub element: ElementType,
}

impl NodeRows {
    /// As the feature table of so many nodes. The rows fit them.
    pub(crate) fn table(&self, nodes: usize) -> FeatureTable<'_> {
        FeatureTable { bytes: self.array.bytes(), rows: nodes, dim: self.dim, element: self.element }
    }

    /// Why these are not the rows of so many nodes, if so.
    pub(crate) fn misfit(&self, nodes: usize) -> Option<String> {
        let wanted = self.table(nodes).row_bytes().checked_mul(nodes);
        let found = self.array.bytes().len();
        (self.dim == 0 || wanted != Some(found)).then(|| {
            format!(
                "{} has {found} bytes, which are no {nodes} rows of {} {} values",
                self.array.path().display(),
                self.dim,
                self.element.name()
            )
        })
    }
}
