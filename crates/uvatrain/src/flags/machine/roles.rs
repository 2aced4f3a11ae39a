//! The arguments of processes that the launcher starts.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// The processes that the launcher starts. Their names are what `ps` shows.
#[derive(Subcommand, Debug)]
pub enum RoleCommand {
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

/// The arguments of a role's command line. The launcher sends everything else over the inherited channel.
#[derive(Args, Clone, Debug)]
pub struct RoleArgs {
    /// The file descriptor of the channel to the launcher.
    #[arg(long)]
    pub channel: i32,

    /// Which of several samplers; shown by `ps`.
    #[arg(long)]
    pub index: Option<usize>,

    /// The launcher's process number; shown by `ps`.
    #[arg(long)]
    pub of: Option<u32>,

    /// The dataset; shown by `ps`.
    #[arg(long)]
    pub dataset: Option<PathBuf>,
}

/// What to look for.
#[derive(Args, Clone, Debug)]
pub struct ProbeArgs {
    /// The driver and its devices alone.
    #[arg(long)]
    pub driver_only: bool,

    /// Whether cuFile reads these files into the memory of this GPU, and nothing else.
    #[arg(long, value_name = "GPU", conflicts_with = "driver_only", requires = "files")]
    pub cufile: Option<usize>,

    /// The files.
    #[arg(value_name = "FILE", requires = "cufile")]
    pub files: Vec<PathBuf>,
}
