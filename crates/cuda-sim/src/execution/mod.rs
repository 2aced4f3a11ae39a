//! Work on a device: streams, events, modules with kernels, copies, and sharing with other processes.

pub(crate) mod event;
pub(crate) mod green;
pub(crate) mod ipc;
mod kernels;
pub(crate) mod lifetime;
pub(crate) mod modules;
pub(crate) mod stamps;
pub(crate) mod stream;
pub(crate) mod transfers;
