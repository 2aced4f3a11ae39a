//! The built-in consumer: a model trained on the batches of a run, as the launcher asks for it.
//!
//! It ties `uva-runtime`, which hands over batches, to `uva-train`, which computes. Programs that link this crate load
//! libtorch: of the programs here that is `uvatrain-consumer` alone. It must not know command lines and terminals, nor
//! how a batch travels.
//!
//! Next: [`session`] is what happens to the batches; [`consume`] is the job that a launcher hands over; [`inference`] uses
//! a trained model.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod gpu;
pub mod inference;
pub mod session;
mod stage_times;
mod trial;
mod work;

pub use gpu::torch_on_gpu;
pub use work::consume;
