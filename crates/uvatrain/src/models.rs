//! The built-in models, as a program that has them hands them in.

use uva_launch::launcher::Consume;
use uva_launch::training::{Evaluate, Predict};

/// The functions that a program with libtorch adds.
#[derive(Clone, Copy, Debug)]
pub struct Models {
    /// Trains on the batches of a run.
    pub consume: Consume,
    /// Predicts with a trained model.
    pub predict: Predict,
    /// Evaluates one.
    pub evaluate: Evaluate,
    /// Whether libtorch can use a GPU, and if not, why.
    pub torch_on_gpu: fn() -> Result<(), String>,
}
