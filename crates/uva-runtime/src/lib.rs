//! The pipeline: samplers → batch slots → producer → feature slots → consumer.
//!
//! This crate ties the stages together and knows each of them by its front only: how a neighbourhood is sampled is
//! `uva-sample`'s, how rows are gathered `uva-rows`'s, how a slot is handed over `uva-mem`'s. The roles can run as
//! threads of the calling program ([`Runtime`]) or as processes ([`launcher`]); they are the same functions
//! ([`roles`]), and a batch is the same bytes in both.
//!
//! | module | what it holds |
//! |---|---|
//! | [`options`], [`schedule`], [`plan`] | what is asked for, which batch has which number, and what that takes |
//! | [`batch`] | how a batch lies in a slot, and the view of it that a consumer gets |
//! | [`backend`], [`device`] | where rows are gathered and batches used; feature slots on a GPU |
//! | [`cache`] | what is cached of the graph and of the rows |
//! | [`roles`] | sampler, producer and the receiving end of the consumer |
//! | [`pipeline`] | the roles as threads: the library's front |
//! | [`consumer`] | the same for a consumer that decides as it goes which pass comes next |
//! | [`launcher`] | the roles as processes |
//! | [`run`] | a run whose consumer is a command of the user's |
//! | [`training`] | a run whose consumer trains a built-in model |
//! | [`clock`] | the clock of all processes of a run |
//! | [`metrics`], [`trace`] | what a run tells about itself, as lines and as a timeline |
//! | [`machine`] | what the machine has to give before anything starts |
//! | [`gauges`] | what can be seen of a run under way |
//! | [`mps`] | the daemon through which producer and consumer share a GPU |
//!
//! What it must not know: command lines and terminals.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod backend;
pub mod batch;
pub mod cache;
mod checkpoint_files;
pub mod clock;
pub mod consumer;
pub mod control;
pub mod device;
mod error;
mod features;
pub mod gauges;
pub mod launcher;
pub mod machine;
pub mod memory;
pub mod metrics;
pub mod mps;
pub mod options;
pub mod pipeline;
pub mod plan;
mod preparation;
pub mod roles;
pub mod run;
pub mod schedule;
pub mod spec;
mod stage;
pub mod trace;
pub mod training;

pub use batch::Batch;
pub use error::RuntimeError;
pub use features::FeatureType;
pub use options::{Cursor, LoaderOptions, Passes};
pub use pipeline::{Runtime, RuntimeBuilder};
