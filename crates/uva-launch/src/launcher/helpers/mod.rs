//! The processes of the launcher: roles, the planner, the janitor.

pub(crate) mod helper;
mod planner;
pub(crate) mod role_process;
