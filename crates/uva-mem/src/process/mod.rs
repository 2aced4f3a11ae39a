//! Processes: spawning, exit, and the hand-over of descriptors.

pub(crate) mod end;
pub mod handover;
pub mod out_of_memory;
pub mod pidfd;
pub mod spawn;
