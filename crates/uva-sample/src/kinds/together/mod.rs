//! The kinds that draw nodes for all destinations of a hop together.
//!
//! A hop first decides which nodes are drawn ([`Draw`]). Its edges are the entries of the destinations' lists that name
//! a drawn node, in the order of the lists, and each has a weight, so that the weighted sum of a destination's sources
//! stands for the mean over its complete list.

mod fastgcn;
mod ladies;
mod saint;
mod sums;

use super::SamplerKind;
use crate::hops::{Hop, List, NodeId, Picks, Sink};
use crate::local_ids::RelabelError;
use crate::options::GROUP;
use crate::philox::Purpose;
use crate::{GraphView, SampleError, SamplerOptions};

pub use self::fastgcn::FastGcn;
pub use self::ladies::Ladies;
pub use self::saint::{Edges, Nodes, Saint};

/// How a kind draws the nodes of a hop. A drawn node has a number, and what it weighs is known by it.
pub trait Draw: Sized {
    /// The kind.
    const KIND: SamplerKind;

    /// What its random words are for.
    const PURPOSE: Purpose = Purpose::Weights;

    /// All memory, and what is computed of the whole graph.
    ///
    /// # Errors
    /// A graph that cannot be.
    fn new(graph: &GraphView<'_>, options: &SamplerOptions) -> Result<Self, SampleError>;

    /// Makes `hop.fanout` draws for the lists of `nodes`, of which no list has been looked at. False: every entry of
    /// these lists is taken, and nothing was drawn.
    ///
    /// # Errors
    /// A graph that cannot be.
    fn draw<I: NodeId>(
        &mut self,
        hop: &Hop<'_, I>,
        nodes: &[i64],
        lists: &mut [List],
    ) -> Result<bool, SampleError>;

    /// The number of `node`, if it was drawn.
    ///
    /// # Errors
    /// Where it is no node.
    fn number(&self, node: i64) -> Result<Option<usize>, RelabelError>;

    /// What a drawn node adds to the sum that [`weight`](Self::weight) is given, for each entry that names it.
    fn share(&self, number: usize) -> f64;

    /// The weight of an entry that names a drawn node, in a list of this length and this sum of shares.
    fn weight(&self, number: usize, degree: usize, sum: f64) -> f32;
}

/// The importance of each neighbour of a node with so many: ⌊2³² / d²⌋, and 1 at least. An integer, so that sums over a
/// layer or a graph are the same in whatever order they are made.
#[inline]
fn importance(degree: usize) -> u64 {
    // A list has fewer than 2^32 entries, so the square fits.
    let square = (degree as u64).saturating_mul(degree as u64);
    ((1 << 32) / square.max(1)).max(1)
}

/// The entries that name nodes drawn by `D`.
pub struct Together<D> {
    draw: D,
    /// Whether the hop at hand takes every entry of its lists.
    whole: bool,
    /// The sum of the shares of each list of the group, and how many of them the sink has.
    sums: Vec<f64>,
    used: usize,
}

impl<D: Draw> Together<D> {
    /// The number of the node that the entry at `position` names, if it was drawn.
    #[inline]
    fn number<I: NodeId>(&self, hop: &Hop<'_, I>, position: usize) -> Result<Option<usize>, SampleError> {
        self.draw.number(hop.indices[position].widen()).map_err(|_| hop.no_node(position))
    }
}

impl<D: Draw> Picks<'_> for Together<D> {
    const KIND: SamplerKind = D::KIND;
    const PURPOSE: Purpose = D::PURPOSE;

    fn new(graph: &GraphView<'_>, options: &SamplerOptions, _: usize, _: usize) -> Result<Self, SampleError> {
        Ok(Self { draw: D::new(graph, options)?, whole: false, sums: Vec::with_capacity(GROUP), used: 0 })
    }

    fn begin<I: NodeId>(
        &mut self,
        hop: &Hop<'_, I>,
        nodes: &[i64],
        lists: &mut [List],
    ) -> Result<(), SampleError> {
        self.whole = hop.fanout == usize::MAX || !self.draw.draw(hop, nodes, lists)?;
        Ok(())
    }

    fn prepare<I: NodeId>(
        &mut self,
        hop: &Hop<'_, I>,
        _: &[i64],
        lists: &mut [List],
    ) -> Result<(), SampleError> {
        self.sums.clear();
        self.used = 0;
        for list in lists {
            if self.whole {
                list.picks = list.degree;
                continue;
            }
            let (mut picks, mut sum) = (0, 0.0);
            for position in list.begin..list.begin + list.degree {
                if let Some(number) = self.number(hop, position)? {
                    picks += 1;
                    sum += self.draw.share(number);
                }
            }
            list.picks = picks;
            self.sums.push(sum);
        }
        Ok(())
    }

    fn pick<I: NodeId>(
        &mut self,
        hop: &Hop<'_, I>,
        list: &List,
        sink: &mut Sink<'_>,
    ) -> Result<(), SampleError> {
        if self.whole {
            sink.weights(list.degree).fill((1.0 / list.degree as f64) as f32);
            return sink.whole(hop, list);
        }
        let sum = self.sums[self.used];
        self.used += 1;
        for position in list.begin..list.begin + list.degree {
            if let Some(number) = self.number(hop, position)? {
                sink.push(hop, position)?;
                sink.weights(1)[0] = self.draw.weight(number, list.degree, sum);
            }
        }
        Ok(())
    }
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
