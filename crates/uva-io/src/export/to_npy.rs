//! `.npy` files with the edges in PyG's layout, and everything else as in the dataset.

use uva_graph::{GraphError, names};

use super::export_files::Export;
use super::exporter::Exporter;

/// The row in the table.
pub(super) const EXPORTER: Exporter = Exporter {
    name: "npy",
    help: ".npy files, with the edges in edge_index.npy",
    has_lines: false,
    omits: &[],
    write,
};

fn write(export: &Export<'_>) -> Result<Vec<&'static str>, GraphError> {
    export.edge_index()?;
    export.copy_arrays()?;
    export.copy(&[], &[names::WEIGHTS, names::EDGE_FEATURES, names::EDGE_TYPES])?;
    Ok(Vec::new())
}
