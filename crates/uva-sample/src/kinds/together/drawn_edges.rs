//! The edges of a hop whose nodes were drawn: the entries of the destinations' lists that name one of them.

use super::draw::Draw;
use crate::hops::{Hop, KindSetup, List, NodeId, PickResult, PickSink, Picks};
use crate::options::GROUP;
use crate::philox::RandomPurpose;
use crate::{SampleError, SamplerKind};

/// The entries that name nodes drawn by `D`.
pub struct Together<D> {
    draw: D,
    /// Whether the current hop takes every entry of its lists.
    whole: bool,
    /// The sum of the shares of each list of the group, and how many of these the sink has received.
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
    const PURPOSE: RandomPurpose = D::PURPOSE;

    fn new(setup: &KindSetup<'_, '_>) -> Result<Self, SampleError> {
        Ok(Self { draw: D::new(setup)?, whole: false, sums: Vec::with_capacity(GROUP), used: 0 })
    }

    fn begin<I: NodeId>(&mut self, hop: &Hop<'_, I>, nodes: &[i64], lists: &mut [List]) -> PickResult {
        self.whole = hop.fanout == usize::MAX || !self.draw.draw(hop, nodes, lists)?;
        Ok(())
    }

    fn prepare<I: NodeId>(&mut self, hop: &Hop<'_, I>, _: &[i64], lists: &mut [List]) -> PickResult {
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

    fn pick<I: NodeId>(&mut self, hop: &Hop<'_, I>, list: &List, sink: &mut PickSink<'_>) -> PickResult {
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
