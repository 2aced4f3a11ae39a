//! The three roles. Each is one loop that waits for input, waits for room, works and hands over; it neither knows nor
//! cares whether its peers are threads or processes.

mod consumer;
mod peer;
mod producer;
mod sampler;

pub use consumer::BatchReceiver;
pub(crate) use peer::{Leaving, Peer};
pub(crate) use producer::ProducerRole;
pub(crate) use sampler::SamplerRole;
