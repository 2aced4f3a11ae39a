//! Training on neighbours that are sampled in a typed graph.

use uva_graph::Dataset;
use uva_model::{ModelGraph, ModelRow, TrainerOptions};
use uva_runtime::backend::{Backend, BackendOptions};
use uva_runtime::plan::RunPlan;
use uva_runtime::{LoaderOptions, RuntimeError};

use super::model_data::ModelData;
use super::preflight;
use crate::training::aggregate::AggregateVerdict;
use crate::training::job::{EvaluateBy, TrainingOptions};
use crate::training::relation_training::of_one_relation;

/// Neighbours that are sampled in a graph of several node types or relations.
pub(crate) struct TypedData<'d> {
    pub(crate) dataset: &'d Dataset,
}

impl ModelData for TypedData<'_> {
    fn check(
        &self,
        options: &mut TrainingOptions,
        loader: &mut LoaderOptions,
        backend: &BackendOptions,
        _cached_on_gpu: bool,
    ) -> Result<BackendOptions, RuntimeError> {
        options.check(loader)?;
        if !self.fits(options.model.row()) {
            return Err(of_one_relation(options.model).into());
        }
        Ok(loader.backend_of(self.dataset, backend)?.0)
    }

    fn aggregate(
        &self,
        _options: &TrainingOptions,
        _backend: &Backend,
        _plan: &RunPlan,
        _outputs: usize,
    ) -> Result<AggregateVerdict, RuntimeError> {
        Ok(AggregateVerdict::off("each relation has its own sums"))
    }

    fn refuses_timing(&self) -> Option<&'static str> {
        Some(
            "the stages of typed graphs are not timed yet: give `samplers`, `gather_threads` and `train_threads`",
        )
    }

    fn fits(&self, model: &ModelRow) -> bool {
        model.reads_relations()
    }

    fn another(&self) -> [&'static str; 3] {
        ["a graph of one node type and one relation", "a typed graph", "the dataset"]
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

    fn lacks(&self, model: &TrainerOptions) -> Option<String> {
        let here = ModelGraph::of(self.dataset, self.dataset.seed_type());
        let difference = model.graph.as_ref()?.difference_to(&here)?;
        Some(format!(
            "its model is for another typed graph than {}: {difference}",
            self.dataset.path().display()
        ))
    }
}
