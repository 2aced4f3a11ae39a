//! GraphSAINT's subgraph of nodes drawn by their importance.

use super::saint::Unit;
use super::sums::{self, Sums};
use crate::hops::{Hop, NodeId};
use crate::kind::{Fanout, KindRow};
use crate::limits::LOCAL_ID_BYTES;
use crate::{GraphView, SampleError, SamplerKind};

impl SamplerKind {
    /// A batch draws nodes from the whole graph, as FastGCN does, and samples from the subgraph of them and its seeds
    /// (Zeng et al., "GraphSAINT: Graph Sampling Based Inductive Learning Method", ICLR 2020).
    pub const SAINT_NODE: Self = Self::of(&KindRow {
        name: "saint-node",
        help: "Neighbours in a subgraph of the seeds and of nodes drawn by importance: `fanouts` are its draws, the same for \
               each layer (GraphSAINT)",
        fanout: Fanout::SubgraphDraws { nodes: 1 },
        reads_whole_lists: true,
        reads_whole_graph: true,
        // Sums of importance, and their order.
        node_bytes: 2 * LOCAL_ID_BYTES + 8,
        reordered_bytes: 8,
        ..KindRow::LIST_BY_LIST
    });
}

/// Draws nodes by the squared norms of their columns, as FastGCN does.
pub struct SaintNodes;

impl Unit for SaintNodes {
    const KIND: SamplerKind = SamplerKind::SAINT_NODE;

    fn new(graph: &GraphView<'_>) -> Result<(Self, Sums), SampleError> {
        Ok((Self, Sums::new(graph, Self::KIND, sums::by_entries(graph)?)?))
    }

    fn members<I: NodeId>(
        &self,
        sums: &Sums,
        _: &Hop<'_, I>,
        drawn: u64,
        mut member: impl FnMut(usize, u64),
    ) -> Result<(), SampleError> {
        let place = sums.place(drawn).place;
        member(sums.node(place), sums.importance(place));
        Ok(())
    }
}
