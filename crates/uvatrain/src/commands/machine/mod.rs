//! Commands about the machine and this program, and the processes that the launcher starts.

mod doctor;
mod mps;
mod probe;
pub mod role;
pub mod shell;
mod top;

use super::needs::Needs;
use crate::flags::machine::MachineCommand;

/// What the command needs of the machine.
pub fn needs(command: &MachineCommand) -> Needs {
    match command {
        MachineCommand::Mps(_) => Needs::PROCESSES,
        MachineCommand::Top(_)
        | MachineCommand::Doctor(_)
        | MachineCommand::Completions(_)
        | MachineCommand::Man(_) => Needs::NOTHING,
    }
}

/// Runs the command.
pub fn run(command: &MachineCommand) -> anyhow::Result<()> {
    match command {
        MachineCommand::Top(flags) => top::run(flags),
        MachineCommand::Doctor(flags) => doctor::run(flags),
        MachineCommand::Mps(command) => mps::run(command),
        MachineCommand::Completions(flags) => shell::completions(flags),
        MachineCommand::Man(flags) => shell::man(flags),
    }
}
