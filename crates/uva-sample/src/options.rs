//! What a sampler is asked for, and which batch is meant.

use std::fmt;

use uva_graph::Split;

use crate::InvalidOption;

/// Most hops that a batch may have: the random key has five bits for the hop.
pub const MAX_LAYERS: usize = 32;

/// The last epoch that can be named: the random key has thirty bits for it.
pub const MAX_EPOCH: u32 = (1 << 30) - 1;

/// Most neighbours picked out of a longer list; a larger fanout is fine where it takes every list whole.
///
/// A stream of random words ends after [`STREAM_WORDS`](crate::philox::STREAM_WORDS), and a draw may take more than
/// one; a quarter of them is always enough in practice (a draw is rejected with a chance below one half).
pub(crate) const MAX_PICKS: usize = 1 << 16;

/// How a [`NeighborSampler`](crate::NeighborSampler) samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplerOptions {
    /// Neighbours a node gets in each hop, written from the seeds outward; −1 takes all. 1 to [`MAX_LAYERS`] hops.
    pub fanouts: Vec<i32>,
    /// Whether a neighbour may be picked more than once. Lists no longer than the fanout are taken as they stand
    /// either way.
    pub replace: bool,
    /// The run's seed.
    pub seed: u64,
}

/// Checks what does not depend on a graph.
pub(crate) fn check_fanouts(fanouts: &[i32]) -> Result<(), InvalidOption> {
    if fanouts.is_empty() {
        return Err(InvalidOption::NoFanouts);
    }
    if fanouts.len() > MAX_LAYERS {
        return Err(InvalidOption::TooManyFanouts { given: fanouts.len() });
    }
    match fanouts.iter().position(|&fanout| fanout == 0 || fanout < -1) {
        Some(layer) => Err(InvalidOption::Fanout { layer, fanout: fanouts[layer] }),
        None => Ok(()),
    }
}

/// Names one batch of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BatchKey {
    /// Where the seeds come from.
    pub split: Split,
    /// The epoch, at most [`MAX_EPOCH`].
    pub epoch: u32,
    /// The batch within the epoch.
    pub batch: u32,
}

impl fmt::Display for BatchKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} batch {} of epoch {}", self.split, self.batch, self.epoch)
    }
}
