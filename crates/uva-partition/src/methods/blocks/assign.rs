//! Greedy assignment of blocks to parts.

use std::cmp::Reverse;

use uva_graph::{GraphError, Progress};

use crate::methods::blocks::block_graph::BlockGraph;
use crate::methods::blocks::search::Blocks;
use crate::options::Count;

/// Not assigned yet.
const NONE: u16 = u16::MAX;

/// The maximum number of steps over edges of the block graph for counting blocks within two hops.
const MOST_STEPS: u64 = 100_000_000_000;

/// All blocks, in descending order of (training nodes, nodes), then in that of their numbers.
pub(crate) fn largest_first(blocks: &Blocks) -> Vec<u32> {
    let mut order: Vec<u32> = (0..blocks.count() as u32).collect();
    order.sort_unstable_by_key(|&block| {
        let block_index = block as usize;
        (Reverse((blocks.train[block_index], blocks.nodes[block_index])), block)
    });
    order
}

/// The part of each block. Blocks are assigned in `order`. Each goes to the part `i` with the largest
///
/// `connection(i) · (1 − train(i) / (T / k)) · (1 − nodes(i) / (N / k))`, no factor below 0,
///
/// and where that is 0 for all to the part with the least `max(train(i) / (T / k), nodes(i) / (N / k))`. The first of
/// equal parts is taken. Comparisons are exact.
///
/// # Errors
/// If blocks have to be counted and there are too many.
pub(crate) fn assign(
    blocks: &Blocks,
    graph: &BlockGraph,
    order: &[u32],
    parts: u32,
    count: Count,
    progress: &dyn Fn(Progress),
) -> Result<Vec<u16>, GraphError> {
    if count == Count::Blocks {
        check_steps(blocks, graph)?;
    }
    let mut loads = Loads::of(blocks, parts);
    let mut part_of = vec![NONE; blocks.count()];
    let mut near = Near::of(blocks.count());
    let mut connection = vec![0_u64; parts as usize];
    for (done, &block) in order.iter().enumerate() {
        if done.is_multiple_of(1024) {
            progress(Progress { stage: "assign", done: done as u64, total: order.len() as u64 });
        }
        // The value for unassigned blocks is not a part: there are at most 65,535.
        match count {
            Count::Edges => {
                for (other, edges) in graph.neighbours(block) {
                    if let Some(of) = connection.get_mut(usize::from(part_of[other as usize])) {
                        *of += edges;
                    }
                }
            }
            Count::Blocks => {
                for &other in near.within_two(graph, block) {
                    if let Some(of) = connection.get_mut(usize::from(part_of[other as usize])) {
                        *of += 1;
                    }
                }
            }
        }
        let part = loads.best(&connection);
        connection.fill(0);
        part_of[block as usize] = part as u16;
        loads.add(part, blocks.nodes[block as usize], blocks.train[block as usize]);
    }
    Ok(part_of)
}

/// The sizes of the parts so far.
struct Loads {
    nodes: Vec<u64>,
    train: Vec<u64>,
    all_nodes: u64,
    all_train: u64,
    parts: u64,
}

impl Loads {
    fn of(blocks: &Blocks, parts: u32) -> Loads {
        Loads {
            nodes: vec![0; parts as usize],
            train: vec![0; parts as usize],
            all_nodes: blocks.nodes.iter().sum(),
            all_train: blocks.train.iter().sum(),
            parts: u64::from(parts),
        }
    }

    fn best(&self, connection: &[u64]) -> usize {
        // All scores have the same denominator, so numerators are compared: below 2⁴⁰ · 2³² · 2³².
        let score = |part: usize| {
            u128::from(connection[part])
                * u128::from(self.all_train.saturating_sub(self.parts * self.train[part]))
                * u128::from(self.all_nodes.saturating_sub(self.parts * self.nodes[part]))
        };
        let load = |part: usize| {
            let train = u128::from(self.train[part]) * u128::from(self.all_nodes);
            let nodes = u128::from(self.nodes[part]) * u128::from(self.all_train);
            train.max(nodes)
        };
        let parts = 0..self.nodes.len();
        let best = parts.clone().map(|part| (score(part), Reverse(part))).max();
        match best {
            Some((score, Reverse(part))) if score > 0 => part,
            _ => parts.min_by_key(|&part| (load(part), part)).unwrap_or(0),
        }
    }

    fn add(&mut self, part: usize, nodes: u64, train: u64) {
        self.nodes[part] += nodes;
        self.train[part] += train;
    }
}

/// A search for the blocks near a block.
struct Near {
    /// For each block, the last block that it was found near.
    seen: Vec<u32>,
    found: Vec<u32>,
}

impl Near {
    fn of(blocks: usize) -> Near {
        Near { seen: vec![u32::MAX; blocks], found: Vec::new() }
    }

    /// The blocks one or two hops from a block, each once.
    fn within_two(&mut self, graph: &BlockGraph, block: u32) -> &[u32] {
        self.found.clear();
        self.seen[block as usize] = block;
        self.add_neighbours(graph, block, block);
        for at in 0..self.found.len() {
            self.add_neighbours(graph, self.found[at], block);
        }
        &self.found
    }

    fn add_neighbours(&mut self, graph: &BlockGraph, of: u32, block: u32) {
        for (other, _) in graph.neighbours(of) {
            if std::mem::replace(&mut self.seen[other as usize], block) != block {
                self.found.push(other);
            }
        }
    }
}

/// In a graph of power-law degrees nearly all pairs of blocks are within two hops.
fn check_steps(blocks: &Blocks, graph: &BlockGraph) -> Result<(), GraphError> {
    let degrees = (0..blocks.count() as u32).map(|block| graph.degree(block) as u64);
    // Σ over blocks and their neighbours of the neighbours' degrees is Σ degree².
    let steps = degrees.fold(0_u64, |sum, degree| sum.saturating_add(degree.saturating_mul(degree)));
    if steps <= MOST_STEPS {
        return Ok(());
    }
    let message = format!(
        "{} blocks have {steps} pairs of neighbours to go over, and {MOST_STEPS} are the most: take `count=edges`, or \
         larger blocks (`block_nodes`)",
        blocks.count()
    );
    Err(GraphError::usage("count=blocks", message))
}
