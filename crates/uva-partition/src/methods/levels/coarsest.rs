//! Initial parts of the clusters of the last level.

use rayon::prelude::*;
use uva_graph::{GraphError, Progress};

use crate::graphs::limits::PartSizes;
use crate::graphs::order;
use crate::graphs::weighted::WeightedGraph;
use crate::methods::blocks::assign::{assign, largest_first};
use crate::methods::blocks::search::Blocks;
use crate::methods::levels::level::Level;
use crate::methods::levels::refine::refine;
use crate::options::Count;

/// The maximum number of random orders that are tried. On oewn, the share of lists of other parts that batches of four
/// parts read was 0.063 without any, and 0.047 with 16. In a prototype with two more ways to grow clusters, eight parts
/// of cnr2000_web had 16,632 and 55,139 edges between them with two seeds, 8,713 and 9,896 with 16 orders, and 6,049
/// and 6,571 with 64.
const MOST_TRIES: u64 = 16;

/// The initial parts of a level's nodes, one or two of them.
pub(crate) struct Starts<'s> {
    /// The last level, and all its nodes.
    pub(crate) level: &'s Level,
    pub(crate) numbers: &'s [u32],
    pub(crate) parts: u32,
    pub(crate) passes: u32,
    pub(crate) seed: u64,
}

impl Starts<'_> {
    /// Assigns nodes as blocks are, the largest first, and then in random orders, and refines each result. The best of
    /// the random results is the second start: among those within the limits of parts, if there are any, the one with
    /// the fewest edges between parts; the first of equal ones. The number of orders is that of the level's pairs of
    /// nodes that fit into `entries`, so that all of them together cost no more than the finest level.
    ///
    /// # Errors
    /// As [`assign`].
    pub(crate) fn all(&self, entries: u64, progress: &dyn Fn(Progress)) -> Result<Vec<Vec<u16>>, GraphError> {
        let Level { graph, blocks } = self.level;
        let own = Blocks { of: self.numbers.to_vec(), ..blocks.clone() };
        let mut starts = vec![assign(&own, graph, &largest_first(&own), self.parts, Count::Edges, progress)?];
        let tries = (entries / graph.pairs().max(1)).min(MOST_TRIES);
        // At most 16.
        let tried: Result<Vec<_>, GraphError> =
            (1..=tries as u32).into_par_iter().map(|number| self.tried(&own, number)).collect();
        starts.extend(tried?.into_iter().min_by_key(|(cost, _)| *cost).map(|(_, of)| of));
        Ok(starts)
    }

    /// Parts, and the values by which they are compared.
    fn tried(&self, own: &Blocks, number: u32) -> Result<((bool, u64), Vec<u16>), GraphError> {
        let Starts { level, numbers, parts, passes, seed } = *self;
        let order = order::another(level.count(), seed, number);
        let mut of = assign(own, &level.graph, &order, parts, Count::Edges, &|_| {})?;
        refine(level, numbers, &mut of, parts, passes, &|_| {});
        let is_over = PartSizes::of(&of, parts, |node| level.size(node)).any_is_over();
        Ok(((is_over, self.cut(&of)), of))
    }

    /// Edges between parts.
    fn cut(&self, of: &[u16]) -> u64 {
        let of_node = |&node: &u32| {
            let others =
                self.level.edges_of(node).filter(|(other, _)| of[*other as usize] != of[node as usize]);
            others.map(|(_, edges)| edges).sum::<u64>()
        };
        self.numbers.iter().map(of_node).sum()
    }
}
