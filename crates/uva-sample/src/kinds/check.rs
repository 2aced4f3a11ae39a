//! Checks options against a graph and the facts of their kind, and makes the samplers.

use uva_graph::{Csc, EntryTimes, Relation};

use super::table;
use crate::hops::{ById, Divided, HopSampler, Picks};
use crate::limits::MAX_PICKS;
use crate::{
    BatchSampler, Expand, FanoutPer, GraphView, InvalidOption, RelationView, SampleError, SamplerKind,
    SamplerOptions, SortedTimes, TimePick, Trees, TypedView, Walks,
};

/// The sampler for these options and their kind.
///
/// # Errors
/// The errors of [`SamplerOptions::check`], and [`InvalidOption::NoWeights`] if the kind picks by weights and the graph
/// has none.
pub fn sampler<'g>(
    graph: impl Into<TypedView<'g>>,
    options: &SamplerOptions,
) -> Result<Box<dyn BatchSampler + 'g>, SampleError> {
    let graph = graph.into();
    graph.check(options)?;
    table::make(graph, options, None)
}

/// The sampler of one of several ranks among which the lists of `graph` are divided. Its batches are those of
/// [`sampler`](sampler()).
///
/// Of `indices` and weights, only the entries of the rank's own lists are read. The ranks' parts are ranges of the
/// graph's own ids.
///
/// # Errors
/// As [`sampler`](sampler()). [`InvalidOption::DividedLists`] for a kind that does not pick list by list,
/// [`InvalidOption::DividedNodes`] for a graph with another number of nodes.
pub fn divided_sampler<'g>(
    graph: GraphView<'g>,
    options: &SamplerOptions,
    divided: Divided<'g>,
) -> Result<Box<dyn BatchSampler + 'g>, SampleError> {
    options.check(&graph.csc)?;
    graph.check_home()?;
    if options.trees.is_some() {
        return Err(InvalidOption::DividedTrees.into());
    }
    divided.check(options, graph.csc.nodes())?;
    table::make(graph.into(), options, Some(divided))
}

impl<'g, P: Picks<'g>> HopSampler<'g, P, ById<'g>> {
    /// A sampler over `csc`.
    ///
    /// # Errors
    /// The errors of [`SamplerOptions::check`], and [`InvalidOption::OtherKind`] for options of another kind.
    pub fn new(csc: Csc<'g>, options: SamplerOptions) -> Result<Self, SampleError> {
        Self::over(csc.into(), options)
    }

    /// A sampler over a view of the graph, with its weights and cached lists.
    ///
    /// # Errors
    /// As [`new`](Self::new), and [`InvalidOption::NoWeights`] if the kind picks by weights and the graph has none.
    pub fn over(graph: GraphView<'g>, options: SamplerOptions) -> Result<Self, SampleError> {
        if options.kind != P::KIND {
            return Err(InvalidOption::OtherKind { asked: options.kind, this: P::KIND }.into());
        }
        let graph = TypedView::from(graph);
        graph.check(&options)?;
        Self::unchecked(graph, options)
    }
}

impl TypedView<'_> {
    /// Checks that every batch of these options can be sampled from the graph.
    ///
    /// # Errors
    /// As [`sampler`](sampler()).
    pub fn check(&self, options: &SamplerOptions) -> Result<(), SampleError> {
        let relations = self.relations.len();
        options.fanouts.check_relations(relations)?;
        let kind = options.kind;
        if (self.types.len(), relations) != (1, 1) && !kind.picks_list_by_list() {
            let instead = SamplerKind::names_of(SamplerKind::picks_list_by_list);
            return Err(InvalidOption::Types { kind, types: self.types.len(), relations, instead }.into());
        }
        if kind.needs_weights() && self.relations.iter().all(|relation| relation.lists.weights.is_none()) {
            return Err(InvalidOption::NoWeights { kind }.into());
        }
        if let Some(trees) = &options.trees {
            self.check_trees(options, trees)?;
        }
        for (relation, RelationView { ends, lists, .. }) in (0..).map(Relation).zip(&self.relations) {
            let original_ids = self.types[ends.destination.index()].original_ids;
            options.check_relation(relation, &Csc { original_ids, ..lists.csc })?;
            lists.check_home()?;
        }
        Ok(())
    }
}

impl TypedView<'_> {
    /// Checks that batches of trees can be sampled, and that lists are sorted by the times that trees read.
    fn check_trees(&self, options: &SamplerOptions, trees: &Trees) -> Result<(), InvalidOption> {
        let Some(time) = &trees.time else { return Ok(()) };
        time.check()?;
        if options.fanout_per == FanoutPer::Node {
            return Err(InvalidOption::TimePerNode);
        }
        if time.pick == TimePick::Last && options.replace {
            return Err(InvalidOption::LastReplaced);
        }
        let mut times = (0..).map(Relation).zip(&self.relations).filter_map(|(relation, view)| {
            let SortedTimes { times, sorted } = view.times?;
            Some((relation, view, times, sorted))
        });
        let mut timed = times.by_ref().peekable();
        if timed.peek().is_none() {
            return Err(InvalidOption::NoTimes);
        }
        for (relation, view, times, sorted) in timed {
            if !sorted {
                return Err(InvalidOption::NotSorted { relation: relation.0 });
            }
            let (given, wanted) = match times {
                EntryTimes::Edges(times) if view.lists.home.is_some() => (times.len(), times.len()),
                EntryTimes::Edges(times) => (times.len(), view.lists.csc.edges()),
                EntryTimes::Sources(times) => (times.len(), self.types[view.ends.source.index()].nodes),
            };
            if given != wanted {
                return Err(InvalidOption::Times { given, wanted });
            }
        }
        Ok(())
    }
}

