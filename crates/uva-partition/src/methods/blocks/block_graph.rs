//! Blocks as nodes of a graph, and the edges between them.

use rayon::prelude::*;

use crate::graphs::tally::LabelTally;
use crate::graphs::weighted::WeightedGraph;
use crate::methods::blocks::search::Blocks;

/// Blocks per piece of work.
const PIECE: usize = 1024;

/// The neighbouring blocks of each block.
#[derive(Clone, Debug)]
pub(crate) struct BlockGraph {
    /// The end of each block's neighbours.
    ends: Vec<usize>,
    /// The neighbours, ascending.
    to: Vec<u32>,
    /// The number of list entries between the two, in either direction.
    edges: Vec<u64>,
}

impl BlockGraph {
    /// The graph of these blocks. Uses the current rayon pool.
    pub(crate) fn of(graph: &impl WeightedGraph, blocks: &Blocks) -> BlockGraph {
        let members = Members::of(blocks);
        let numbers: Vec<u32> = (0..blocks.count() as u32).collect();
        let pieces: Vec<Piece> =
            numbers.par_chunks(PIECE).map(|numbers| Piece::of(graph, blocks, &members, numbers)).collect();
        let pairs = pieces.iter().map(|piece| piece.to.len()).sum();
        let mut found = BlockGraph {
            ends: Vec::with_capacity(blocks.count()),
            to: Vec::with_capacity(pairs),
            edges: Vec::with_capacity(pairs),
        };
        for piece in pieces {
            let begin = found.to.len();
            found.ends.extend(piece.ends.iter().map(|end| begin + end));
            found.to.extend(piece.to);
            found.edges.extend(piece.edges);
        }
        found
    }

    /// The neighbours of a block, ascending, and the edges to each.
    pub(crate) fn neighbours(&self, block: u32) -> impl Iterator<Item = (u32, u64)> + '_ {
        let entries = self.entries(block);
        self.to[entries.clone()].iter().copied().zip(self.edges[entries].iter().copied())
    }

    /// Pairs of neighbouring blocks, in both directions.
    pub(crate) fn pairs(&self) -> u64 {
        self.to.len() as u64
    }

    /// Number of neighbours of a block.
    pub(crate) fn degree(&self, block: u32) -> usize {
        self.entries(block).len()
    }

    fn entries(&self, block: u32) -> std::ops::Range<usize> {
        let block = block as usize;
        let begin = if block == 0 { 0 } else { self.ends[block - 1] };
        begin..self.ends[block]
    }
}

/// A piece of a block graph, whose ends count from its own beginning.
#[derive(Default)]
struct Piece {
    ends: Vec<usize>,
    to: Vec<u32>,
    edges: Vec<u64>,
}

impl Piece {
    /// The piece of these blocks.
    fn of(graph: &impl WeightedGraph, blocks: &Blocks, members: &Members, numbers: &[u32]) -> Piece {
        let (mut piece, mut tally, mut sums) = (Piece::default(), LabelTally::new(), Vec::new());
        for &block in numbers {
            for &node in members.of_block(block) {
                for (neighbour, between) in graph.edges_of(node) {
                    let other = blocks.of[neighbour as usize];
                    if other != block {
                        tally.add(other, between);
                    }
                }
            }
            sums.extend(tally.sums());
            tally.clear();
            sums.sort_unstable();
            piece.to.extend(sums.iter().map(|(other, _)| other));
            piece.edges.extend(sums.drain(..).map(|(_, edges)| edges));
            piece.ends.push(piece.to.len());
        }
        piece
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
