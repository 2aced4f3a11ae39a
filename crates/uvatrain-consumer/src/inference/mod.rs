//! A trained model in use: predictions and evaluation, with whole neighbourhoods or with sampled ones.
//!
//! Whole neighbourhoods are computed by `uva-train` from the dataset's tables, on the CPU. Sampled ones come through
//! the loader's threads, as in training, and are used where the backend says. Rows of a hop set hold whole
//! neighbourhoods, and are read from its files.

mod evaluate;
mod output;
mod predict;
mod sampled;
mod stored_rows;

pub use evaluate::evaluate;
pub use predict::predict;
