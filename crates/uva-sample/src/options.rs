//! What a sampler is asked for, and which batch is meant.

use std::fmt;

use uva_graph::{Split, mix};

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
    /// κ, at least 1: a node's picks change every κ batches only, so that consecutive batches share rows. 1 is the
    /// ordinary case: they change with every batch.
    pub batch_dependency: u32,
}

impl Default for SamplerOptions {
    fn default() -> Self {
        Self { fanouts: vec![15, 10, 5], replace: false, seed: 0, batch_dependency: 1 }
    }
}

/// The batch that the picks of the node with this original id are keyed by in `batch`: ⌊(batch + h mod κ) / κ⌋, h being
/// `mix(node)`. So the picks of a node stay for κ batches, and each batch changes those of a κ-th of the nodes
/// ("batch-dependent sampling", docs/reproducible-batches.md).
#[must_use]
pub fn batch_of_picks(batch: u32, node: u64, batch_dependency: u32) -> u32 {
    let kappa = u64::from(batch_dependency);
    // At most batch for κ = 1 and below it for a larger κ but at 0: no more than 32 bits.
    ((u64::from(batch) + mix(node) % kappa) / kappa) as u32
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
