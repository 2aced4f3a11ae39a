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

use super::needs::Needs;
use crate::flags::bench::BenchCommand;

/// What the bench needs of the machine.
pub fn needs(command: &BenchCommand) -> Needs {
    match command {
        BenchCommand::Sample(_) => {
            Needs::THREADS.with_remedy("; smaller --batch-size and --fanouts, and fewer --threads take less")
        }
        BenchCommand::Gather(_) => {
            Needs::THREADS.with_remedy("; a smaller table and fewer --threads take less")
        }
        BenchCommand::Pipeline(_) | BenchCommand::Cache(_) => {
            Needs::PROCESSES_AND_THREADS.with_remedy("; smaller --batch-size and --fanouts take less")
        }
        BenchCommand::Partition(_) => {
            Needs::THREADS.with_remedy("; smaller --batch-size and --fanouts take less")
        }
        BenchCommand::Pcie(_) => Needs::PROCESSES_AND_THREADS,
        // A bench opens datasets of any origin.
        _ => Needs::THREADS,
    }
}

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
