//! Training on the rows of a hop set.

use uva_graph::{Dataset, Hops};
use uva_model::{ModelRow, TrainerOptions};
use uva_options::OptionError;
use uva_runtime::backend::{Backend, BackendOptions, GatherChoice};
use uva_runtime::plan::RunPlan;
use uva_runtime::{LoaderOptions, RuntimeError};

use super::model_data::ModelData;
use crate::training::aggregate::AggregateVerdict;
use crate::training::job::{EvaluateBy, TrainingOptions};

/// The rows of a hop set, which need no sampled neighbours.
pub(crate) struct HopData<'d> {
    dataset: &'d Dataset,
    hops: Hops<'d>,
}

impl<'d> HopData<'d> {
    pub(crate) fn new(dataset: &'d Dataset, hops: Hops<'d>) -> Self {
        Self { dataset, hops }
    }
}

impl ModelData for HopData<'_> {
    fn check(
        &self,
        options: &mut TrainingOptions,
        loader: &mut LoaderOptions,
        backend: &BackendOptions,
        _cached_on_gpu: bool,
    ) -> Result<BackendOptions, RuntimeError> {
        let stored = self.hops.per_operator();
        options.check_for_hops(stored, self.hops.operators())?;
        if let Some(batches) = &mut loader.hops {
            batches.tables = options.trainer().tables_read(stored);
        }
        // The fastest gather need not be measured: rows come by copies, or are on the GPU.
        let gather = match backend.gather {
            GatherChoice::Device => GatherChoice::Device,
            _ => GatherChoice::Dma,
        };
        Ok(BackendOptions { gather, ..backend.clone() })
    }

    fn aggregate(
        &self,
        _options: &TrainingOptions,
        _backend: &Backend,
        _plan: &RunPlan,
        _outputs: usize,
    ) -> Result<AggregateVerdict, RuntimeError> {
        Ok(AggregateVerdict::off("a hop set contains its sums"))
    }

    fn loader_for(
        &self,
        loader: LoaderOptions,
        on_gpu: bool,
        gather: GatherChoice,
    ) -> Result<LoaderOptions, OptionError> {
        match (on_gpu, gather) {
            (true, _) => Ok(loader.of_hops_on_gpu()),
            (false, GatherChoice::Device) => {
                let reason = "this run trains on the CPU: omit `place`, or use `device=cuda:0`";
                Err(OptionError::new("place", "gpu", reason))
            }
            (false, _) => Ok(loader),
        }
    }

    fn place_is_open(&self, on_gpu: bool, gather: GatherChoice) -> bool {
        on_gpu && gather == GatherChoice::Auto
    }

    fn refuses_timing(&self) -> Option<&'static str> {
        Some("workers copy the rows of a hop set, without sampling: give `samplers` and `train_threads`")
    }

    fn use_of_free_memory(&self) -> (&'static str, &'static str) {
        ("`place=auto`", "are for training rows")
    }

    fn fits(&self, model: &ModelRow) -> bool {
        model.reads_hops()
    }

    fn another(&self) -> [&'static str; 3] {
        ["a dataset", "a hop set", "the dataset"]
    }

    fn check_evaluation(&self, by: EvaluateBy) -> Result<(), RuntimeError> {
        match by {
            EvaluateBy::Full => Ok(()),
            EvaluateBy::Sampled => Err(RuntimeError::usage(format!(
                "not supported with hop sets, and {} is one: its rows contain whole neighbourhoods",
                self.dataset.path().display()
            ))
            .with_option("eval", "sampled")),
        }
    }

    fn blocks(&self, _model: &TrainerOptions) -> Option<usize> {
        None
    }

    fn lacks(&self, model: &TrainerOptions) -> Option<String> {
        let (stored, operators) = (self.hops.per_operator(), self.hops.operators());
        if operators != model.operators {
            return Some(format!(
                "its model requires hops of {} operators, but the hop set has {operators}",
                model.operators
            ));
        }
        (stored < model.hops)
            .then(|| format!("its model requires {} hops, but the hop set has {stored}", model.hops))
    }
}
