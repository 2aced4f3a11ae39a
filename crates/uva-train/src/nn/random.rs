//! The few random numbers of training other than dropout, from a generator that does not depend on the libtorch
//! version.

use uva_graph::mix;

/// The seed of dropout for one batch.
pub(crate) fn batch_seed(seed: u64, epoch: u32, batch: u32) -> i64 {
    mix(mix(seed) ^ (u64::from(epoch) << 32 | u64::from(batch))) as i64
}

/// SplitMix64 as a stream.
pub(crate) struct SplitMix64(u64);

impl SplitMix64 {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number in [−1, 1), from the top 53 bits: exact in f64 on every machine.
    pub(crate) fn symmetric(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}
