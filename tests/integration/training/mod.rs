//! Training, evaluation, prediction, and what they write.

#[cfg(feature = "train")]
mod checkpoint_fields;
#[cfg(feature = "train")]
mod class_balance;
mod cores;
#[cfg(feature = "train")]
mod embeddings;
#[cfg(feature = "train")]
mod hop_predictions;
#[cfg(feature = "train")]
mod memory;
#[cfg(feature = "train")]
mod models;
#[cfg(feature = "train")]
mod predict;
#[cfg(feature = "train")]
mod predict_ends;
#[cfg(all(feature = "train", feature = "parquet"))]
mod predict_tables;
#[cfg(feature = "train")]
mod targets;
#[cfg(feature = "train")]
mod train;
#[cfg(feature = "train")]
mod typed;
#[cfg(feature = "train")]
mod unlabelled;
