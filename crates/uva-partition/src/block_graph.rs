//! Blocks as nodes of a graph, and the edges between them.

use crate::blocks::Blocks;
use crate::tally::Tally;
use crate::weighted::Weighted;

/// For each block the blocks next to it.
#[derive(Clone, Debug)]
pub(crate) struct BlockGraph {
    /// The end of each block's neighbours.
    ends: Vec<usize>,
    /// The neighbours, ascending.
    to: Vec<u32>,
    /// Entries of lists between the two, of either direction.
    edges: Vec<u64>,
}

impl BlockGraph {
    pub(crate) fn of(graph: &impl Weighted, blocks: &Blocks) -> BlockGraph {
        let members = Members::of(blocks);
        let mut found =
            BlockGraph { ends: Vec::with_capacity(blocks.count()), to: Vec::new(), edges: Vec::new() };
        let mut tally = Tally::of(blocks.count());
        for block in 0..blocks.count() as u32 {
            for &node in members.of_block(block) {
                for (neighbour, between) in graph.edges_of(node) {
                    let other = blocks.of[neighbour as usize];
                    if other != block {
                        tally.add(other, between);
                    }
                }
            }
            let begin = found.to.len();
            found.to.extend(tally.labels());
            found.to[begin..].sort_unstable();
            found.edges.extend(found.to[begin..].iter().map(|&other| tally.sum(other)));
            tally.clear();
            found.ends.push(found.to.len());
        }
        found
    }

    /// The blocks next to one, ascending, and the edges to each.
    pub(crate) fn neighbours(&self, block: u32) -> impl Iterator<Item = (u32, u64)> + '_ {
        let entries = self.entries(block);
        self.to[entries.clone()].iter().copied().zip(self.edges[entries].iter().copied())
    }

    /// How many there are.
    pub(crate) fn degree(&self, block: u32) -> usize {
        self.entries(block).len()
    }

    fn entries(&self, block: u32) -> std::ops::Range<usize> {
        let block = block as usize;
        let begin = if block == 0 { 0 } else { self.ends[block - 1] };
        begin..self.ends[block]
    }
}

/// The nodes of each block.
struct Members {
    ends: Vec<usize>,
    nodes: Vec<u32>,
}

impl Members {
    fn of(blocks: &Blocks) -> Members {
        let mut ends = Vec::with_capacity(blocks.count());
        let mut begin = 0;
        let mut members = vec![0; blocks.count()];
        blocks.of.iter().for_each(|&block| members[block as usize] += 1);
        for members in members {
            ends.push(begin);
            begin += members;
        }
        let mut nodes = vec![0; blocks.of.len()];
        for (node, &block) in (0..).zip(&blocks.of) {
            let place = &mut ends[block as usize];
            nodes[*place] = node;
            *place += 1;
        }
        Members { ends, nodes }
    }

    fn of_block(&self, block: u32) -> &[u32] {
        let block = block as usize;
        let begin = if block == 0 { 0 } else { self.ends[block - 1] };
        &self.nodes[begin..self.ends[block]]
    }
}
