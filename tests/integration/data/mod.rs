//! Datasets: generated, imported, exported, divided, described.

mod batch;
mod datasets;
mod descriptions;
#[cfg(feature = "train")]
mod outputs;
mod partition;
mod parts;
mod propagate;
mod typed;
mod typed_imports;
