//! Slots of device memory: their shape, the producer's filler with the sums that it begins, and the consumer's reader.

mod continued_sums;
pub(crate) mod filler;
pub(crate) mod oversized_batch;
pub(crate) mod read_back;
pub(crate) mod slot;
pub(crate) mod slot_reader;
pub(crate) mod sums;
