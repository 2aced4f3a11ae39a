//! The data of a model, and the choices that depend on its kind and its labels.

mod choose;
mod hop_data;
pub(super) mod labelled;
mod model_data;
pub(super) mod preflight;
mod sampled_data;
mod task;
mod typed_data;

pub(super) use choose::model_data;
pub(super) use model_data::ModelData;
pub use task::{class_weights, feature_columns, feature_element, task};
