//! The trainer: its steps, its optimiser and its checkpoints.

pub(crate) mod adam;
pub mod checkpoint;
pub(crate) mod embeddings;
pub(crate) mod late;
pub(crate) mod rehearsal;
pub(crate) mod trainer;
