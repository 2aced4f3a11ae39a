//! `.npy` files with the edges in PyG's layout, and everything else as in the dataset.

use uva_graph::{GraphError, meta, names};

use super::export_files::{Export, edge_index};
use super::exporter::Exporter;
use super::typed_export::TypedExport;

/// The row in the table.
pub(super) const EXPORTER: Exporter = Exporter {
    name: "npy",
    help: ".npy files, with the edges in edge_index.npy",
    has_lines: false,
    omits: &[],
    write,
    write_types: Some(write_types),
};

fn write(export: &Export<'_>) -> Result<Vec<&'static str>, GraphError> {
    export.edge_index()?;
    export.copy_arrays()?;
    export.copy(&[], &[names::WEIGHTS, names::EDGE_FEATURES, names::EDGE_TYPES])?;
    Ok(Vec::new())
}

fn write_types(export: &TypedExport<'_>) -> Result<(), GraphError> {
    let metagraph = export.dataset.metagraph();
    for relation in metagraph.relations() {
        let directory = export.dataset.directory_of_relation(relation);
        let to = export.directory(&directory)?;
        edge_index(export.dataset.lists(relation), &to, export.progress)?;
        export.copy_all(&directory, &to, &[names::INDPTR, names::INDICES])?;
    }
    for node_type in metagraph.types() {
        let directory = export.dataset.directory_of_type(node_type);
        // A type need not have files.
        if directory.is_dir() {
            let to = export.directory(&directory)?;
            export.copy_all(&directory, &to, &[])?;
        }
    }
    export.copy(&export.dataset.path().join(meta::FILE_NAME), &export.to.join(meta::FILE_NAME))
}
