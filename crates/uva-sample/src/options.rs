//! What a sampler is asked for, and which batch is meant.

use std::fmt;

use uva_graph::{Csc, Split, mix};

use crate::{InvalidOption, SampleError, SamplerKind};

/// Most hops that a batch may have: the random key has five bits for the hop.
pub const MAX_LAYERS: usize = 32;

/// The last epoch that can be named: the random key has thirty bits for it.
pub const MAX_EPOCH: u32 = (1 << 30) - 1;

/// Most neighbours drawn out of a list; a larger fanout is fine where it takes every list whole.
///
/// A stream of random words ends after [`STREAM_WORDS`](crate::philox::STREAM_WORDS), and a draw may take more than
/// one; a quarter of them is always enough in practice (a draw is rejected with a chance below one half).
pub(crate) const MAX_PICKS: usize = 1 << 16;

/// Most draws for a layer, of the kinds that draw together: a sampler's memory is sized by it.
pub(crate) const MAX_DRAWN: i32 = 1 << 24;

/// How a [`BatchSampler`](crate::BatchSampler) samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplerOptions {
    /// Which neighbours are picked.
    pub kind: SamplerKind,
    /// Neighbours a node gets in each hop, written from the seeds outward; −1 takes all. 1 to [`MAX_LAYERS`] hops. Of a
    /// kind that [draws together](SamplerKind::draws_together): draws for all destinations of the hop, and the same
    /// number in each hop where they are for [one subgraph](SamplerKind::draws_one_subgraph).
    pub fanouts: Vec<i32>,
    /// Whether a neighbour may be picked more than once. Then every list with entries gives as many picks as its
    /// fanout says, a short one too; a fanout of −1 takes lists as they stand. For [`SamplerKind::Neighbor`] and
    /// [`SamplerKind::Weighted`] only.
    pub replace: bool,
    /// The run's seed.
    pub seed: u64,
    /// κ, at least 1: a node's picks change every κ batches only, so that consecutive batches share rows. 1 is the
    /// ordinary case: they change with every batch.
    pub batch_dependency: u32,
    /// Which nodes a hop draws picks for.
    pub expand: Expand,
    /// Whether blocks say where each pick stands in the dataset's `indices.npy`. It changes nothing else of a batch.
    pub edge_ids: bool,
    /// The walks of [`SamplerKind::Walk`]. It changes nothing of other kinds.
    pub walks: Walks,
}

/// How [`SamplerKind::Walk`] walks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Walks {
    /// Walks from each node, 1 to [`MOST_COUNT`](Self::MOST_COUNT).
    pub count: u32,
    /// The most steps of a walk, 1 to [`MOST_LENGTH`](Self::MOST_LENGTH).
    pub length: u32,
    /// The chance, in per cent, that a walk ends before each step but its first: 0 to 100.
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

// Two draws a step leave the stream words to spare for rejected ones.
const _: () = assert!(2 * (Walks::MOST_COUNT * Walks::MOST_LENGTH) as usize <= MAX_PICKS);

impl Default for Walks {
    /// The number of walks is that of DGL's PinSAGE sampler; its traversals go over two edges each.
    fn default() -> Self {
        Self { count: 10, length: 4, stop: 25 }
    }
}

/// Which of the nodes so far a hop draws picks for. Every one of them is a destination of the hop's block either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Expand {
    /// All of them, with fresh random words in each hop: DGL's way.
    #[default]
    All,
    /// Those that the hop before found; the others keep their picks. So a block begins with the block before, and a
    /// node has the same neighbours in every layer: PyG's way, and what its `trim_to_layer` needs.
    New,
}

impl Expand {
    /// Both, the default first.
    pub const ALL: [Expand; 2] = [Expand::All, Expand::New];

    /// The name in options and messages: `all` or `new`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Expand::All => "all",
            Expand::New => "new",
        }
    }

    /// What [`name`](Self::name) calls so.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Expand> {
        Expand::ALL.into_iter().find(|expand| expand.name() == name)
    }
}

impl fmt::Display for Expand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl SamplerOptions {
    /// Checks that every batch of these options can be sampled from `csc`. Looks at every list only where one could be
    /// too long.
    ///
    /// # Errors
    /// [`SampleError::InvalidOption`] for fanouts that mean nothing, that pick more than 65,536 out of a list, for
    /// picks that are kept for no batch, for what the kind of sampler cannot do ([`check_kind`](Self::check_kind)), and
    /// for graphs beyond what the random keys can name.
    pub fn check(&self, csc: &Csc<'_>) -> Result<(), SampleError> {
        check_fanouts(&self.fanouts)?;
        if self.batch_dependency == 0 {
            return Err(InvalidOption::BatchDependency.into());
        }
        self.check_kind()?;
        Ok(check_graph(csc, self)?)
    }

