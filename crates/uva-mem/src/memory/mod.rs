//! Memory of this process, and memory that it shares with others.

pub mod control;
mod fork_guard;
pub mod frozen;
pub(crate) mod huge_share;
pub mod region;
pub(crate) mod zeroed_pages;
