//! The roles, which only the launcher starts.

use uva_launch::launcher::{Consume, Helper, Role, run_helper, run_role};
use uva_runtime::RuntimeError;

use crate::flags::RoleArgs;
use crate::models::Models;
use crate::ui::log;

/// Runs the role to its end. It never returns: the launcher reads the exit code of the role.
pub fn run(role: Role, args: &RoleArgs, models: Option<Models>) -> ! {
    log::name_process(
        args.index.map_or_else(|| role.name().to_owned(), |index| format!("{} {index}", role.name())),
    );
    let consume = models.map_or(NO_MODELS, |models| models.consume);
    std::process::exit(run_role(role, args.channel, consume))
}

/// Runs a helper to its end. It never returns.
pub fn help(helper: Helper, args: &RoleArgs) -> ! {
    log::name_process(helper.name().to_owned());
    std::process::exit(run_helper(helper, args.channel))
}

/// The consumer of a program without models: a launcher starts it from the program with models.
const NO_MODELS: Consume =
    |_, _, _, _| Err(RuntimeError::missing("this program has no models: uvatrain-consumer has"));
