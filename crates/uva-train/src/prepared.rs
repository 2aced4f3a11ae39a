//! A batch as tensors on the trainer's device, checked: what a forward and a backward pass read.

use crate::TrainError;
use crate::aggregate::Block;
use crate::borrowed::Borrowed;
use crate::input::{Batch, BatchInput, count_labelled, single_labels};
use crate::options::ModelKind;
use crate::trainer::Trainer;

/// A batch that has at least one seed.
pub(crate) struct Prepared<'a> {
    /// Feature rows of the input nodes, as they lie.
    pub(crate) rows: Borrowed<'a>,
    /// The seeds' labels, i64.
    pub(crate) targets: Borrowed<'a>,
    /// The hops, that at the seeds first.
    pub(crate) blocks: Vec<Block<'a>>,
}

impl<'a> Prepared<'a> {
    /// Checks the batch and wraps it, or returns `None` if no seed is known to have a label.
    pub(crate) fn new(trainer: &Trainer, batch: &Batch<'a>) -> Result<Option<Self>, TrainError> {
        match batch {
            Batch::Host(input) => Self::host(trainer, input),
        }
    }

    fn host(trainer: &Trainer, input: &BatchInput<'a>) -> Result<Option<Self>, TrainError> {
        let labels = single_labels(&input.labels)?;
        let model = trainer.options().model;
        input.check(trainer.options().layers, trainer.input_dim(), model == ModelKind::Gcn)?;
        if labels.len() != input.seeds() {
            return Err(TrainError::Input(format!("{} labels for {} seeds", labels.len(), input.seeds())));
        }
        if count_labelled(labels, trainer.classes())? == 0 {
            return Ok(None);
        }
        let blocks: Result<_, TrainError> = input
            .blocks
            .iter()
            .map(|block| Block::new(model, block, input.degrees, trainer.kind()))
            .collect();
        Ok(Some(Self { rows: input.feature_rows()?, targets: Borrowed::vector(labels)?, blocks: blocks? }))
    }
}
