//! Inference with a trained model: predictions and evaluation, on whole or on sampled neighbourhoods.
//!
//! `uva-train` computes whole neighbourhoods from the dataset's tables, on the CPU. Sampled ones come from the loader's
//! threads, as in training, and are used on the backend's device. Rows of a hop set contain whole neighbourhoods, and
//! are read from its files.

mod evaluate;
mod inference_rows;
mod output;
mod predict;
mod sampled;
mod stored_rows;

pub use evaluate::evaluate;
pub use predict::predict;
