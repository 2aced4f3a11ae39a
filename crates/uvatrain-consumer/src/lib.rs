//! The built-in consumer: trains a model on the batches of a run, as the launcher requests.
//!
//! It connects `uva-runtime`, which hands over batches, to `uva-train`, which computes. Programs that link this crate
//! load libtorch: in this workspace only `uvatrain-consumer` does. The crate must not depend on command lines and
//! terminals, nor on the transport of batches.
//!
//! [`session`] processes the batches; [`consume`] runs the job that a launcher hands over; [`inference`] uses a trained
//! model.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod gpu;
pub mod inference;
pub mod session;
mod stage_times;
mod trial;
mod whole_rows;
mod work;

pub use gpu::torch_on_gpu;
pub use work::consume;
