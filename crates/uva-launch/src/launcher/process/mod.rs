//! Processes on this machine: children, their environments and signals, and the janitor that cleans up after them.

pub(crate) mod child;
pub(crate) mod environments;
pub(crate) mod janitor;
pub(crate) mod member;
pub(crate) mod signals;
