//! Training on the rows of a hop set.

use uva_graph::Hops;
use uva_options::OptionError;
use uva_runtime::backend::{Backend, BackendOptions, GatherChoice};
use uva_runtime::plan::RunPlan;
use uva_runtime::{LoaderOptions, RuntimeError};

use super::training_data::TrainingData;
use crate::training::aggregate::AggregateVerdict;
use crate::training::job::TrainingOptions;

/// The rows of a hop set, which need no sampled neighbours.
pub(crate) struct HopData<'d> {
    hops: Hops<'d>,
}

impl<'d> HopData<'d> {
    pub(crate) fn new(hops: Hops<'d>) -> Self {
        Self { hops }
    }
}

impl TrainingData for HopData<'_> {
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
}
