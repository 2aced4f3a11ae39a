//! The command line's options, each declared once: parsing, defaults, limits and help text come from here.
//!
//! One file a group of commands. What can be checked without touching a file is checked here, by value parsers and
//! by the `check` methods; the rest is checked by the libraries, which know the data.

mod backend;
pub mod bench;
mod cache;
pub mod data;
mod declared;
mod duration;
mod loader;
pub mod machine;
pub mod training;
mod within;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

pub use backend::BackendFlags;
use bench::BenchCommand;
pub use cache::CacheFlags;
use data::DataCommand;
pub use duration::Seconds;
pub use loader::LoaderFlags;
use machine::{MachineCommand, RoleCommand};
use training::TrainingCommand;

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

/// What to do. Each group lists its commands; help shows them in this order.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Commands about datasets.
    #[command(flatten)]
    Data(DataCommand),
    /// Commands that start runs, and commands about runs and trained models.
    #[command(flatten)]
    Training(TrainingCommand),
    /// Measure parts of the pipeline on this machine
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Commands about the machine and this program.
    #[command(flatten)]
    Machine(MachineCommand),
    /// Processes that the launcher starts.
    #[command(flatten)]
    Role(RoleCommand),
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
