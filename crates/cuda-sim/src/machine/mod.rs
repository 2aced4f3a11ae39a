//! The simulated machine: its devices, contexts and handles, configured by settings.
//!
//! `codes`, `types` and `functions` are the driver's vocabulary; `entry` maps functions to addresses.

pub(crate) mod codes;
pub(crate) mod context;
pub(crate) mod device;
pub(crate) mod entry;
pub(crate) mod functions;
pub(crate) mod mps;
pub(crate) mod registry;
pub(crate) mod settings;
pub(crate) mod types;
