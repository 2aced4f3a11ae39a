//! The data of a run, if its kind makes a difference: neighbours sampled in a graph, or rows of a hop set.

use uva_options::OptionError;
use uva_runtime::backend::{Backend, BackendOptions, GatherChoice};
use uva_runtime::plan::RunPlan;
use uva_runtime::{LoaderOptions, RuntimeError};

use crate::training::aggregate::AggregateVerdict;
use crate::training::job::TrainingOptions;

/// The parts of a run that depend on its kind of data.
pub(crate) trait TrainingData {
    /// Checks the options, and completes those that depend on the data. Returns the backend to request.
    ///
    /// # Errors
    /// An option that is out of range, or not supported with this kind of data.
    fn check(
        &self,
        options: &mut TrainingOptions,
        loader: &mut LoaderOptions,
        backend: &BackendOptions,
        cached_on_gpu: bool,
    ) -> Result<BackendOptions, RuntimeError>;

    /// The place at which the first layer is aggregated.
    ///
    /// # Errors
    /// As [`AggregateVerdict::new`].
    fn aggregate(
        &self,
        options: &TrainingOptions,
        backend: &Backend,
        plan: &RunPlan,
        outputs: usize,
    ) -> Result<AggregateVerdict, RuntimeError>;

    /// The loader's options for training on a GPU, or on the CPU, with rows brought as requested.
    ///
    /// # Errors
    /// Rows in the memory of a GPU, without a GPU that trains.
    fn loader_for(
        &self,
        loader: LoaderOptions,
        on_gpu: bool,
        gather: GatherChoice,
    ) -> Result<LoaderOptions, OptionError>;

    /// Whether training rows go to the GPU's memory if they fit next to a batch.
    fn place_is_open(&self, on_gpu: bool, gather: GatherChoice) -> bool;
}
