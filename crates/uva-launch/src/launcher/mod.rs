//! Starts the roles as processes, watches them and ends them. Never touches CUDA or libtorch itself.
//!
//! | what happens | what the launcher does | exit code |
//! |---|---|---|
//! | every role ends well | reaps them, writes the `end` line | 0 |
//! | a role dies or fails | stops the others, names the role, the cause and the batch | 1, or the role's own 2 or 3 |
//! | SIGINT or SIGTERM, once | has the consumer finish its batch and write a checkpoint, then stops the others | 130, 143 |
//! | the same again | kills every role at once | 130, 143 |
//! | the launcher itself is killed | the kernel kills the roles; the janitor verifies this and cleans up | – |
//! | the observer fails (a full disk, for example) | stops every role | the observer's |
//!
//! If the consumer is a user's command, `command_watch` lists the meaning of its exits.
//!
//! Afterwards no process of the run is left. Every region is a memfd and every socket an unnamed pair, so both vanish
//! with the last process that holds them. A checkpoint that was being written is removed by name. An MPS daemon that
//! the launcher started is stopped, and its directories are removed.

mod command;
mod helpers;
mod process;
mod supervision;
mod wire;

pub use crate::checkpoint_files::CheckpointDirectory;
pub use command::attach::{Attached, attach, attach_as};
pub use command::user_command::UserCommand;
pub use helpers::helper::run as run_helper;
pub use helpers::role_process::{Consume, run as run_role};
pub use process::environments::Environments;
pub(crate) use process::environments::without_mps;
pub use supervision::launch::{Consumer, Launch};
pub use supervision::lifecycle::{Launcher, Outcome};
pub use uva_runtime::plan::topology::Role;
pub use wire::address::VARIABLE;
pub use wire::messages::Helper;
pub use wire::protocol::protocol;
