//! Commands that make, convert, divide and describe datasets.

mod batch;
mod export;
mod generate;
mod import;
mod info;
mod order;
mod partition;
mod propagate;

use super::needs::Needs;
use crate::flags::data::DataCommand;

/// What the command needs of the machine.
pub fn needs(command: &DataCommand) -> Needs {
    match command {
        DataCommand::Generate(_) => Needs::THREADS.with_remedy(
            "; fewer --nodes, a smaller --avg-degree or --feat-dim, and fewer --threads take less",
        ),
        DataCommand::Import(_) | DataCommand::Propagate(_) | DataCommand::Partition(_) => {
            Needs::THREADS.with_remedy("; a smaller --memory takes less")
        }
        DataCommand::Batch(_) => Needs::THREADS.with_remedy("; smaller --batch-size and --fanouts take less"),
        DataCommand::Export(_) | DataCommand::Order(_) | DataCommand::Info(_) => Needs::THREADS,
    }
}

/// Runs the command.
pub fn run(command: &DataCommand) -> anyhow::Result<()> {
    match command {
        DataCommand::Generate(flags) => generate::run(flags),
        DataCommand::Import(flags) => import::run(flags),
        DataCommand::Export(flags) => export::run(flags),
        DataCommand::Propagate(flags) => propagate::run(flags),
        DataCommand::Partition(flags) => partition::run(flags),
        DataCommand::Order(flags) => order::run(flags),
        DataCommand::Batch(flags) => batch::run(flags),
        DataCommand::Info(flags) => info::run(flags),
    }
}
