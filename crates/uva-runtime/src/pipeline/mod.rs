//! The stages of a run at work.
//!
//! | file | holds |
//! |---|---|
//! | `makers` | the making of batches for each kind of data |
//! | [`roles`] | sampler, producer, worker, and the receiving end of the consumer |
//! | [`wiring`] | connecting the stages of one process |
//! | `runtime` | the roles as threads: the library's front end |
//! | [`consumer`] | batches for a consumer that chooses its passes |
//! | [`dry_run`] | the processes and memory of a run |

pub mod consumer;
pub mod dry_run;
mod makers;
pub mod roles;
mod runtime;
pub mod wiring;

pub use runtime::{Runtime, RuntimeBuilder};
