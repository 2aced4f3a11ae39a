//! Errors of training, grouped by what the user can do about them.

use std::io;
use std::path::{Path, PathBuf};

use uva_model::{EmbeddingShape, OptionsError};

use crate::cuda::TorchCudaError;

/// The reason why a trainer could not be made, or could not process a batch.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// An option or the dataset does not permit a model.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// A batch, or the dataset's tables, contradict themselves or the model.
    #[error("{0}")]
    Input(String),
    /// The loss became NaN or infinite. This batch has not changed the model.
    #[error(
        "training diverged: the loss of batch {} of epoch {} is {loss} (lower `lr`, or look for NaN features with \
         `uvatrain info --verify`)",
        u64::from(*batch) + 1,
        u64::from(*epoch) + 1
    )]
    Diverged {
        /// Epoch of the batch, from 0.
        epoch: u32,
        /// Batch in the epoch, from 0.
        batch: u32,
        /// The loss: NaN or an infinity.
        loss: f32,
    },
    /// The row of a node in the table of its type became NaN or infinite. This batch has not changed the model.
    #[error(
        "training diverged: in epoch {} the row of {node_type} {node} in its table is not a finite number (lower `lr`)",
        u64::from(*epoch) + 1
    )]
    RowDiverged {
        /// Epoch of the batch, from 0.
        epoch: u32,
        /// The node type.
        node_type: String,
        /// The node.
        node: i64,
    },
    /// The system refused the memory of a table.
    #[error(
        "no memory for the table of node type {}, {} rows of {} numbers, and its moments: {source} (a smaller \
         `embedding_dim` needs less)",
        shape.name, shape.rows, shape.columns
    )]
    Embedding {
        /// The table.
        shape: EmbeddingShape,
        /// The system's error.
        source: io::Error,
    },
    /// The model's output for a node is NaN or infinite.
    #[error(
        "the model's output for {} is not a finite number: features of the node or of its neighbours are NaN or infinite \
         (`uvatrain info DATA --verify` names the first such value), or the training diverged",
        seed_name(*node, *seed)
    )]
    NotFinite {
        /// The first such node, if the caller knows its id.
        node: Option<i64>,
        /// Its position among the seeds of the batch.
        seed: usize,
    },
    /// The caller refused to confirm the batch; its reason follows. This batch has not changed the model.
    #[error("{0}")]
    Unconfirmed(String),
    /// The caller stopped a pass.
    #[error("stopped")]
    Stopped,
    /// libtorch cannot use the requested CUDA device.
    #[error(transparent)]
    Cuda(#[from] TorchCudaError),
    /// The system refused a file of a pass's tables.
    #[error("{}: cannot keep a table between two layers there: {source}", directory.display())]
    Table {
        /// Its directory.
        directory: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The system does not permit libtorch's threads.
    #[error(
        "{threads} threads of libtorch cannot be started: {source}: use fewer, or raise the limit on \
         processes and threads (ulimit -u, or a container's pids limit) or on memory (ulimit -v, ulimit -d)"
    )]
    Threads {
        /// The number, with the caller's.
        threads: usize,
        /// The system's error.
        source: io::Error,
    },
    /// The driver refused a call.
    #[error(transparent)]
    Driver(#[from] uva_cuda::CudaError),
    /// libtorch refused an operation or ran out of memory.
    #[error("libtorch: {}{}", first_line(.0), out_of_memory_hint(.0))]
    Torch(#[from] tch::TchError),
}

impl TrainError {
    /// The error of a table in `directory`, for `map_err`.
    pub(crate) fn table(directory: &Path) -> impl FnOnce(io::Error) -> Self + use<'_> {
        |source| Self::Table { directory: directory.to_owned(), source }
    }

    /// Adds the node's id from the ids of the seeds.
    #[must_use]
    pub fn of_seeds(self, seeds: &[i64]) -> Self {
        match self {
            Self::NotFinite { node: None, seed } => Self::NotFinite { node: seeds.get(seed).copied(), seed },
            other => other,
        }
    }

    /// Whether the machine lacks a requested resource (exit code 3).
    pub fn is_missing(&self) -> bool {
        match self {
            Self::Cuda(error) => error.is_missing(),
            Self::Threads { .. } | Self::Embedding { .. } => true,
            _ => false,
        }
    }

    /// Whether options or data are to blame (exit code 2), and not the run (exit code 1).
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Options(_) | Self::Input(_))
    }
}

/// What to do if the model's own tensors do not fit into the memory left by the slots.
fn out_of_memory_hint(error: &tch::TchError) -> &'static str {
    let text = error.to_string();
    if text.contains("out of memory") || text.contains("OutOfMemory") {
        " (the model's activations need less with a smaller `batch_size`, `fanouts` or `hidden`, the feature slots with \
         fewer `slots`)"
    } else {
        ""
    }
}

/// libtorch's messages carry a C++ stack trace after their first line.
fn first_line(error: &tch::TchError) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

/// Lists that contradict themselves are bad input.
impl From<uva_ops::lists::ListsError> for TrainError {
    fn from(error: uva_ops::lists::ListsError) -> Self {
        Self::Input(error.to_string())
    }
}

fn seed_name(node: Option<i64>, seed: usize) -> String {
    match node {
        Some(node) => format!("node {node}"),
        None => format!("seed {seed} of a batch"),
    }
}
