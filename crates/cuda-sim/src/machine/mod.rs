//! The simulated machine: its devices, contexts and handles, and what settings make of them.
//!
//! `codes`, `types` and `functions` are the driver's vocabulary; `entry` answers which function has which address.

pub(crate) mod codes;
pub(crate) mod context;
pub(crate) mod device;
pub(crate) mod entry;
pub(crate) mod functions;
pub(crate) mod mps;
pub(crate) mod registry;
pub(crate) mod settings;
pub(crate) mod types;
