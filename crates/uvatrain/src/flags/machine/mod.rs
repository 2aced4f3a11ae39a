//! Options of commands about the machine and this program, and of those that the launcher starts.

mod mps;
mod roles;
mod shell;
mod top;

pub use mps::{MpsCommand, MpsCommon, MpsStartFlags};
pub use roles::{ProbeArgs, RoleArgs};
pub use shell::{CompletionsFlags, ManFlags};
pub use top::TopFlags;
