//! The roles: what the launcher starts, and nobody else.

use uva_launch::launcher::{Consume, Helper, Role, run_helper, run_role};
use uva_runtime::RuntimeError;

use crate::flags::RoleArgs;
use crate::models::Models;
use crate::ui::log;

/// Runs the role to its end; never returns, since the launcher reads the exit code that the role's end has.
pub fn run(role: Role, args: &RoleArgs, models: Option<Models>) -> ! {
    log::name_process(
        args.index.map_or_else(|| role.name().to_owned(), |index| format!("{} {index}", role.name())),
    );
    let consume = models.map_or(NO_MODELS, |models| models.consume);
    std::process::exit(run_role(role, args.channel, consume))
}

/// Runs a helper to its end, likewise.
pub fn help(helper: Helper, args: &RoleArgs) -> ! {
    log::name_process(helper.name().to_owned());
    std::process::exit(run_helper(helper, args.channel))
}

/// A launcher starts the consumer from the program that has the models.
const NO_MODELS: Consume =
    |_, _, _, _| Err(RuntimeError::missing("this program has no models: uvatrain-consumer has"));
