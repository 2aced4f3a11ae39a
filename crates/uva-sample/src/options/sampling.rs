//! The options of a sampler, and how a hop is processed under them.

use uva_graph::mix;
use uva_options::named;

use crate::limits::MAX_PICKS;
use crate::{Fanouts, SamplerKind, Trees};

/// How a [`BatchSampler`](crate::BatchSampler) samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplerOptions {
    /// The kind of sampler.
    pub kind: SamplerKind,
    /// Neighbours a node in each hop. They are equal in all hops if the draws are for
    /// [one subgraph](SamplerKind::draws_one_subgraph).
    pub fanouts: Fanouts,
    /// What a fanout is for, in a graph with several relations.
    pub fanout_per: FanoutPer,
    /// Whether a neighbour may be picked more than once. Then every nonempty list gives as many picks as its fanout
    /// says, even a short one; a fanout of −1 takes lists whole. For kinds that [replace](SamplerKind::replaces).
    pub replace: bool,
    /// The run's seed.
    pub seed: u64,
    /// κ, at least 1: a node's picks change only every κ batches, so that consecutive batches share rows. 1 is the
    /// ordinary case: they change with every batch.
    pub batch_dependency: u32,
    /// Which nodes a hop draws picks for.
    pub expand: Expand,
    /// Whether blocks state the position of each pick in the dataset's `indices.npy`. It changes nothing else of a
    /// batch.
    pub edge_ids: bool,
    /// Whether each seed has a tree of its own, and what it sees of the graph; `None`: seeds share nodes.
    pub trees: Option<Trees>,
    /// The random walks of kinds that [walk](SamplerKind::walks). Other kinds ignore it.
    pub walks: Walks,
}

/// Random walks, for kinds that [walk](SamplerKind::walks).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Walks {
    /// Walks from each node, 1 to [`MOST_COUNT`](Self::MOST_COUNT).
    pub count: u32,
    /// The most steps of a walk, 1 to [`MOST_LENGTH`](Self::MOST_LENGTH).
    pub length: u32,
    /// The probability, in per cent, that a walk ends before each step but its first: 0 to 100.
    pub stop: u32,
}

impl Walks {
    /// Most walks from a node.
    pub const MOST_COUNT: u32 = 1024;

    /// Most steps of a walk.
    pub const MOST_LENGTH: u32 = 32;

    /// The most steps from a node, and the most nodes that are visited from it.
    pub(crate) fn steps(self) -> usize {
        self.count as usize * self.length as usize
    }
}

// Two draws per step leave spare words in the stream for rejected ones.
const _: () = assert!(2 * (Walks::MOST_COUNT * Walks::MOST_LENGTH) as usize <= MAX_PICKS);

impl Default for Walks {
    /// The number of walks is that of DGL's PinSAGE sampler; its traversals go over two edges each.
    fn default() -> Self {
        Self { count: 10, length: 4, stop: 25 }
    }
}

named! {
    /// What a fanout is for, in a graph with several relations.
    pub enum FanoutPer = Relation {
        /// Each relation: a node has that many picks from its list in the relation.
        Relation = "relation",
        /// Each node: it has that many picks from its lists in all relations together.
        Node = "node",
    }
}

named! {
    /// The nodes that a hop draws picks for. All nodes so far are destinations of the hop's block in both cases.
    ///
    /// With [`All`](Self::All), each hop has fresh random words, as in DGL. With [`New`](Self::New), earlier nodes keep
    /// their picks. So a block begins with the previous block, and a node has the same neighbours in every layer, as in PyG,
    /// whose `trim_to_layer` requires that.
    pub enum Expand = All {
        /// All nodes so far.
        All = "all",
        /// Nodes that the previous hop found.
        New = "new",
    }
}

impl SamplerOptions {
    /// The options of the walks, if the kind walks.
    #[must_use]
    pub fn walks_in_force(&self) -> Option<[u32; 3]> {
        let Walks { count, length, stop } = self.walks;
        self.kind.walks().then_some([count, length, stop])
    }

