//! The built-in models, as passed in by the program that contains them.

use uva_launch::launcher::Consume;
use uva_launch::training::{Evaluate, Predict};

/// The functions that a program with libtorch adds.
#[derive(Clone, Copy, Debug)]
pub struct Models {
    /// Trains on the batches of a run.
    pub consume: Consume,
    /// Predicts with a trained model.
    pub predict: Predict,
    /// Evaluates a trained model.
    pub evaluate: Evaluate,
    /// Whether libtorch can use a GPU, and if not, why.
    pub torch_on_gpu: fn() -> Result<(), String>,
}
