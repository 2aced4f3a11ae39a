//! Memory of this process, and memory shared with other processes.

pub mod control;
mod fork_guard;
pub mod frozen;
pub(crate) mod huge_share;
pub mod region;
pub(crate) mod zeroed_pages;
