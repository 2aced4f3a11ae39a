//! GraphSAINT's subgraph of the ends of drawn edges.

use super::saint::Unit;
use super::sums::{self, Sums};
use crate::hops::{Hop, NodeId};
use crate::kind::{Fanout, KindRow};
use crate::limits::LOCAL_ID_BYTES;
use crate::{GraphView, SampleError, SamplerKind};

impl SamplerKind {
    /// As [`SAINT_NODE`](Self::SAINT_NODE) with the ends of drawn edges; edges between small lists are more likely.
    pub const SAINT_EDGE: Self = Self::of(&KindRow {
        name: "saint-edge",
        help: "As saint-node, with the ends of edges that are drawn by importance (GraphSAINT)",
        fanout: Fanout::SubgraphDraws { nodes: 2 },
        reads_whole_lists: true,
        reads_whole_graph: true,
        // Sums of importance, their order, and the part of the total that draws each node.
        node_bytes: 2 * LOCAL_ID_BYTES + 8 + 8,
        reordered_bytes: 8,
        ..KindRow::LIST_BY_LIST
    });
}

/// Draws edges in proportion to 1 / d + 1 / d' of their ends. Edges between small lists, which few others can replace,
/// are therefore likely. It uses 8 bytes per node.
pub struct SaintEdges {
    /// The part of the sum of all draws that belongs to an edge of each node.
    parts: Vec<u64>,
}

/// The share of a node in the importance of its edges: ⌊2³² / d⌋ for its list's length d, and at least 1. An empty list
/// counts as length 1.
#[inline]
fn of_end(indptr: &[i64], node: usize) -> u64 {
    // For overlapping lists this is any number, without overflow; reading such a list is an error.
    let degree = indptr[node + 1].wrapping_sub(indptr[node]) as u64;
    ((1 << 32) / degree.max(1)).max(1)
}

impl Unit for SaintEdges {
    const KIND: SamplerKind = SamplerKind::SAINT_EDGE;

    fn new(graph: &GraphView<'_>) -> Result<(Self, Sums), SampleError> {
        let nodes = graph.csc.nodes();
        let (mut of_lists, mut parts) = (vec![0_u64; nodes], vec![0_u64; nodes]);
        let of_end = |node| of_end(graph.csc.indptr, node);
        let whole = sums::each_entry(
            graph,
            |node, _| of_end(node),
            |node, of_node, other| {
                let more = of_node + of_end(other);
                sums::add(&mut of_lists[node], more)
                    && sums::add(&mut parts[node], more)
                    // An edge from a node to itself draws it once.
                    && (other == node || sums::add(&mut parts[other], more))
            },
        )?;
        Ok((Self { parts }, Sums::new(graph, Self::KIND, whole.then_some(of_lists))?))
    }

    fn members<I: NodeId>(
        &self,
        sums: &Sums,
        hop: &Hop<'_, I>,
        drawn: u64,
        mut member: impl FnMut(usize, u64),
    ) -> Result<(), SampleError> {
        let place = sums.place(drawn);
        let (node, mut rest) = (sums.node(place.place), place.rest);
        let (begin, degree) = hop.place_of_list(node)?;
        member(node, self.parts[node]);
        for position in begin..begin + degree {
            let other = hop.indices[position].widen();
            let Some(&part) = self.parts.get(other as usize) else { return Err(hop.no_node(position)) };
            let other = other as usize;
            let importance = of_end(hop.indptr, node) + of_end(hop.indptr, other);
            if rest < importance {
                member(other, part);
                break;
            }
            rest -= importance;
        }
        Ok(())
    }
}
