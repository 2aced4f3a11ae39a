//! Commands about the machine and this program, the processes that the launcher starts, and their options.

mod doctor;
mod mps;
mod roles;
mod shell;
mod top;

use clap::Subcommand;

pub use doctor::DoctorFlags;
pub use mps::{MpsCommand, MpsCommon, MpsStartFlags};
pub use roles::{ProbeArgs, RoleArgs, RoleCommand};
pub use shell::{CompletionsFlags, ManFlags};
pub use top::TopFlags;

/// Commands about the machine and this program, in the order of help.
#[derive(Subcommand, Debug)]
pub enum MachineCommand {
    /// Show the progress of a run: work and waits of each role, slots, speed, loss
    Top(TopFlags),
    /// Show what this machine has, what is missing, and how to install it
    Doctor(DoctorFlags),
    /// Start, show or stop an MPS daemon, through which processes share a GPU
    #[command(subcommand)]
    Mps(MpsCommand),
    /// Print shell completions of commands, options and values
    Completions(CompletionsFlags),
    /// Print the manual page, or write those of all commands to a directory
    Man(ManFlags),
}
