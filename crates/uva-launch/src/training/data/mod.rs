//! The data of a training run, and the choices that depend on its kind and its labels.

mod hop_data;
pub(super) mod labelled;
mod sampled_data;
mod task;
mod training_data;

pub(super) use hop_data::HopData;
pub(super) use sampled_data::SampledData;
pub(super) use task::outputs;
pub use task::{class_weights, task};
pub(super) use training_data::TrainingData;
