//! The input of a model: what its batches hold.

use crate::TrainError;
use crate::block::block_kernel::BlockPreparer;
use crate::input::prepared::{ArrayPlace, Prepared};
use crate::input::zeros::Zeros;
use crate::step::{Builder, Named};
use crate::torch::device::TrainDevice;
use tch::Kind;
use uva_batch::{BatchColumns, Column, ColumnKey};
use uva_model::{ModelKind, Task, TrainerOptions};

/// The parts of a model that depend on what its batches hold. Chosen once, for its network.
pub(crate) trait ModelInput: Send + Sync {
    /// The steps after the network's front, from rows of `shape.0` columns to `shape.1` logits.
    fn steps(&self, builder: &mut Builder<'_>, shape: (usize, usize)) -> Result<Vec<Named>, TrainError>;

    /// The column of the seeds' labels.
    fn labels(&self) -> ColumnKey {
        Column::Labels.into()
    }

    /// Refuses a batch that contradicts itself or the model.
    fn check(&self, settings: &InputSettings<'_>, batch: &BatchColumns<'_>) -> Result<(), TrainError>;

    /// The arrays of a checked batch that the model reads.
    fn prepare<'a>(
        &self,
        settings: &InputSettings<'_>,
        batch: &BatchColumns<'a>,
        place: ArrayPlace,
    ) -> Result<Prepared<'a>, TrainError>;

    /// A batch of zeros that fits the model.
    fn zeros<'z>(&self, settings: &InputSettings<'_>, zeros: &'z Zeros) -> BatchColumns<'z>;

    /// Refuses hidden rows of a model that has none.
    fn check_hidden(&self, _model: ModelKind) -> Result<(), TrainError> {
        Ok(())
    }

    /// Refuses passes over the whole graph of a model that makes none.
    fn check_full_pass(&self, _model: ModelKind) -> Result<(), TrainError> {
        Ok(())
    }
}

/// The trainer settings that a batch is checked and prepared for.
#[derive(Clone, Copy)]
pub(crate) struct InputSettings<'t> {
    pub(crate) input: &'t dyn ModelInput,
    pub(crate) model: ModelKind,
    /// Blocks of a batch.
    pub(crate) layers: usize,
    /// Feature columns.
    pub(crate) input_dim: usize,
    /// Features per edge; 0 if the model uses none.
    pub(crate) edge_dim: usize,
    pub(crate) options: &'t TrainerOptions,
    pub(crate) task: Task,
    pub(crate) kind: Kind,
    pub(crate) device: TrainDevice,
    /// Prepares blocks on the device.
    pub(crate) preparer: Option<&'t BlockPreparer>,
    /// Whether values are dropped, as in training.
    pub(crate) drops: bool,
}

/// The error for a batch that does not hold what the model takes.
pub(crate) fn another_input(model: ModelKind, found: &str, expected: &str) -> TrainError {
    TrainError::Input(format!("a batch of {found} for `model={}`, which takes {expected}", model.name()))
}
