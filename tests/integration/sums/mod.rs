//! Sums of the first layer computed by the producer.

#[cfg(feature = "train")]
mod aggregate;
mod aggregate_auto;
#[cfg(feature = "train")]
mod aggregate_cached;
mod aggregate_gpu;
#[cfg(feature = "train")]
mod bench_aggregate;