    /// Number, length and chance to end of the walks, where the kind walks.
    #[must_use]
    pub fn walks_in_force(&self) -> Option<[u32; 3]> {
        let Walks { count, length, stop } = self.walks;
        (self.kind == SamplerKind::Walk).then_some([count, length, stop])
    }

    /// How many picks a list of `entries` entries gives in a hop of this fanout, of a kind that picks a number out of each
    /// list. Entries that cannot be picked (of weight 0) are none.
    #[must_use]
    pub fn picks_of_list(&self, entries: usize, fanout: i32) -> usize {
        picks_of_list(entries, usize::try_from(fanout).unwrap_or(usize::MAX), self.replace)
    }

    /// The most picks of one list in a hop of this fanout, or its draws, of a kind that draws together; `None` where
    /// lists are taken whole.
    pub(crate) fn picks_a_list(&self, fanout: i32) -> Option<usize> {
        let picks = usize::try_from(fanout).ok()?;
        Some(if self.kind == SamplerKind::Walk { picks.min(self.walks.steps()) } else { picks })
    }

    /// Checks that the kind of sampler can do what is asked of it.
    ///
    /// # Errors
    /// The option that does not go with the kind, and what to use instead.
    pub fn check_kind(&self) -> Result<(), InvalidOption> {
        let kind = self.kind;
        if self.replace && !matches!(kind, SamplerKind::Neighbor | SamplerKind::Weighted) {
            return Err(InvalidOption::Replace { kind });
        }
        if kind == SamplerKind::Walk {
            self.check_walks()?;
        }
        if kind.draws_together() {
            if self.expand == Expand::New {
                return Err(InvalidOption::ExpandNew { kind });
            }
            if let Some(layer) = self.fanouts.iter().position(|&fanout| fanout > MAX_DRAWN) {
                return Err(InvalidOption::TooManyDrawn { kind, layer, fanout: self.fanouts[layer] });
            }
            let first = self.fanouts.first();
            if kind.draws_one_subgraph()
                && let Some(layer) = self.fanouts.iter().position(|fanout| Some(fanout) != first)
            {
                return Err(InvalidOption::OneSubgraph { kind, layer, fanout: self.fanouts[layer] });
            }
        }
        Ok(())
    }
}

impl SamplerOptions {
    fn check_walks(&self) -> Result<(), InvalidOption> {
        let Walks { count, length, stop } = self.walks;
        for (what, given, least, most) in [
            ("walks", count, 1, Walks::MOST_COUNT),
            ("walk-length", length, 1, Walks::MOST_LENGTH),
            ("walk-stop", stop, 0, 100),
        ] {
            if !(least..=most).contains(&given) {
                return Err(InvalidOption::Walks { what, given, least, most });
            }
        }
        if self.edge_ids {
            return Err(InvalidOption::EdgeIds { kind: self.kind });
        }
        match self.fanouts.iter().position(|&fanout| !(1..=MAX_PICKS as i32).contains(&fanout)) {
            Some(layer) => Err(InvalidOption::WalkFanout { layer, fanout: self.fanouts[layer] }),
            None => Ok(()),
        }
    }
}

impl Default for SamplerOptions {
    fn default() -> Self {
        Self {
            kind: SamplerKind::Neighbor,
            fanouts: vec![15, 10, 5],
            replace: false,
            seed: 0,
            batch_dependency: 1,
            expand: Expand::All,
            edge_ids: false,
            walks: Walks::default(),
        }
    }
}

/// Whether picks are drawn out of a list of `entries` entries, which is otherwise taken as it stands. A fanout of
/// `usize::MAX` takes every list so.
#[inline]
pub(crate) fn draws(entries: usize, fanout: usize, replace: bool) -> bool {
    if replace { entries > 0 && fanout < usize::MAX } else { entries > fanout }
}

/// [`SamplerOptions::picks_of_list`].
#[inline]
pub(crate) fn picks_of_list(entries: usize, fanout: usize, replace: bool) -> usize {
    if draws(entries, fanout, replace) { fanout } else { entries }
}

/// The batch that the picks of the node with this original id are keyed by in `batch`: ⌊(batch + h mod κ) / κ⌋, h being
/// `mix(node)`. So the picks of a node stay for κ batches, and each batch changes those of a κ-th of the nodes
/// ("batch-dependent sampling", docs/reproducible-batches.md).
#[must_use]
pub fn batch_of_picks(batch: u32, node: u64, batch_dependency: u32) -> u32 {
    let kappa = u64::from(batch_dependency);
    // At most batch for κ = 1 and below it for a larger κ but at 0: no more than 32 bits.
    ((u64::from(batch) + mix(node) % kappa) / kappa) as u32
}

