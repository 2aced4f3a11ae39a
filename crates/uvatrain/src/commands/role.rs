//! The roles: what the launcher starts, and nobody else.

use std::path::PathBuf;

use clap::Args;
use uva_runtime::RuntimeError;
use uva_runtime::launcher::{Consume, Role, run_role};

use crate::models::Models;
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
pub fn run(role: Role, args: &RoleArgs, models: Option<Models>) -> ! {
    log::name_process(
        args.index.map_or_else(|| role.name().to_owned(), |index| format!("{} {index}", role.name())),
    );
    let consume = models.map_or(NO_MODELS, |models| models.consume);
    std::process::exit(run_role(role, args.channel, consume))
}

/// A launcher starts the consumer from the program that has the models.
const NO_MODELS: Consume =
    |_, _, _, _| Err(RuntimeError::Missing("this program has no models: uvatrain-consumer has".to_owned()));
