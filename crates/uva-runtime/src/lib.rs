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
//! | [`cache`] | cached lists and rows, as the roles have them |
//! | [`planning`] | what to cache and where to sample: measured before a run |
//! | [`roles`] | sampler, producer and the receiving end of the consumer |
//! | [`pipeline`] | the roles as threads: the library's front |
//! | [`consumer`] | the same for a consumer that decides as it goes which pass comes next |
//! | [`launcher`] | the roles as processes |
//! | [`run`] | a run whose consumer is a command of the user's |
//! | [`training`] | the built-in consumer (feature `train`) |
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
mod cache_counts;
mod checkpoint_files;
mod clock;
pub mod consumer;
pub mod control;
pub mod device;
mod error;
pub mod gauges;
pub mod launcher;
pub mod machine;
pub mod memory;
pub mod metrics;
pub mod mps;
pub mod options;
mod own_program;
mod peer;
pub mod pipeline;
pub mod plan;
pub mod planning;
mod preparation;
mod role_times;
pub mod roles;
pub mod run;
pub mod schedule;
mod stage;
pub mod trace;
#[cfg(feature = "train")]
pub mod training;
mod widening;

pub use batch::Batch;
pub use error::RuntimeError;
pub use options::{Cursor, LoaderOptions, Passes};
pub use pipeline::{Runtime, RuntimeBuilder};
pub use uva_batch::FeatureType;
