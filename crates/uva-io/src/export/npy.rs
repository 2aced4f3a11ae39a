//! `.npy` files with the edges as PyG has them, and everything else as it is in the dataset.

use uva_graph::{GraphError, names};

use super::Export;

pub(super) fn write(export: &Export<'_>) -> Result<(), GraphError> {
    export.edge_index()?;
    export.copy_arrays()?;
    export.copy(&[], &[names::WEIGHTS])
}
