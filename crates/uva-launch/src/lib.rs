//! A run as processes: the launcher starts the roles of `uva-runtime`, watches them, and ends them.
//!
//! | module | holds |
//! |---|---|
//! | [`launcher`] | the launcher, its helper processes, and a command that attaches to a run |
//! | [`output_paths`] | files that an output must not replace |
//! | [`places`] | GPUs and roles by the words that name them |
//! | [`ranks`] | how many processes of a command divide its epochs, on which GPUs, and who samples for them |
//! | [`run`] | a run whose consumer is a command of the user's |
//! | [`training`] | a run whose consumer trains a built-in model |
//! | [`mps`] | the daemon through which producer and consumer share a GPU |
//!
//! What it must not know: how a batch is made (`uva-runtime`), libtorch (`uvatrain-consumer`), command lines and
//! terminals (`uvatrain`).
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod checkpoint_files;
pub mod launcher;
pub mod mps;
pub mod output_paths;
pub mod places;
mod preparation;
pub mod ranks;
pub mod run;
pub mod training;
