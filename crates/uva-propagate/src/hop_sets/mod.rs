//! Hop sets on disk: description, checks, and their use as datasets.

mod as_dataset;
pub(crate) mod description;
mod first_layer;
