//! Datasets and hop sets, opened and written.

pub mod dataset;
pub mod hop_set;
pub mod writing;
