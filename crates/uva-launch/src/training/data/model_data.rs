//! The data that a model is trained or used on: neighbours sampled in a graph, or rows of a hop set.

use uva_model::{ModelRow, TrainerOptions};
use uva_options::OptionError;
use uva_runtime::backend::{Backend, BackendOptions, GatherChoice};
use uva_runtime::plan::RunPlan;
use uva_runtime::{LoaderOptions, RuntimeError};

use crate::training::aggregate::AggregateVerdict;
use crate::training::job::{EvaluateBy, TrainingOptions};

/// The parts of a training, and of the use of a trained model, that depend on the kind of data.
pub(crate) trait ModelData {
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
        _on_gpu: bool,
        _gather: GatherChoice,
    ) -> Result<LoaderOptions, OptionError> {
        Ok(loader)
    }

    /// Whether training rows go to the GPU's memory if they fit next to a batch.
    fn place_is_open(&self, _on_gpu: bool, _gather: GatherChoice) -> bool {
        false
    }

    /// The reason why the stages of a run on the CPU cannot be timed; `None` if they can.
    fn refuses_timing(&self) -> Option<&'static str>;

    /// The option that uses the memory that a batch leaves free on a GPU, and its use, for people.
    fn use_of_free_memory(&self) -> (&'static str, &'static str) {
        ("`gpu_cache=auto`", "may be cached")
    }

    /// Whether this model reads such data.
    fn fits(&self, model: &ModelRow) -> bool;

    /// What a model of other data is of, what this data is, and what to name instead.
    fn another(&self) -> [&'static str; 3];

    /// Checks the way in which a trained model is evaluated.
    ///
    /// # Errors
    /// A way that this data does not have.
    fn check_evaluation(&self, by: EvaluateBy) -> Result<(), RuntimeError>;

    /// The number of blocks of a batch for a trained model, if it has any.
    fn blocks(&self, model: &TrainerOptions) -> Option<usize>;

    /// Checks the memory for an evaluation with whole neighbourhoods.
    ///
    /// # Errors
    /// [`RuntimeError::Missing`] if there is too little.
    fn check_memory(&self, _model: &TrainerOptions) -> Result<(), RuntimeError> {
        Ok(())
    }

    /// What this data lacks for a trained model; `None` if nothing.
    fn lacks(&self, model: &TrainerOptions) -> Option<String>;
}
