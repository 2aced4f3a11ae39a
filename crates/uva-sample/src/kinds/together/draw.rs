//! The common part of the kinds that draw nodes for all destinations of a hop together.

use crate::batches::local_ids::RelabelError;
use crate::hops::{Hop, KindSetup, List, NodeId};
use crate::philox::RandomPurpose;
use crate::{SampleError, SamplerKind};

/// Draws the nodes of a hop. A drawn node has a number, which leads to its weight.
pub trait Draw: Send + Sized {
    /// The kind.
    const KIND: SamplerKind;

    /// The purpose of its random words.
    const PURPOSE: RandomPurpose = RandomPurpose::Weights;

    /// Allocates all memory, and computes the data that depend on the whole graph.
    ///
    /// # Errors
    /// An invalid graph.
    fn new(setup: &KindSetup<'_, '_>) -> Result<Self, SampleError>;

    /// Makes `hop.fanout` draws for the lists of `nodes`. No list has been checked before. False: every entry of these
    /// lists is taken, and nothing was drawn.
    ///
    /// # Errors
    /// An invalid graph.
    fn draw<I: NodeId>(
        &mut self,
        hop: &Hop<'_, I>,
        nodes: &[i64],
        lists: &mut [List],
    ) -> Result<bool, SampleError>;

    /// The number of `node`, if it was drawn.
    ///
    /// # Errors
    /// If it is not a node.
    fn number(&self, node: i64) -> Result<Option<usize>, RelabelError>;

    /// The summand, in the sum for [`weight`](Self::weight), of each entry that names the drawn node.
    fn share(&self, number: usize) -> f64;

    /// The weight of an entry that names a drawn node, in a list of this length and this sum of shares.
    fn weight(&self, number: usize, degree: usize, sum: f64) -> f32;
}

/// The importance of each neighbour of a node with `d` of them: ⌊2³² / d²⌋, and at least 1. It is an integer, so that
/// sums over a layer or a graph are the same in any order.
#[inline]
pub(super) fn importance(degree: usize) -> u64 {
    // A list has fewer than 2^32 entries, so the square fits.
    let square = (degree as u64).saturating_mul(degree as u64);
    ((1 << 32) / square.max(1)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn importance_falls_with_the_square_and_is_never_nothing() {
        let of = [0, 1, 2, 3, 1000, 65_535, 65_536, 65_537, u32::MAX as usize].map(importance);
        assert_eq!(of, [1 << 32, 1 << 32, 1 << 30, (1 << 32) / 9, 4294, 1, 1, 1, 1]);
    }
}
