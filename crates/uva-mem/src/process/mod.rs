//! Processes: how they start and end, and what they hand each other.

pub(crate) mod end;
pub mod handover;
pub mod out_of_memory;
pub mod pidfd;
pub mod spawn;
