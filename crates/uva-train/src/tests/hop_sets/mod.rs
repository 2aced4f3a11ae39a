//! Models of hop sets.

mod hop_models;
pub(crate) mod hop_rows;
mod hop_training;
