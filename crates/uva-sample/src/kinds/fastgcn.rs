//! Nodes of a layer drawn out of the whole graph: FastGCN (Chen, Ma and Xiao, "FastGCN: Fast Learning with Graph
//! Convolutional Networks via Importance Sampling", ICLR 2018, section 3.1 with the mean as the aggregation).
//!
//! A node's chance is proportional to the sum, over all entries of the graph that name it, of 1 / d² of the entry's
//! list: the squared norm of its column. Draws are independent of each other, so that weighted sums are right in
//! expectation.

use super::SamplerKind;
use super::layerwise::{Draw, importance};
use crate::hops::{Hop, List, NodeId};
use crate::local_ids::{LocalIds, RelabelError};
use crate::philox::StreamKey;
use crate::{GraphView, InvalidOption, SampleError, SamplerOptions};

/// Sums of all nodes' importance, and the nodes drawn. Takes 16 bytes a node, and 8 more where the graph has been
/// reordered.
pub struct FastGcn {
    /// The sum of the importance of all nodes up to each, in the order of original ids.
    ends: Vec<u64>,
    /// The nodes in that order; empty where it is that of the ids.
    order: Vec<u64>,
    /// Numbers of the nodes drawn.
    numbers: LocalIds,
    /// Places, in the order of original ids, that the draws came to.
    places: Vec<u64>,
    /// Of each node drawn: how often, and its importance.
    drawn: Vec<(u32, u64)>,
    /// Draws in the hop at hand.
    draws: f64,
}

impl Draw for FastGcn {
    const KIND: SamplerKind = SamplerKind::FastGcn;

    fn new(graph: &GraphView<'_>, options: &SamplerOptions) -> Result<Self, SampleError> {
        let nodes = graph.csc.nodes();
        let too_large = || InvalidOption::ImportanceTooLarge { kind: SamplerKind::FastGcn, nodes };
        let importance = importance_of_all(graph)?.ok_or_else(too_large)?;
        let mut order = Vec::new();
        if let Some(original) = graph.csc.original_ids {
            order.extend(0..nodes as u64);
            order.sort_unstable_by_key(|&node| (original[node as usize], node));
        }
        let mut ends = match order.is_empty() {
            true => importance,
            false => order.iter().map(|&node| importance[node as usize]).collect(),
        };
        let mut total = 0_u64;
        for end in &mut ends {
            total = total.checked_add(*end).ok_or_else(too_large)?;
            *end = total;
        }
        let most = options.fanouts.iter().map(|&fanout| usize::try_from(fanout).unwrap_or(0)).max();
        let most = most.unwrap_or(0);
        Ok(Self {
            ends,
            order,
            numbers: LocalIds::new(nodes),
            places: Vec::with_capacity(most),
            drawn: Vec::with_capacity(most),
            draws: 0.0,
        })
    }

    fn draw<I: NodeId>(&mut self, hop: &Hop<'_, I>, _: &[i64], _: &mut [List]) -> Result<bool, SampleError> {
        self.numbers.begin_batch();
        self.places.clear();
        self.drawn.clear();
        self.draws = hop.fanout as f64;
        let Some(&total) = self.ends.last().filter(|&&total| total > 0) else {
            return Ok(true);
        };
        let ends = &self.ends;
        self.places.extend((0..hop.fanout as u64).map(|number| {
            let key = StreamKey { node: number, batch: hop.batch_of(number), ..hop.like };
            let drawn = key.stream().bounded_u64(total);
            ends.partition_point(|&end| end <= drawn) as u64
        }));
        self.places.sort_unstable();
        for same in self.places.chunk_by(|a, b| a == b) {
            let place = same[0] as usize;
            let before = place.checked_sub(1).map_or(0, |before| self.ends[before]);
            let node = self.order.get(place).map_or(place, |&node| node as usize);
            // Each place is one node, so it is new.
            self.numbers.insert(node, self.drawn.len() as u32);
            self.drawn.push((same.len() as u32, self.ends[place] - before));
        }
        Ok(true)
    }

    #[inline]
    fn number(&self, node: i64) -> Result<Option<usize>, RelabelError> {
        self.numbers.get(node)
    }

    #[inline]
    fn share(&self, _: usize) -> f64 {
        0.0
    }

    #[inline]
    fn weight(&self, number: usize, degree: usize, _: f64) -> f32 {
        let (count, importance) = self.drawn[number];
        // Something was drawn, so there is a last end.
        let total = self.ends.last().copied().unwrap_or(0) as f64;
        let numerator = f64::from(count) * total;
        let denominator = self.draws * importance as f64 * degree as f64;
        (numerator / denominator) as f32
    }
}

/// The importance of each node, by the graph's ids; `None` where that of one is beyond 64 bits.
fn importance_of_all(graph: &GraphView<'_>) -> Result<Option<Vec<u64>>, SampleError> {
    match graph.csc.indices {
        uva_graph::Indices::I32(indices) => add_all(graph.csc.indptr, indices),
        uva_graph::Indices::I64(indices) => add_all(graph.csc.indptr, indices),
    }
}

fn add_all<I: NodeId>(indptr: &[i64], indices: &[I]) -> Result<Option<Vec<u64>>, SampleError> {
    let nodes = indptr.len().saturating_sub(1);
    let edges = indices.len();
    let mut sums = vec![0_u64; nodes];
    for (node, ends) in indptr.windows(2).enumerate() {
        let (begin, end) = (ends[0], ends[1]);
        if begin as u64 > end as u64 || end as u64 > edges as u64 {
            return Err(SampleError::InvalidList { node: node as i64, begin, end, edges });
        }
        let more = importance((end - begin) as usize);
        for (position, id) in (begin as usize..).zip(&indices[begin as usize..end as usize]) {
            let neighbor = id.widen();
            let Some(sum) = sums.get_mut(neighbor as usize) else {
                return Err(SampleError::InvalidNeighbor { position, neighbor, nodes });
            };
            match sum.checked_add(more) {
                Some(more) => *sum = more,
                None => return Ok(None),
            }
        }
    }
    Ok(Some(sums))
}
