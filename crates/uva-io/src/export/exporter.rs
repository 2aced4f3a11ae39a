//! The description of an exporter.

use std::fmt;
use std::path::Path;

use uva_files::staging::StagedDirectory;
use uva_graph::{DATASET, GraphError, Labels, NodeType, Progress, TypedDataset};

use super::export_files::{Export, ExportOptions};
use super::losses::{lost, lost_of_types};
use super::typed_export::TypedExport;

/// Writes the files of a typed graph.
pub(super) type WriteTypes = fn(&TypedExport<'_>) -> Result<(), GraphError>;

/// The option for importing targets of regression: whole numbers would be classes.
const REGRESSION: &str = "--regression";

/// The node types with targets of regression, separated by commas.
fn targets_of_types(dataset: &TypedDataset) -> Option<String> {
    let metagraph = dataset.metagraph();
    let has_targets =
        |node_type: &NodeType| matches!(dataset.labels_of(*node_type), Labels::Regression { .. });
    let names: Vec<&str> =
        metagraph.types().filter(has_targets).map(|node_type| metagraph.type_name(node_type)).collect();
    (!names.is_empty()).then(|| names.join(","))
}

/// A format that can be exported: a row of [`EXPORTERS`](super::EXPORTERS).
///
/// An export can be imported again under the same name, and gives the same files except for the losses that [`lost`]
/// lists.
pub struct Exporter {
    /// Its name, as on the command line.
    pub name: &'static str,
    /// One line of help, without a full stop.
    pub help: &'static str,
    /// Whether the format has lines of text, which `--gzip` compresses.
    pub(super) has_lines: bool,
    /// Files of a dataset that other formats keep, and this one does not.
    pub(super) omits: &'static [&'static str],
    /// Writes the files. Returns the options for importing them again.
    pub(super) write: fn(&Export<'_>) -> Result<Vec<&'static str>, GraphError>,
    /// Writes the files of a typed graph; `None` if the format takes only one type and one relation.
    pub(super) write_types: Option<WriteTypes>,
}

impl Exporter {
    /// Writes `dataset` into the directory `out`, which must not exist. Returns the options for importing it again.
    /// `note` first gets a line about each loss.
    ///
    /// # Errors
    /// If an option is not valid for the format, a write fails, `out` exists, or an edge, weight or original id of the
    /// dataset is wrong (its stamp may be older than the files). No files remain after an error.
    pub fn run(
        &self,
        dataset: &TypedDataset,
        out: &Path,
        options: ExportOptions,
        progress: &dyn Fn(Progress),
        note: &dyn Fn(&str),
    ) -> Result<Vec<String>, GraphError> {
        if options.gzip && !self.has_lines {
            let message = format!("{} has no lines of text to compress", self.name);
            return Err(GraphError::usage("gzip", message));
        }
        if let (true, Some(write)) = (dataset.metagraph().is_named(), self.write_types) {
            let staged = StagedDirectory::new(out, &DATASET)?;
            dataset.check_edges()?;
            lost_of_types(dataset)?.iter().for_each(|line| note(line));
            write(&TypedExport { dataset, to: staged.path(), progress })?;
            staged.commit()?;
            return Ok(targets_of_types(dataset)
                .map(|types| format!("{REGRESSION}={types}"))
                .into_iter()
                .collect());
        }
        let dataset = &dataset.single_type()?;
        dataset.meta().check_format_1(dataset.path())?;
        let staged = StagedDirectory::new(out, &DATASET)?;
        dataset.check_edges()?;
        lost(dataset, self.omits)?.iter().for_each(|line| note(line));
        let mut to_import = (self.write)(&Export { dataset, to: staged.path(), options, progress })?;
        if matches!(dataset.labels(), Labels::Regression { .. }) {
            to_import.push(REGRESSION);
        }
        staged.commit()?;
        Ok(to_import.into_iter().map(str::to_owned).collect())
    }
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
