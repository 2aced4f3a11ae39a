//! One subgraph a batch: GraphSAINT (Zeng et al., "GraphSAINT: Graph Sampling Based Inductive Learning Method", ICLR
//! 2020, section 3.3), around the batch's seeds.
//!
//! The subgraph has the seeds, the drawn nodes, and all edges of the graph between them. Every layer aggregates over
//! it. The blocks contain the part that the seeds reach in as many hops as there are layers. An entry counts by the
//! inverse of the probability that its node is in the subgraph, and each list's weights are normalised. (The paper
//! begins without seeds, and normalises by probabilities estimated from subgraphs drawn beforehand. Here every training
//! node is a seed once an epoch, so no loss has to be weighted.)

use super::draw::Draw;
use super::sums::Sums;
use crate::batches::local_ids::{LocalIds, RelabelError};
use crate::hops::{Hop, KindSetup, List, NodeId};
use crate::philox::{RandomPurpose, StreamKey};
use crate::{GraphView, SampleError, SamplerKind};

/// The unit of a draw for a subgraph: nodes or edges.
pub trait Unit: Send + Sized {
    /// The kind.
    const KIND: SamplerKind;

    /// Computes the unit's data over the whole graph, and the importance of each node.
    ///
    /// # Errors
    /// An invalid graph.
    fn new(graph: &GraphView<'_>) -> Result<(Self, Sums), SampleError>;

    /// Calls `member` for each node of the draw with this number, which is below the sum of all. It also passes the
    /// part of that sum that draws the node.
    ///
    /// # Errors
    /// An invalid graph.
    fn members<I: NodeId>(
        &self,
        sums: &Sums,
        hop: &Hop<'_, I>,
        drawn: u64,
        member: impl FnMut(usize, u64),
    ) -> Result<(), SampleError>;
}

/// A batch's seeds and the nodes from its draws. It uses 12 bytes per node and the memory of `U`, and 8 more if the
/// graph has been reordered.
pub struct Saint<U> {
    unit: U,
    sums: Sums,
    /// Numbers of the members, the seeds first.
    numbers: LocalIds,
    seeds: usize,
    /// The inverse probability of each member after the seeds.
    shares: Vec<f64>,
}

impl<U: Unit> Draw for Saint<U> {
    const KIND: SamplerKind = U::KIND;
    const PURPOSE: RandomPurpose = RandomPurpose::Subgraphs;

    fn new(setup: &KindSetup<'_, '_>) -> Result<Self, SampleError> {
        let nodes = setup.graph.csc.nodes();
        let (unit, sums) = U::new(&setup.graph)?;
        Ok(Self {
            unit,
            sums,
            numbers: LocalIds::new(nodes)?,
            seeds: 0,
            shares: Vec::with_capacity((setup.largest_fanout() * U::KIND.nodes_a_draw()).min(nodes)),
        })
    }

    fn draw<I: NodeId>(
        &mut self,
        hop: &Hop<'_, I>,
        nodes: &[i64],
        _: &mut [List],
    ) -> Result<bool, SampleError> {
        if hop.layer > 0 {
            return Ok(true);
        }
        let Self { unit, sums, numbers, seeds, shares } = self;
        numbers.begin_batch();
        shares.clear();
        *seeds = nodes.len();
        for (number, &seed) in nodes.iter().enumerate() {
            // The first hop's destinations are nodes; of a seed that repeats, the first counts.
            numbers.insert(seed as usize, number as u32);
        }
        let Some(total) = sums.total() else { return Ok(true) };
        let draws = hop.fanout as u64;
        for number in 0..draws {
            let key = StreamKey { node: number, batch: hop.batch_of(number), ..hop.like };
            let drawn = key.stream().bounded_u64(total);
            unit.members(sums, hop, drawn, |node, part| {
                if numbers.insert(node, (*seeds + shares.len()) as u32) {
                    shares.push(1.0 / at_least_once(part as f64 / total as f64, draws));
                }
            })?;
        }
        Ok(true)
    }

    #[inline]
    fn number(&self, node: i64) -> Result<Option<usize>, RelabelError> {
        self.numbers.get(node)
    }

    /// A seed is certainly a member.
    #[inline]
    fn share(&self, number: usize) -> f64 {
        number.checked_sub(self.seeds).map_or(1.0, |drawn| self.shares[drawn])
    }

    #[inline]
    fn weight(&self, number: usize, _: usize, sum: f64) -> f32 {
        (self.share(number) / sum) as f32
    }
}

/// The probability of at least one success in `draws` draws, each with probability `once`: 1 − (1 − once)^draws. It
/// avoids the difference, which would cancel small values to nothing.
fn at_least_once(once: f64, mut draws: u64) -> f64 {
    let (mut chance, mut power) = (0.0, once);
    while draws > 0 {
        if draws & 1 == 1 {
            chance = (chance + power) - chance * power;
        }
        power = (power + power) - power * power;
        draws >>= 1;
    }
    chance
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chance_of_at_least_once_is_the_complement_of_never() {
        for (once, draws) in [(0.25, 3), (0.001, 777), (1.0, 5), (0.5, 1), (0.0, 9), (0.3, 1 << 24)] {
            let never: f64 = (1.0_f64 - once).powi(draws);
            let chance = at_least_once(once, draws as u64);
            assert!((chance - (1.0 - never)).abs() < 1e-14 && chance <= 1.0, "{once} {draws}: {chance}");
        }
        // Small enough that one minus it would be one.
        assert!((at_least_once(1e-20, 1000) / 1e-17 - 1.0).abs() < 1e-12);
    }
}
