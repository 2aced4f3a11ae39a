//! Hop sets on disk: description, checks, and their use as datasets.

pub(crate) mod description;
mod first_layer;
mod row_dataset;
