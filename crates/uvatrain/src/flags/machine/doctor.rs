//! The options of `uvatrain doctor`.

use std::path::PathBuf;

use clap::Args;

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
