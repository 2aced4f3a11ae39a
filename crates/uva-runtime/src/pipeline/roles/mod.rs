//! The roles. Each role is one loop that waits for input, waits for a slot, works and hands over. It does not depend on
//! whether its peers are threads or processes. Samplers and producer divide the work on a batch; workers do all of it.

mod back_pressure;
mod consumer;
mod producer;
mod sampler;
mod sampler_end;
mod taken_ahead;
mod thread;
mod worker;

pub(crate) use back_pressure::BackPressure;
pub use consumer::BatchReceiver;
pub(crate) use producer::ProducerRole;
pub(crate) use sampler::SamplerRole;
pub(crate) use sampler_end::SamplerEnd;
pub(crate) use thread::ThreadName;
pub use thread::{RoleThreads, RoleWork};
pub(crate) use worker::{WorkerContext, WorkerRole};
