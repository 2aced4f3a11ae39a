//! `uvatrain bench`: parts of the pipeline, measured one at a time on this machine.

mod aggregate;
mod cache;
mod gather;
mod loader;
mod partition;
mod pcie;
mod pipeline;
#[cfg(feature = "request-model")]
mod requests;
mod roles;
mod sample;
mod spread;
mod verify;

use crate::flags::BenchCommand;

/// Runs the requested bench.
pub fn run(command: &BenchCommand) -> anyhow::Result<()> {
    match command {
        BenchCommand::Sample(flags) => sample::run(flags),
        BenchCommand::Cache(flags) => cache::run(flags),
        BenchCommand::Gather(flags) => gather::run(flags),
        BenchCommand::Loader(flags) => loader::run(flags),
        BenchCommand::Aggregate(flags) => aggregate::run(flags),
        BenchCommand::Partition(flags) => partition::run(flags),
        BenchCommand::Pipeline(flags) => pipeline::run(flags),
        BenchCommand::Pcie(flags) => pcie::run(flags),
        BenchCommand::Roles(flags) => roles::run(flags),
        #[cfg(feature = "request-model")]
        BenchCommand::Requests(flags) => requests::run(flags),
    }
}
