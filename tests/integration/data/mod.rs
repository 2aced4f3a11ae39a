//! Datasets: generated, imported, exported, divided, described.

mod datasets;
mod descriptions;
#[cfg(feature = "train")]
mod outputs;
mod partition;
mod parts;
mod propagate;
