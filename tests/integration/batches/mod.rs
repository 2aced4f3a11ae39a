//! The contents of batches, for every way to prepare them.

mod caches;
mod disk;
#[cfg(feature = "train")]
mod first_layer;
#[cfg(feature = "train")]
mod hops;
mod host_pages;
#[cfg(feature = "train")]
mod input_nodes;
mod measured;
#[cfg(feature = "train")]
mod orders;
#[cfg(feature = "train")]
mod pad;
mod typed;
mod typed_disk;
#[cfg(feature = "train")]
mod whole;