    /// The number of picks from a list of `entries` entries in a hop of this fanout, for a kind that picks from each
    /// list. Entries that cannot be picked (of weight 0) don't count.
    #[must_use]
    pub fn picks_of_list(&self, entries: usize, fanout: i32) -> usize {
        picks_of_list(entries, usize::try_from(fanout).unwrap_or(usize::MAX), self.replace)
    }

    /// The most picks from one list in a hop of this fanout, or, for a kind that draws together, its draws; `None` if
    /// lists are taken whole.
    pub(crate) fn picks_a_list(&self, fanout: i32) -> Option<usize> {
        let picks = usize::try_from(fanout).ok()?;
        Some(if self.kind.walks() { picks.min(self.walks.steps()) } else { picks })
    }
}

/// Whether picks are drawn from a list of `entries` entries; otherwise it is taken whole. A fanout of `usize::MAX`
/// takes every list whole.
#[inline]
pub(crate) fn draws(entries: usize, fanout: usize, replace: bool) -> bool {
    if replace { entries > 0 && fanout < usize::MAX } else { entries > fanout }
}

/// [`SamplerOptions::picks_of_list`].
#[inline]
pub(crate) fn picks_of_list(entries: usize, fanout: usize, replace: bool) -> usize {
    if draws(entries, fanout, replace) { fanout } else { entries }
}

/// The batch number that keys the picks of the node with this original id in `batch`: ⌊(batch + h mod κ) / κ⌋, h being
/// `mix(node)`. So the picks of a node stay for κ batches, and each batch changes those of a κ-th of the nodes
/// ("batch-dependent sampling", docs/spec/reproducible-batches.md).
#[must_use]
pub fn batch_of_picks(batch: u32, node: u64, batch_dependency: u32) -> u32 {
    let kappa = u64::from(batch_dependency);
    // At most `batch` for κ = 1; for a larger κ less than `batch`, except at 0. So 32 bits suffice.
    ((u64::from(batch) + mix(node) % kappa) / kappa) as u32
}

/// Most destinations in a group.
///
/// It hardly matters. With [`GROUP_PICKS`] below, milliseconds of CPU time per batch of 1000 seeds with fanouts
/// 15,10,5, the least of three interleaved runs of 60 batches (two cores of a Xeon with AVX-512):
///
/// | destinations, picks | 128, 1024 | **256, 2048** | 512, 4096 | 1024, 8192 |
/// |---|---|---|---|---|
/// | 100 K nodes, 2 M edges | 2.71 | 2.68 | 2.66 | 2.67 |
/// | 2.4 M nodes, 124 M edges | 13.17 | 12.93 | 12.68 | 12.83 |
pub(crate) const GROUP: usize = 256;

/// The target for a group's picks, so that its scratch stays in the caches near the core.
pub(crate) const GROUP_PICKS: usize = 2048;

/// How the destinations of a hop are processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HopShape {
    /// Neighbours drawn from each list that has more, or, with replacement, from any; `None`: every list is taken
    /// whole.
    pub limit: Option<usize>,
    /// Destinations whose lists are read before any of them is picked for. If a batch has several faults, this decides
    /// which one is reported, so a sampler on a GPU needs it to report the same.
    pub group: usize,
}

impl HopShape {
    /// The shape of a hop with this fanout.
    #[must_use]
    pub fn of(fanout: i32) -> Self {
        // Fanouts beyond MAX_PICKS were checked to take every list whole too.
        let limit = usize::try_from(fanout).ok().filter(|&fanout| fanout <= MAX_PICKS);
        let group = limit.map_or(GROUP, |fanout| (GROUP_PICKS / fanout.max(1)).clamp(1, GROUP));
        Self { limit, group }
    }

    /// The shape of a hop with this many draws, for a kind that draws together.
    pub(crate) fn of_layer(drawn: i32) -> Self {
        Self { limit: usize::try_from(drawn).ok(), group: GROUP }
    }
}
