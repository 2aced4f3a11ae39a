//! Blocks of nearby nodes, grown by breadth-first search from several sources at a time.

use uva_graph::Progress;

use crate::graphs::graph::OriginalGraph;

/// The value for a node that no block has claimed yet.
const NONE: u32 = u32::MAX;

/// The block of each node, and the sizes of the blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blocks {
    /// The block of each node.
    pub(crate) of: Vec<u32>,
    /// Nodes of each block.
    pub(crate) nodes: Vec<u64>,
    /// Training nodes of each block.
    pub(crate) train: Vec<u64>,
}

impl Blocks {
    pub(crate) fn count(&self) -> usize {
        self.nodes.len()
    }

    /// The part of each node, given the parts of the blocks.
    pub(crate) fn of_nodes(&self, parts: &[u16]) -> Vec<u16> {
        self.of.iter().map(|&block| parts[block as usize]).collect()
    }
}

/// The maximum size of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caps {
    /// Nodes.
    pub(crate) nodes: u64,
    /// Training nodes.
    pub(crate) train: u64,
}

/// A block that grows.
struct Growing {
    block: u32,
    /// The nodes that the block claimed last.
    frontier: Vec<u32>,
}

/// Grows blocks until all nodes are claimed. `sources` blocks grow at a time, from the first unclaimed nodes of
/// `order`.
///
/// In a round each growing block, in the order of block numbers, claims the unclaimed neighbours of its frontier, up to
/// `caps`. So a node that several blocks reach in one round goes to the block with the smallest number. A block that is
/// full, or reaches no further node, makes room for the next source.
pub(crate) fn grow(
    graph: &OriginalGraph<'_>,
    order: &[u32],
    sources: usize,
    caps: Caps,
    progress: &dyn Fn(Progress),
) -> Blocks {
    let mut blocks = Blocks { of: vec![NONE; graph.nodes()], nodes: Vec::new(), train: Vec::new() };
    let mut growing: Vec<Growing> = Vec::new();
    let mut waiting = order.iter().copied();
    let total = order.len() as u64;
    loop {
        while growing.len() < sources {
            let Some(source) = waiting.find(|&node| blocks.of[node as usize] == NONE) else { break };
            let block = blocks.count() as u32;
            blocks.of[source as usize] = block;
            blocks.nodes.push(1);
            blocks.train.push(u64::from(graph.trains(source)));
            growing.push(Growing { block, frontier: vec![source] });
        }
        progress(Progress { stage: "blocks", done: total - waiting.len() as u64, total });
        if growing.is_empty() {
            return blocks;
        }
        for block in &mut growing {
            advance(graph, &mut blocks, block, caps);
        }
        growing.retain(|block| !block.frontier.is_empty());
    }
}

/// One round of one block. Its frontier is empty afterwards if the block is finished.
fn advance(graph: &OriginalGraph<'_>, blocks: &mut Blocks, growing: &mut Growing, caps: Caps) {
    let block = growing.block as usize;
    let mut claimed = Vec::new();
    for &node in &growing.frontier {
        for neighbour in graph.neighbours(node) {
            if blocks.nodes[block] >= caps.nodes {
                break;
            }
            let trains = graph.trains(neighbour);
            if blocks.of[neighbour as usize] == NONE && !(trains && blocks.train[block] >= caps.train) {
                blocks.of[neighbour as usize] = growing.block;
                blocks.nodes[block] += 1;
                blocks.train[block] += u64::from(trains);
                claimed.push(neighbour);
            }
        }
    }
    // A full block makes room for the next source in the round that fills it.
    growing.frontier = if blocks.nodes[block] < caps.nodes { claimed } else { Vec::new() };
}
