//! What batches hold, whichever way they are prepared.

mod caches;
mod disk;
#[cfg(feature = "train")]
mod first_layer;
#[cfg(feature = "train")]
mod hops;
#[cfg(feature = "train")]
mod input_nodes;
mod measured;
#[cfg(feature = "train")]
mod orders;
#[cfg(feature = "train")]
mod pad;
#[cfg(feature = "train")]
mod whole;
