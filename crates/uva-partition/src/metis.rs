//! METIS's division, of the graph without directions.

use uva_graph::Progress;
use uva_metis::{Lists, Metis, MetisError};

use crate::graph::Graph;

/// Nodes between two reports of progress.
const STEP: usize = 1 << 16;

/// The part of each node: METIS cuts few edges, and gives parts about as many nodes, and training nodes, as each other. An
/// edge in both directions counts twice. The node's own edge to itself does not.
///
/// # Errors
/// As [`Metis::open`] and [`Metis::divide`].
pub(crate) fn assign(
    graph: &Graph<'_>,
    parts: u32,
    progress: &dyn Fn(Progress),
) -> Result<Vec<u16>, MetisError> {
    let metis = Metis::open()?;
    let nodes = graph.nodes();
    // Not truncated: options have at most `MOST_PARTS`. METIS itself has no division into one.
    let Some(parts) = u16::try_from(parts).ok().filter(|parts| *parts > 1) else { return Ok(vec![0; nodes]) };
    let (mut begins, mut entries, mut weights) = (vec![0], Vec::<u32>::new(), Vec::<u32>::new());
    let mut of_node = Vec::new();
    for node in 0..nodes as u32 {
        if (node as usize).is_multiple_of(STEP) {
            progress(Progress { stage: "lists for METIS", done: u64::from(node), total: nodes as u64 });
        }
        of_node.clear();
        of_node.extend(graph.neighbours(node).filter(|&neighbour| neighbour != node));
        of_node.sort_unstable();
        for same in of_node.chunk_by(|a, b| a == b) {
            entries.push(same[0]);
            weights.push(u32::try_from(same.len()).unwrap_or(u32::MAX));
        }
        begins.push(entries.len());
    }
    let marks: Vec<bool> = (0..nodes as u32).map(|node| graph.trains(node)).collect();
    progress(Progress { stage: "METIS", done: 0, total: 1 });
    metis.divide(Lists { begins: &begins, entries: &entries, weights: &weights, marks: &marks }, parts)
}

/// What METIS takes in all, in multiples of what it is given. METIS 5.1 had 3.17 GiB at most for a graph with power-law degrees
/// of 1 M nodes and 20 M edges, 2.7 GiB of it beside our lists: its coarser graphs are hardly smaller there.
const OF_GIVEN: u64 = 9;

/// Bytes that it takes: the lists as they are made, and what METIS makes of them.
pub(crate) fn bytes(nodes: u64, edges: u64) -> u64 {
    let entries = 2 * edges;
    let made = 8 * nodes + (4 + 4) * entries + nodes;
    let given = (4 + 8 + 4) * nodes + (4 + 4) * entries;
    made + OF_GIVEN * given
}
