//! A run in processes from its start to its result: launch, event loop, verdict.

mod command_state;
mod command_watch;
mod fleet;
pub(crate) mod launch;
pub(crate) mod lifecycle;
mod verdict;
mod watch;
