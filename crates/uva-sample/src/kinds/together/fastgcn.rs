//! Nodes of a layer drawn from the whole graph: FastGCN (Chen, Ma and Xiao, "FastGCN: Fast Learning with Graph
//! Convolutional Networks via Importance Sampling", ICLR 2018, section 3.1 with the mean as the aggregation).
//!
//! A node's probability is proportional to the squared norm of its column: the sum of 1 / d² over all entries of the
//! graph that name it, d being the length of the entry's list. Draws are independent, so that weighted sums are
//! unbiased.

use super::draw::Draw;
use super::sums::{self, Sums};
use crate::batches::local_ids::{LocalIds, RelabelError};
use crate::hops::{Hop, KindSetup, List, NodeId};
use crate::kind::{Fanout, KindRow};
use crate::limits::LOCAL_ID_BYTES;
use crate::philox::StreamKey;
use crate::{SampleError, SamplerKind};

impl SamplerKind {
    /// A layer draws nodes from the whole graph, in proportion to their influence on all nodes' means (Chen et al.,
    /// "FastGCN: Fast Learning with Graph Convolutional Networks via Importance Sampling", ICLR 2018).
    pub const FASTGCN: Self = Self::of(&KindRow {
        name: "fastgcn",
        help: "Nodes drawn per layer by importance, from the whole graph: `fanouts` are nodes per layer (FastGCN)",
        fanout: Fanout::Draws { nodes: 1 },
        reads_whole_lists: true,
        reads_whole_graph: true,
        // Sums of importance, and their order.
        node_bytes: 2 * LOCAL_ID_BYTES + 8,
        reordered_bytes: 8,
        ..KindRow::LIST_BY_LIST
    });
}

/// Sums of all nodes' importance, and the drawn nodes. It uses 12 bytes per node, and 8 more if the graph has been
/// reordered.
pub struct FastGcn {
    sums: Sums,
    /// Numbers of the drawn nodes.
    numbers: LocalIds,
    /// Places, in the order of original ids, that were drawn.
    places: Vec<u64>,
    /// The number of draws and the importance of each drawn node.
    drawn: Vec<(u32, u64)>,
    /// Draws in the current hop.
    draws: f64,
}

impl Draw for FastGcn {
    const KIND: SamplerKind = SamplerKind::FASTGCN;

    fn new(setup: &KindSetup<'_, '_>) -> Result<Self, SampleError> {
        let (graph, most) = (&setup.graph, setup.largest_fanout());
        Ok(Self {
            sums: Sums::new(graph, Self::KIND, sums::by_entries(graph)?)?,
            numbers: LocalIds::new(graph.csc.nodes())?,
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
        let sums = &self.sums;
        let Some(total) = sums.total() else { return Ok(true) };
        self.places.extend((0..hop.fanout as u64).map(|number| {
            let key = StreamKey { node: number, batch: hop.batch_of(number), ..hop.like };
            sums.place(key.stream().bounded_u64(total)).place as u64
        }));
        self.places.sort_unstable();
        for same in self.places.chunk_by(|a, b| a == b) {
            let place = same[0] as usize;
            // Each place is one node, so it is new.
            self.numbers.insert(sums.node(place), self.drawn.len() as u32);
            self.drawn.push((same.len() as u32, sums.importance(place)));
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
        // Something was drawn, so a sum exists.
        let numerator = f64::from(count) * self.sums.total().unwrap_or(0) as f64;
        let denominator = self.draws * importance as f64 * degree as f64;
        (numerator / denominator) as f32
    }
}