/// Most destinations in a group.
///
/// With [`GROUP_PICKS`] below, milliseconds of CPU time a batch of 1000 seeds with fanouts 15,10,5, the least of three
/// runs of 60 batches in turns (two cores of a shared Xeon with AVX-512): it hardly matters.
///
/// | destinations, picks | 128, 1024 | **256, 2048** | 512, 4096 | 1024, 8192 |
/// |---|---|---|---|---|
/// | 100 K nodes, 2 M edges | 2.71 | 2.68 | 2.66 | 2.67 |
/// | 2.4 M nodes, 124 M edges | 13.17 | 12.93 | 12.68 | 12.83 |
pub(crate) const GROUP: usize = 256;

/// Picks that a group should have at most, so that its scratch stays in the caches near the core.
pub(crate) const GROUP_PICKS: usize = 2048;

/// How the destinations of a hop are worked off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HopShape {
    /// Neighbours drawn out of a list that has more, or, with replacement, any; `None`: every list is taken as it
    /// stands.
    pub limit: Option<usize>,
    /// Destinations whose lists are looked at before any of them is picked for. Where a batch has several faults, this
    /// decides which is told, so whoever samples by other means needs it to tell the same.
    pub group: usize,
}

impl HopShape {
    /// The shape of a hop with this fanout.
    #[must_use]
    pub fn of(fanout: i32) -> Self {
        // Fanouts beyond MAX_PICKS have been checked to take every list whole too.
        let limit = usize::try_from(fanout).ok().filter(|&fanout| fanout <= MAX_PICKS);
        let group = limit.map_or(GROUP, |fanout| (GROUP_PICKS / fanout.max(1)).clamp(1, GROUP));
        Self { limit, group }
    }

    /// The shape of a hop with so many draws, of a kind that draws together.
    pub(crate) fn of_layer(drawn: i32) -> Self {
        Self { limit: usize::try_from(drawn).ok(), group: GROUP }
    }
}

/// Checks what does not depend on a graph.
pub(crate) fn check_fanouts(fanouts: &[i32]) -> Result<(), InvalidOption> {
    if fanouts.is_empty() {
        return Err(InvalidOption::NoFanouts);
    }
    if fanouts.len() > MAX_LAYERS {
        return Err(InvalidOption::TooManyFanouts { given: fanouts.len() });
    }
    match fanouts.iter().position(|&fanout| fanout == 0 || fanout < -1) {
        Some(layer) => Err(InvalidOption::Fanout { layer, fanout: fanouts[layer] }),
        None => Ok(()),
    }
}

/// Names one batch of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BatchKey {
    /// Where the seeds come from.
    pub split: Split,
    /// The epoch, from 0, at most [`MAX_EPOCH`].
    pub epoch: u32,
    /// The batch within the epoch, from 0.
    pub batch: u32,
}

/// For people, who count epochs and batches from 1.
impl fmt::Display for BatchKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [batch, epoch] = [self.batch, self.epoch].map(|number| u64::from(number) + 1);
        write!(f, "{} batch {batch} of epoch {epoch}", self.split)
    }
}

/// Refuses graphs that the random keys cannot name and lists that cannot be picked from. Looks at every list only
/// where one could be too long.
fn check_graph(csc: &Csc<'_>, options: &SamplerOptions) -> Result<(), InvalidOption> {
    let nodes = csc.nodes();
    if nodes as u64 > 1 << 40 {
        return Err(InvalidOption::TooManyNodes { nodes });
    }
    if let Some(original) = csc.original_ids
        && original.len() != nodes
    {
        return Err(InvalidOption::OriginalIds { given: original.len(), nodes });
    }
    let longer_than = |limit: usize| {
        (csc.edges() > limit).then(|| (0..nodes).find(|&node| csc.degree(node) > limit)).flatten()
    };
    if let Some(node) = longer_than(u32::MAX as usize) {
        return Err(InvalidOption::DegreeTooLarge { node, degree: csc.degree(node) });
    }
    for (layer, &fanout) in options.fanouts.iter().enumerate() {
        if !options.kind.draws_together()
            && fanout as i64 > MAX_PICKS as i64
            // With replacement every list that has entries is drawn from.
            && let Some(node) = longer_than(if options.replace { 0 } else { fanout as usize })
        {
            return Err(InvalidOption::TooManyPicks { layer, fanout, node, degree: csc.degree(node) });
        }
    }
    Ok(())
}
