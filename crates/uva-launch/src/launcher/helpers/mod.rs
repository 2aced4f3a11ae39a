//! What the launcher's own processes run: a role, the planner, the janitor.

pub(crate) mod helper;
mod planner;
pub(crate) mod role_process;
