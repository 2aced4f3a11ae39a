//! The interface of a kind of data.

use std::path::Path;

use uva_graph::{Dataset, GraphError};
use uva_runtime::LoaderOptions;
use uva_runtime::backend::BackendOptions;

use crate::flags::training::{ModelFlags, TrainFlags};

/// The conversion of an error of a file of nodes.
pub type NodeFileProblem<'a> = &'a dyn Fn(GraphError) -> anyhow::Error;

/// A kind of data.
pub trait DataKind {
    /// Whether the data at this path is a graph of several node types or relations, as far as its metadata can be read:
    /// opening it reports what is wrong with them.
    fn is_typed(&self, data: &Path) -> bool;

    /// Refuses options of `train` that contradict each other or this kind.
    ///
    /// # Errors
    /// Bad usage; the message names the option.
    fn check_training(&self, flags: &TrainFlags) -> anyhow::Result<()>;

    /// Refuses options of a trained model that contradict each other or this kind.
    ///
    /// # Errors
    /// Bad usage; the message names the options.
    fn check_model(&self, flags: &ModelFlags) -> anyhow::Result<()>;

    /// Refuses data without tables of rows, for `bench loader`.
    ///
    /// # Errors
    /// Bad usage.
    fn check_rows(&self, data: &Path) -> anyhow::Result<()>;

    /// Opens the data to train on, with the nodes to train on, and the loader's options for it.
    ///
    /// # Errors
    /// Data is missing or damaged; bad usage.
    fn open_for_training(&self, flags: &TrainFlags) -> anyhow::Result<(Dataset, LoaderOptions)>;

    /// The backend's options of `train`, with those that follow from where rows are.
    fn backend(&self, flags: &TrainFlags, options: BackendOptions) -> BackendOptions;

    /// Refuses options of `train` without effect on the device that the run has.
    ///
    /// # Errors
    /// Bad usage.
    fn check_on_device(&self, flags: &TrainFlags, is_on_gpu: bool) -> anyhow::Result<()>;

    /// Whether batches with these options are drawn from larger neighbourhoods.
    fn draws(&self, options: &LoaderOptions) -> bool;

    /// The rows of the nodes in a file, in their order.
    ///
    /// # Errors
    /// The file cannot be read, or has a node without a row.
    fn rows_of_file(
        &self,
        dataset: &Dataset,
        file: &Path,
        problem: NodeFileProblem<'_>,
    ) -> anyhow::Result<Vec<i64>>;
}
