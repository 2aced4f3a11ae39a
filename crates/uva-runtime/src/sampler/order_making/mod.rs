//! Creation of the order of a run's training seeds, from the graph or from a file, with as few sequences as the labels
//! of batches allow.

mod file;
mod label_error;
mod make;

pub use file::write;
pub(crate) use make::in_batches;
pub use make::{epoch_order, sequences};
