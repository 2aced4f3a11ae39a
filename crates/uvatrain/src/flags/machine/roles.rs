//! The arguments of processes that the launcher starts.

use std::path::PathBuf;

use clap::Args;

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
