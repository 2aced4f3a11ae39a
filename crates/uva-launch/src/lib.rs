//! A run as processes: the launcher starts the roles of `uva-runtime`, watches them, and ends them.
//!
//! | module | holds |
//! |---|---|
//! | [`launcher`] | the launcher, its helper processes, and a command that attaches to a run |
//! | [`output_paths`] | files that an output must not replace |
//! | [`places`] | GPUs and roles, parsed from options |
//! | [`ranks`] | the processes of a command that divide its epochs, their GPUs, and their samplers |
//! | [`run`] | a run whose consumer is a user's command |
//! | [`training`] | a run whose consumer trains a built-in model |
//! | [`mps`] | the daemon through which producer and consumer share a GPU |
//!
//! This crate must not know the making of batches (`uva-runtime`), libtorch (`uvatrain-consumer`), command lines and
//! terminals (`uvatrain`).
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod checkpoint_files;
mod data_report;
pub mod launcher;
pub mod mps;
pub mod output_paths;
pub mod places;
mod preparation;
pub mod ranks;
pub mod run;
pub mod training;
