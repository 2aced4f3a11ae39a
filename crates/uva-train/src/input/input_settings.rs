//! The settings of a trainer that decide which batches it takes, and what becomes of them.

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
    /// Features of an edge; 0 where the model takes none.
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
