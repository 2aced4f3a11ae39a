//! Errors of checkpoints.

use std::io;
use std::path::PathBuf;

use uva_mem::files::is_about_the_name;

use super::durable::StepFailure;

/// The reason why a checkpoint could not be written or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// A system call failed: no space, no permission, a broken disk.
    #[error("checkpoint: cannot {doing} {}: {source}", path.display())]
    Io {
        /// The failed operation, such as `write`.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A file differs from its written content.
    #[error("checkpoint {} cannot be used: {problem}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The problem with it.
        problem: String,
    },
    /// The checkpoint is for another model, other options or another dataset. Nothing has been changed.
    #[error(
        "checkpoint {} is of another run: {differences} (give the options it was made with, or another \
         `checkpoint` folder)",
        path.display()
    )]
    Mismatch {
        /// The state file.
        path: PathBuf,
        /// Every field that differs, with both values.
        differences: String,
    },
    /// A parameter or moment is NaN or infinite, so the trainer's state is useless. Nothing has been written.
    #[error("not kept: {tensor} holds NaN or infinity (training diverged); the last checkpoint stays")]
    NotFinite {
        /// The tensor's name in the checkpoint.
        tensor: String,
    },
    /// libtorch or serde rejected the trainer's tensors or the caller's state.
    #[error("checkpoint: {0}")]
    Refused(String),
    /// The machine lacks a resource that the model needs.
    #[error("{0}")]
    Missing(String),
}

impl CheckpointError {
    /// Whether the machine lacks a needed resource (exit code 3).
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Missing(_))
    }

    /// Whether the user's input is the cause (exit code 2), and not the run (exit code 1).
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Mismatch { .. } | Self::Damaged { .. } => true,
            // The path is not a regular file.
            Self::Io { doing: "read", source, .. } => is_about_the_name(source),
            _ => false,
        }
    }
}

impl From<StepFailure> for CheckpointError {
    fn from(StepFailure { doing, path, source }: StepFailure) -> Self {
        Self::Io { doing, path, source }
    }
}
