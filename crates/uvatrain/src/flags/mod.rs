//! The command line's options, each declared once: parsing, defaults, limits and help text come from here.
//!
//! One file a group of commands. What can be checked without touching a file is checked here, by value parsers and
//! by the `check` methods; the rest is checked by the libraries, which know the data.

mod backend;
mod bench;
mod cache;
mod data;
mod declared;
mod duration;
mod loader;
mod machine;
mod report;
mod training;
mod within;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

pub use backend::BackendFlags;
pub use bench::{
    AggregateBenchFlags, BenchCommand, BenchSums, CacheBenchFlags, GatherBenchFlags, GatherPages,
    LoaderBenchFlags, PartitionBenchFlags, PcieBenchFlags, PipelineBenchFlags, RolesBenchFlags,
    SampleBenchFlags,
};
#[cfg(feature = "request-model")]
pub use bench::{Gpu, RequestsBenchFlags};
pub use cache::CacheFlags;
pub use data::{
    EdgeListFlags, EdgeListIds, ExportFlags, GenerateFlags, ImportFlags, ImportedFeatures, InfoFlags,
    OrderFlags, PartLayout, PartitionFlags, PropagateFlags, SelfLoopsFlag, ThirdColumnFlag,
};
pub use duration::Seconds;
pub use loader::LoaderFlags;
pub use machine::{
    CompletionsFlags, ManFlags, MpsCommand, MpsCommon, MpsStartFlags, ProbeArgs, RoleArgs, TopFlags,
};
pub use report::ReportFlags;
pub use training::{EvaluateFlags, ModelFlags, PlanFlags, PredictFlags, RunFlags, TrainFlags};

/// Train graph neural networks on graphs larger than GPU memory.
///
/// Sampler and producer processes prepare batches in parallel with training.
#[derive(Parser, Debug)]
#[command(
    name = "uvatrain",
    version,
    max_term_width = 110,
    disable_help_subcommand = true,
    after_help = "\
From nothing to a trained model:
  uvatrain generate data/demo --nodes 200000 --avg-degree 20 --feat-dim 100 --classes 12
  uvatrain info data/demo
  uvatrain train data/demo --model sage --epochs 3

`uvatrain help COMMAND` explains a command, as COMMAND --help does.
Exit codes: 0 success, 1 the run failed, 2 bad usage or input, 3 the machine lacks something that was
requested, 129, 130 and 143 after SIGHUP, SIGINT and SIGTERM. UVATRAIN_LOG=debug prints a trace of the
processes to stderr; UVATRAIN_LOG_FORMAT=json prints it as JSON lines."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,

    /// TOML file of options, with a section per command
    ///
    /// Options on the command line take precedence.
    #[arg(long, global = true, value_name = "FILE", help_heading = CONFIGURATION)]
    pub config: Option<PathBuf>,

    /// Print the options in force as such a file, and exit
    #[arg(long, global = true, help_heading = CONFIGURATION, hide_short_help = true)]
    pub print_config: bool,
}

const CONFIGURATION: &str = "Configuration";

/// What to do.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Generate a graph with planted classes
    Generate(Box<GenerateFlags>),
    /// Convert a graph in another format into a dataset
    Import(Box<ImportFlags>),
    /// Convert a dataset into a format of other programs
    Export(ExportFlags),
    /// Propagate features over the graph, for models that train without neighbours
    Propagate(Box<PropagateFlags>),
    /// Partition the nodes with few cut edges, and write the parts
    Partition(Box<PartitionFlags>),
    /// Show the content of a dataset, hop set or partition, and check it
    Info(InfoFlags),
    /// Train a built-in model
    Train(Box<TrainFlags>),
    /// Write the predictions of a trained model: classes, probabilities, hidden rows
    Predict(Box<PredictFlags>),
    /// Evaluate a trained model on the training, validation and test nodes
    Evaluate(Box<EvaluateFlags>),
    /// Prepare batches for a command of your own: `uvatrain run DATA -- python train.py`
    Run(Box<RunFlags>),
    /// Show the progress of a run: work and waits of each role, slots, speed, loss
    Top(TopFlags),
    /// Make an HTML page of metrics files: where the time went, speed, loss; compares runs
    Report(ReportFlags),
    /// Choose the neighbour lists and feature rows to cache, and write a plan
    Plan(Box<PlanFlags>),
    /// Order the training seeds by proximity in the graph, for `train --order`
    Order(OrderFlags),
    /// Measure parts of the pipeline on this machine
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Show what this machine has, what is missing, and how to install it
    Doctor(DoctorFlags),
    /// Start, show or stop an MPS daemon, through which processes share a GPU
    #[command(subcommand)]
    Mps(MpsCommand),
    /// Print shell completions of commands, options and values
    Completions(CompletionsFlags),
    /// Print the manual page, or write those of all commands to a directory
    Man(ManFlags),

    // The roles, which only the launcher starts. `ps` shows their names.
    /// The process that samples batches
    #[command(hide = true)]
    Sampler(RoleArgs),
    /// The process that gathers feature rows
    #[command(hide = true)]
    Producer(RoleArgs),
    /// The process of the workers, which do both
    #[command(hide = true)]
    Worker(RoleArgs),
    /// The process that trains
    #[command(hide = true)]
    Consumer(RoleArgs),
    /// The process that chooses what to cache
    #[command(hide = true)]
    Planner(RoleArgs),
    /// The process that cleans up after a killed launcher
    #[command(hide = true)]
    Janitor(RoleArgs),
    /// The process that looks for a GPU, so that no other has to touch CUDA for that
    #[command(hide = true)]
    Probe(ProbeArgs),
}

/// The options of `uvatrain doctor`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  uvatrain doctor")]
pub struct DoctorFlags {
    /// Directory of libtorch, if it is not found automatically
    #[arg(long, value_name = "DIR")]
    pub libtorch: Option<PathBuf>,

    /// Print the findings as one JSON object
    #[arg(long)]
    pub json: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Cli;

    #[test]
    fn the_declarations_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_visible_option_explains_itself_and_every_command_has_an_example() {
        for command in Cli::command().get_subcommands().filter(|c| !c.is_hide_set()) {
            let leaves: Vec<_> = match command.get_subcommands().count() {
                0 => vec![command],
                _ => command.get_subcommands().collect(),
            };
            for leaf in leaves {
                let name = leaf.get_name();
                assert!(leaf.get_about().is_some(), "{name} says nothing about itself");
                let after = leaf
                    .get_after_long_help()
                    .or(leaf.get_after_help())
                    .map(ToString::to_string)
                    .unwrap_or_default();
                assert!(after.contains("Example"), "{name} shows no example");
                for argument in leaf.get_arguments().filter(|a| a.get_id() != "help") {
                    assert!(argument.get_help().is_some(), "{name}: {} has no help", argument.get_id());
                }
            }
        }
    }
}
