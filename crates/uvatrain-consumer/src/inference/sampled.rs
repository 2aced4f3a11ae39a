//! Batches for a trained model, made as in its training.

use std::sync::Arc;

use uva_graph::{Dataset, Split};
use uva_launch::training::{TrainedModel, checkpoint_error, feature_element};
use uva_runtime::pipeline::consumer::{BatchStream, PassCursor, StreamSetup};
use uva_runtime::{Batch, FeatureType, LoaderOptions, RuntimeError};
use uva_train::{Trainer, checkpoint};

use crate::gpu;

/// The model, and the threads that make its batches.
pub(super) struct SampledInference {
    pub(super) trainer: Trainer,
    pub(super) batches: BatchStream,
}

impl SampledInference {
    /// Starts the threads, which expect passes over `split`.
    pub(super) fn start(dataset: Dataset, model: &TrainedModel, split: Split) -> Result<Self, RuntimeError> {
        let on_gpu = model.backend.cuda().is_some();
        let feature_type = FeatureType::Float32.for_models(feature_element(&dataset), on_gpu);
        let options = LoaderOptions { feature_type, ..model.loader.clone() };
        let dataset = Arc::new(dataset);
        let mut batches =
            BatchStream::in_this_process(dataset, &options, model.backend.clone(), StreamSetup::of(split))?;
        let gpu = gpu::prepare(batches.receiver())?;
        let mut trainer = checkpoint::load_model(&model.checkpoint, model.metric, gpu.device, model.threads)
            .map_err(checkpoint_error)?;
        if let Some((kernels, stream)) = gpu.ahead {
            trainer.prepare_blocks_by(kernels, stream);
        }
        Ok(Self { trainer, batches })
    }

    /// Makes this the next batch of a pass. The test after training is a pass of epoch 0.
    pub(super) fn go_to(&mut self, split: Split, epoch: u32, batch: u64) {
        self.batches.go_to(PassCursor { split, epoch, first: 0, batch });
    }

    /// The next batch of the pass; `None` after the last.
    pub(super) fn next(&mut self, stops: &dyn Fn() -> bool) -> Result<Option<Batch>, RuntimeError> {
        self.batches.next_batch(stops)
    }
}
