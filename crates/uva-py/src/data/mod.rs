//! Datasets and hop sets, opened and written.

pub mod dataset;
pub mod hop_set;
pub mod typed_dataset;
pub mod typed_writing;
pub mod writing;
