//! Commands that start runs, commands about runs and trained models, and their options.

mod evaluate;
mod plan;
mod predict;
mod report;
mod run;
mod train;

use clap::Subcommand;

pub use evaluate::EvaluateFlags;
pub use plan::PlanFlags;
pub use predict::{ModelFlags, PredictFlags};
pub use report::ReportFlags;
pub use run::RunFlags;
pub use train::TrainFlags;

/// Commands that start runs, and commands about runs and trained models, in the order of help.
#[derive(Subcommand, Debug)]
pub enum TrainingCommand {
    /// Train a built-in model
    Train(Box<TrainFlags>),
    /// Write the predictions of a trained model: classes, probabilities, hidden rows
    Predict(Box<PredictFlags>),
    /// Evaluate a trained model on the training, validation and test nodes
    Evaluate(Box<EvaluateFlags>),
    /// Prepare batches for a command of your own: `uvatrain run DATA -- python train.py`
    Run(Box<RunFlags>),
    /// Make an HTML page of metrics files: where the time went, speed, loss; compares runs
    Report(ReportFlags),
    /// Choose the neighbour lists and feature rows to cache, and write a plan
    Plan(Box<PlanFlags>),
}
