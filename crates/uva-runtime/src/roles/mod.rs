//! The three roles. Each is one loop that waits for input, waits for a slot, works and hands over. It is independent of
//! whether its peers are threads or processes.

mod back_pressure;
mod consumer;
mod producer;
mod sampler;
mod thread;

pub(crate) use back_pressure::BackPressure;
pub use consumer::BatchReceiver;
pub(crate) use producer::ProducerRole;
pub(crate) use sampler::{SamplerRole, Sampling};
pub(crate) use thread::ThreadName;
pub use thread::{RoleThreads, RoleWork};
