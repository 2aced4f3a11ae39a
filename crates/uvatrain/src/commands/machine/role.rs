//! The roles, which only the launcher starts.

use uva_launch::launcher::{Consume, Helper, Role, run_helper, run_role};
use uva_runtime::RuntimeError;

use super::probe;
use crate::flags::machine::{RoleArgs, RoleCommand};
use crate::models::Models;
use crate::ui::log;

/// Runs the process, in a program without models.
pub fn run(command: &RoleCommand) -> anyhow::Result<()> {
    match command {
        RoleCommand::Sampler(args) => take_part(Role::Sampler, args, None),
        RoleCommand::Producer(args) => take_part(Role::Producer, args, None),
        RoleCommand::Worker(args) => take_part(Role::Worker, args, None),
        RoleCommand::Consumer(args) => take_part(Role::Consumer, args, None),
        RoleCommand::Planner(args) => help(Helper::Planner, args),
        RoleCommand::Janitor(args) => help(Helper::Janitor, args),
        RoleCommand::Probe(args) => probe::run(args, None),
    }
}

/// The processes that [`run_with_models`] runs.
pub const WITH_MODELS: [&str; 2] = ["consumer", "probe"];

/// Runs the process in the program with these models.
///
/// # Panics
/// If the process is not one of [`WITH_MODELS`].
pub fn run_with_models(command: &RoleCommand, models: Models) -> anyhow::Result<()> {
    match command {
        RoleCommand::Consumer(args) => take_part(Role::Consumer, args, Some(models)),
        RoleCommand::Probe(args) => probe::run(args, Some(models)),
        _ => unreachable!("a process without models"),
    }
}

/// Runs the role to its end. It never returns: the launcher reads the exit code of the role.
fn take_part(role: Role, args: &RoleArgs, models: Option<Models>) -> ! {
    log::name_process(
        args.index.map_or_else(|| role.name().to_owned(), |index| format!("{} {index}", role.name())),
    );
    let consume = models.map_or(NO_MODELS, |models| models.consume);
    std::process::exit(run_role(role, args.channel, consume))
}

/// Runs a helper to its end. It never returns.
fn help(helper: Helper, args: &RoleArgs) -> ! {
    log::name_process(helper.name().to_owned());
    std::process::exit(run_helper(helper, args.channel))
}

/// The consumer of a program without models: a launcher starts it from the program with models.
const NO_MODELS: Consume =
    |_, _, _, _| Err(RuntimeError::missing("this program has no models: uvatrain-consumer has"));