impl Default for SamplerOptions {
    fn default() -> Self {
        Self {
            kind: SamplerKind::default(),
            fanouts: [15, 10, 5].into(),
            fanout_per: FanoutPer::Relation,
            replace: false,
            seed: 0,
            batch_dependency: 1,
            expand: Expand::All,
            edge_ids: false,
            trees: None,
            walks: Walks::default(),
        }
    }
}

impl SamplerOptions {
    /// Checks that every batch of these options can be sampled from `csc`. It reads all lists only if one could be too
    /// long.
    ///
    /// # Errors
    /// [`SampleError::InvalidOption`] for:
    /// - fanouts that are meaningless or pick more than 65,536 from a list
    /// - picks that are kept for no batch
    /// - options that the kind does not support ([`check_kind`](Self::check_kind))
    /// - graphs beyond the random keys
    pub fn check(&self, csc: &Csc<'_>) -> Result<(), SampleError> {
        self.check_relation(Relation::ONLY, csc)
    }

    /// [`check`](Self::check) for the lists of a relation.
    fn check_relation(&self, relation: Relation, csc: &Csc<'_>) -> Result<(), SampleError> {
        self.fanouts.check()?;
        if self.batch_dependency == 0 {
            return Err(InvalidOption::BatchDependency.into());
        }
        self.check_kind()?;
        Ok(check_graph(csc, self, relation)?)
    }

    /// Checks that the kind of sampler supports the other options.
    ///
    /// # Errors
    /// The option that the kind does not support, with alternatives.
    pub fn check_kind(&self) -> Result<(), InvalidOption> {
        let kind = self.kind;
        if self.replace && !kind.replaces() {
            return Err(InvalidOption::Replace {
                kind,
                instead: SamplerKind::names_of(SamplerKind::replaces),
            });
        }
        if kind.walks() {
            self.check_walks()?;
        }
        if !kind.picks_in_lists() {
            if self.edge_ids {
                return Err(InvalidOption::EdgeIds { kind });
            }
            let most = 1..=MAX_PICKS as i32;
            if let Some((layer, fanout)) = self.fanout_where(|fanout| !most.contains(&fanout)) {
                return Err(InvalidOption::FoundFanout { kind, layer, fanout });
            }
        }
        if self.trees.is_some() && !kind.grows_trees() {
            let instead = SamplerKind::names_of(SamplerKind::grows_trees);
            return Err(InvalidOption::TreesOfKind { kind, instead });
        }
        if self.expand == Expand::New && !kind.expands_new() {
            let instead = SamplerKind::names_of(SamplerKind::expands_new);
            return Err(InvalidOption::ExpandNew { kind, instead });
        }
        if self.fanout_per == FanoutPer::Node && kind != SamplerKind::NEIGHBOR {
            return Err(InvalidOption::FanoutPerNode { kind });
        }
        let first = self.fanouts.of_relation(Relation::ONLY).next();
        if kind.draws_one_subgraph()
            && let Some((layer, fanout)) = self.fanout_where(|fanout| Some(fanout) != first)
        {
            return Err(InvalidOption::OneSubgraph { kind, layer, fanout });
        }
        Ok(())
    }

    /// The first hop whose fanout is one of these, and the fanout.
    fn fanout_where(&self, mut is_one: impl FnMut(i32) -> bool) -> Option<(usize, i32)> {
        self.fanouts.of_relation(Relation::ONLY).enumerate().find(|(_, fanout)| is_one(*fanout))
    }

    /// Checks that batches only need lists that a part of a partitioned dataset has: those of nodes at a distance of
    /// fewer than `hops` in-hops from its training nodes.
    ///
    /// # Errors
    /// [`InvalidOption::WholeGraph`] for a kind that may read any list, [`InvalidOption::BeyondPart`] for too many
    /// hops.
    pub fn check_reach(&self, hops: usize) -> Result<(), InvalidOption> {
        let kind = self.kind;
        match kind.reach(self.fanouts.hops(), self.walks.length as usize) {
            None => {
                let instead = SamplerKind::names_of(|kind| kind.reach(1, 1).is_some());
                Err(InvalidOption::WholeGraph { kind, instead })
            }
            Some(reach) if reach > hops => Err(InvalidOption::BeyondPart { kind, reach, hops }),
            Some(_) => Ok(()),
        }
    }

    fn check_walks(&self) -> Result<(), InvalidOption> {
        let Walks { count, length, stop } = self.walks;
        for (what, given, least, most) in [
            ("walks", count, 1, Walks::MOST_COUNT),
            ("walk_length", length, 1, Walks::MOST_LENGTH),
            ("walk_stop", stop, 0, 100),
        ] {
            if !(least..=most).contains(&given) {
                return Err(InvalidOption::Walks { what, given, least, most });
            }
        }
        Ok(())
    }
}

/// Rejects graphs that exceed the random keys, and lists that cannot be picked from. Reads all lists only if a list
/// could be too long.
fn check_graph(csc: &Csc<'_>, options: &SamplerOptions, relation: Relation) -> Result<(), InvalidOption> {
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
    for (layer, fanout) in options.fanouts.of_relation(relation).enumerate() {
        if !options.kind.draws_together()
            && fanout as i64 > MAX_PICKS as i64
            // With replacement, every nonempty list is drawn from.
            && let Some(node) = longer_than(if options.replace { 0 } else { fanout as usize })
        {
            return Err(InvalidOption::TooManyPicks { layer, fanout, node, degree: csc.degree(node) });
        }
    }
    Ok(())
}
