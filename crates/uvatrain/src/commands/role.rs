//! The roles: what the launcher starts, and nobody else.

use std::path::PathBuf;

use clap::Args;
use uva_runtime::launcher::{Consume, Role, run_role};

use crate::ui::log;

/// What the launcher tells a role on its command line; everything else comes over the inherited channel.
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

/// Runs the role to its end; never returns, since the launcher reads the exit code that the role's end has.
pub fn run(role: Role, args: &RoleArgs) -> ! {
    log::name_process(
        args.index.map_or_else(|| role.name().to_owned(), |index| format!("{} {index}", role.name())),
    );
    std::process::exit(run_role(role, args.channel, CONSUME))
}

#[cfg(feature = "train")]
const CONSUME: Consume = uva_runtime::training::consume;

/// This build has no models, and its `train` says so before it starts any role.
#[cfg(not(feature = "train"))]
const CONSUME: Consume =
    |_, _, _, _| Err(uva_runtime::RuntimeError::Missing(super::train::NO_MODELS.to_owned()));
