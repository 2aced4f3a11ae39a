//! The commands, one file each: a command takes the parsed options, calls the libraries, and prints.

mod bench;
mod data;
mod machine;
mod needs;
mod training;

use self::machine::role;
pub use self::machine::shell::shown_commands;
pub use self::needs::Needs;
use crate::flags::Command;
use crate::models::Models;

/// What the command needs of the machine, and which of its options lower its memory.
pub fn needs(command: &Command) -> Needs {
    match command {
        Command::Data(command) => data::needs(command),
        Command::Training(command) => training::needs(command),
        Command::Bench(command) => bench::needs(command),
        Command::Machine(command) => machine::needs(command),
        // A role checks for itself.
        Command::Role(_) => Needs::NOTHING,
    }
}

/// Runs the given command, in a program without models.
pub fn run(command: Command) -> anyhow::Result<()> {
    to_its_end(command, |command| match command {
        Command::Data(command) => data::run(&command),
        Command::Training(command) => training::run(&command),
        Command::Bench(command) => bench::run(&command),
        Command::Machine(command) => machine::run(&command),
        Command::Role(command) => role::run(&command),
    })
}

/// Runs the given command in the program with these models. The groups have separate lists for it, so that this program
/// is linked without the code of all other commands.
///
/// # Panics
/// If the command needs no models ([`with_models`]).
pub fn run_with_models(command: Command, models: Models) -> anyhow::Result<()> {
    to_its_end(command, |command| match command {
        Command::Training(command) => training::run_with_models(&command, models),
        Command::Role(command) => role::run_with_models(&command, models),
        _ => unreachable!("a command without models"),
    })
}

/// Whether a command of this name needs models.
pub fn with_models(name: &str) -> bool {
    training::WITH_MODELS.contains(&name) || role::WITH_MODELS.contains(&name)
}

/// Checks the machine for what the command requires, runs it, and lets a signal that arrived meanwhile end the process.
fn to_its_end(command: Command, execute: impl FnOnce(Command) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let done = needs(&command).check().and_then(|()| execute(command));
    crate::signals::ending::leave_to_signal();
    done
}
