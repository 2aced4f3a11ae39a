//! Commands that start runs, and commands about runs and trained models.

mod evaluate;
mod plan;
mod predict;
mod report;
mod run;
mod train;

use super::needs::Needs;
use crate::flags::training::TrainingCommand;
use crate::models::Models;

/// What the command needs of the machine.
pub fn needs(command: &TrainingCommand) -> Needs {
    match command {
        TrainingCommand::Train(_) => Needs::PROCESSES_AND_THREADS.with_remedy(
            "; smaller --batch-size, --fanouts and --hidden, fewer --slots, --samplers and --train-threads, and --eval \
             sampled take less",
        ),
        TrainingCommand::Predict(_) | TrainingCommand::Evaluate(_) => Needs::PROCESSES_AND_THREADS
            .with_remedy("; --eval sampled, a smaller --batch-size with it, and fewer --threads take less"),
        TrainingCommand::Run(_) => Needs::PROCESSES_AND_THREADS.with_remedy(
            "; smaller --batch-size and --fanouts, and fewer --slots and --samplers take less",
        ),
        TrainingCommand::Plan(_) => Needs::PROCESSES_AND_THREADS
            .with_remedy("; smaller --batch-size and --fanouts, and fewer --samplers take less"),
        TrainingCommand::Report(_) => Needs::NOTHING,
    }
}

/// Runs the command, in a program without models.
pub fn run(command: &TrainingCommand) -> anyhow::Result<()> {
    match command {
        TrainingCommand::Train(flags) => train::run(flags, None),
        TrainingCommand::Predict(flags) => predict::run(flags, None),
        TrainingCommand::Evaluate(flags) => evaluate::run(flags, None),
        TrainingCommand::Run(flags) => run::run(flags),
        TrainingCommand::Plan(flags) => plan::run(flags),
        TrainingCommand::Report(flags) => report::run(flags),
    }
}

/// The commands that [`run_with_models`] runs.
pub const WITH_MODELS: [&str; 3] = ["train", "predict", "evaluate"];

/// Runs the command in the program with these models.
///
/// # Panics
/// If the command is not one of [`WITH_MODELS`].
pub fn run_with_models(command: &TrainingCommand, models: Models) -> anyhow::Result<()> {
    match command {
        TrainingCommand::Train(flags) => train::run(flags, Some(models)),
        TrainingCommand::Predict(flags) => predict::run(flags, Some(models)),
        TrainingCommand::Evaluate(flags) => evaluate::run(flags, Some(models)),
        _ => unreachable!("a command without models"),
    }
}
