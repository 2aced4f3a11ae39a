//! Training on neighbours that are sampled in a graph.

use uva_graph::Dataset;
use uva_model::{ModelRow, TrainerOptions};
use uva_runtime::backend::{Backend, BackendOptions};
use uva_runtime::plan::RunPlan;
use uva_runtime::{LoaderOptions, RuntimeError, gather_by_cpu};

use super::model_data::ModelData;
use super::preflight;
use crate::training::aggregate::AggregateVerdict;
use crate::training::job::{EvaluateBy, TrainingOptions, trains_on_datasets};

/// Neighbours that are sampled in a graph.
pub(crate) struct SampledData<'d> {
    pub(crate) dataset: &'d Dataset,
}

impl ModelData for SampledData<'_> {
    fn check(
        &self,
        options: &mut TrainingOptions,
        loader: &mut LoaderOptions,
        backend: &BackendOptions,
        cached_on_gpu: bool,
    ) -> Result<BackendOptions, RuntimeError> {
        options.first_layer_given = loader.first_layer.is_some();
        options.check(loader)?;
        Ok(gather_by_cpu(backend, loader, self.dataset, cached_on_gpu))
    }

    fn aggregate(
        &self,
        options: &TrainingOptions,
        backend: &Backend,
        plan: &RunPlan,
        outputs: usize,
    ) -> Result<AggregateVerdict, RuntimeError> {
        Ok(AggregateVerdict::new(options, self.dataset, backend, plan, outputs)?)
    }

    fn refuses_timing(&self) -> Option<&'static str> {
        None
    }

    fn fits(&self, model: &ModelRow) -> bool {
        trains_on_datasets(model)
    }

    fn another(&self) -> [&'static str; 3] {
        ["a hop set", "a dataset", "the hop set"]
    }

    fn check_evaluation(&self, _by: EvaluateBy) -> Result<(), RuntimeError> {
        Ok(())
    }

    fn blocks(&self, model: &TrainerOptions) -> Option<usize> {
        Some(model.blocks())
    }

    fn check_memory(&self, model: &TrainerOptions) -> Result<(), RuntimeError> {
        preflight::check_whole_graph(self.dataset, model)
    }

    fn lacks(&self, _model: &TrainerOptions) -> Option<String> {
        None
    }
}
