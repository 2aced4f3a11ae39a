//! Multilevel partitioning: clusters of clusters are partitioned once there are few, and refined on the way back.

use uva_graph::{GraphError, Progress};

use crate::graphs::counts::edge_cut;
use crate::graphs::graph::OriginalGraph;
use crate::graphs::weighted::WeightedGraph;
use crate::methods::blocks::block_graph::BlockGraph;
use crate::methods::blocks::search::{Blocks, Caps};
use crate::methods::levels::cluster::cluster;
use crate::methods::levels::coarsest::Starts;
use crate::methods::levels::level::Level;
use crate::methods::levels::refine;

/// A cluster has at most one in this many of a part's nodes; Meyerhenke et al. use 14. Not compared.
const CLUSTERS_A_PART: u64 = 16;

/// The maximum number of clusters per part that are not clustered again. Not compared.
const COARSEST: usize = 64;

/// The growth of cluster sizes from one level to the next. On oewn, the share of lists of other parts that batches read
/// was 0.055, 0.053 and 0.062 with 4, 8 and 16. On a graph in the shape of papers100M it was 0.059 with 8, and 0.457
/// with clusters that grow at once. On a graph with power-law degrees it was 0.48 and 0.41, with five passes for each
/// level's clusters regardless of the number of moves.
const GROWTH: u64 = 8;

/// Refinement passes on each level.
const PASSES: u32 = 10;

/// The growth of cluster sizes over the levels.
#[derive(Clone, Copy)]
enum Growth {
    /// [`GROWTH`] times as large on each level.
    Gradual,
    /// The final size from the first level on.
    AtOnce,
}

/// The part of each node.
///
/// Nodes are clustered, then the clusters, until few are left. These are assigned as the blocks of bgl are, and also by
/// the best of random orders. On the way back each level is refined. That is done with clusters that grow gradually,
/// and with clusters that grow at once. Of these four results, the one with the fewest edges between parts is kept, and
/// refined again on levels whose clusters stay within its parts. Uses the current rayon pool.
///
/// The best start of the last level need not give the best result: on a graph with power-law degrees, batches of parts
/// from the best of random orders read 0.455 of their lists from other parts, and 0.317 with the largest first.
///
/// # Errors
/// As [`Starts::all`].
pub(crate) fn assign(
    graph: &OriginalGraph<'_>,
    order: &[u32],
    parts: u32,
    seed: u64,
    progress: &dyn Fn(Progress),
) -> Result<Vec<u16>, GraphError> {
    let share = |all: usize| (all as u64 / (CLUSTERS_A_PART * u64::from(parts))).max(1);
    let caps = Caps { nodes: share(graph.nodes()), train: share(graph.train().len()) };
    let levels = Levels { graph, order, caps, parts, progress };
    let mut best = (u64::MAX, Vec::new());
    for growth in [Growth::Gradual, Growth::AtOnce] {
        for of in levels.divided(growth, seed)? {
            let cut = edge_cut(graph, &of);
            if cut < best.0 {
                best = (cut, of);
            }
        }
    }
    Ok(levels.refined(best.1))
}

/// The maximum number of bytes required. Level 1 may have a pair for each entry in both directions, and the levels
/// above it have at most as many together.
pub(crate) fn bytes(nodes: u64, edges: u64) -> u64 {
    // Clusters by node, their sizes and numbers, the parts that they stay in, and the best parts so far.
    let of_clusters = (4 + 16 + 4 + 4 + 2 + 2) * nodes;
    of_clusters + 2 * (4 + 8) * 2 * edges
}

struct Levels<'l> {
    graph: &'l OriginalGraph<'l>,
    order: &'l [u32],
    caps: Caps,
    parts: u32,
    progress: &'l dyn Fn(Progress),
}

impl Levels<'_> {
    /// Parts from each of the starts.
    fn divided(&self, growth: Growth, seed: u64) -> Result<Vec<Vec<u16>>, GraphError> {
        let levels = self.coarsen(growth, None);
        let Some(level) = levels.last() else { return Ok(Vec::new()) };
        let numbers = by_number(level);
        let starts = Starts { level, numbers: &numbers, parts: self.parts, passes: PASSES, seed };
        let starts = starts.all(self.graph.entries(), self.progress)?;
        Ok(starts.into_iter().map(|of| self.back(&levels, of)).collect())
    }

    /// The given parts, refined on all levels.
    fn refined(&self, of: Vec<u16>) -> Vec<u16> {
        let levels = self.coarsen(Growth::Gradual, Some(&of));
        let of = levels.iter().fold(of, |of, level| of_blocks(&level.blocks, &of));
        self.back(&levels, of)
    }

    /// Projects the parts of the coarsest clusters to the nodes.
    fn back(&self, levels: &[Level], mut of: Vec<u16>) -> Vec<u16> {
        for level in levels.iter().rev() {
            let order = by_number(level);
            refine::refine(level, &order, &mut of, self.parts, PASSES, self.progress);
            of = level.blocks.of_nodes(&of);
        }
        refine::refine(self.graph, self.order, &mut of, self.parts, PASSES, self.progress);
        of
    }

    /// The levels, at least one, the coarsest last. With `of`, clusters stay within these parts of the nodes.
    fn coarsen(&self, growth: Growth, of: Option<&[u16]>) -> Vec<Level> {
        let (graph, order) = (self.graph, self.order);
        let mut levels = Vec::new();
        let mut within = of.map(<[u16]>::to_vec);
        loop {
            let most = match growth {
                Growth::Gradual => GROWTH.saturating_pow(levels.len() as u32 + 1),
                Growth::AtOnce => u64::MAX,
            };
            let caps = Caps { nodes: self.caps.nodes.min(most), train: self.caps.train.min(most) };
            let (blocks, finer) = match levels.last() {
                None => (cluster(graph, order, caps, within.as_deref()), graph.count()),
                Some(level) => (cluster(level, &by_number(level), caps, within.as_deref()), level.count()),
            };
            // The level gains little, and would gain no more with larger clusters.
            let is_last = most >= self.caps.nodes && blocks.count() as u64 * 20 > finer as u64 * 19;
            if is_last && !levels.is_empty() {
                return levels;
            }
            within = within.map(|of| of_blocks(&blocks, &of));
            let between = match levels.last() {
                None => BlockGraph::of(graph, &blocks),
                Some(level) => BlockGraph::of(level, &blocks),
            };
            let is_coarse = blocks.count() <= COARSEST * self.parts as usize;
            levels.push(Level { graph: between, blocks });
            if is_last || is_coarse {
                return levels;
            }
        }
    }
}

/// The part of each block, whose nodes all have the same part.
fn of_blocks(blocks: &Blocks, of: &[u16]) -> Vec<u16> {
    let mut coarse = vec![0; blocks.count()];
    blocks.of.iter().zip(of).for_each(|(&block, &part)| coarse[block as usize] = part);
    coarse
}

fn by_number(level: &Level) -> Vec<u32> {
    (0..level.count() as u32).collect()
}
