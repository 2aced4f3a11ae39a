//! The settings of a trainer that determine how a batch is checked and prepared.

use crate::block::block_kernel::BlockPreparer;
use crate::torch::device::TrainDevice;
use tch::Kind;
use uva_model::{ModelKind, Task, TrainerOptions};

/// The trainer settings that a batch is prepared for.
#[derive(Clone, Copy)]
pub(crate) struct InputSettings<'t> {
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
