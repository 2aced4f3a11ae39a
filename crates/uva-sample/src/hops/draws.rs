//! Draws from the lists of a hop, group by group.

use uva_graph::{Relation, mix};

use super::list::{Hop, List, NodeId};
use super::picks::{KindSetup, PickResult, Picks, WordsOf};
use super::sink::{PendingPositions, PickSink, PickTarget};
use crate::limits::MAX_PICKS;
use crate::options::{GROUP, GROUP_PICKS};
use crate::philox::StreamKey;
use crate::{
    BatchKey, GraphView, HopShape, ListReads, RelationView, SampleError, SamplerKind, SamplerOptions,
    TypeView, TypedView, VisitReads,
};

/// The state for draws from lists.
pub struct Drawing<'g, P> {
    pub(super) options: SamplerOptions,
    pub(super) types: Vec<TypeView<'g>>,
    pub(super) relations: Vec<RelationDrawing<'g, P>>,
    lists: Box<[List; GROUP]>,
    waiting: PendingPositions,
}

/// The part of it for one relation.
pub(super) struct RelationDrawing<'g, P> {
    pub view: RelationView<'g>,
    /// The seed of its random words.
    seed: u64,
    picks: P,
}

impl<'g, P: Picks<'g>> Drawing<'g, P> {
    /// For options that have been checked against the graph.
    ///
    /// # Errors
    /// If the graph lacks data that the kind picks by.
    pub(super) fn new(graph: TypedView<'g>, options: SamplerOptions) -> Result<Self, SampleError> {
        let TypedView { types, relations } = graph;
        let indices = || (0..).map(Relation);
        let fanouts =
            indices().zip(&relations).flat_map(|(relation, _)| options.fanouts.of_relation(relation));
        let most = fanouts.map(|fanout| options.picks_a_list(fanout).unwrap_or(0)).max();
        let most = most.unwrap_or(0).min(MAX_PICKS);
        // A group holds GROUP_PICKS picks, or, if that is more, those of one destination.
        let group_picks = most.max(GROUP_PICKS);
        let is_one_of_several = relations.len() > 1;
        let drawing = |(relation, view): (Relation, &RelationView<'g>)| {
            let options = &options;
            let graph = view.lists;
            let is_of_type = |other: &RelationView<'_>| other.ends.destination == view.ends.destination;
            let into_type: Vec<_> = indices()
                .zip(&relations)
                .filter(|(_, other)| is_of_type(other))
                .map(|(relation, other)| (relation, other.lists))
                .collect();
            let salt = match P::WORDS_OF {
                WordsOf::Relation => relation.0,
                WordsOf::SourceType => view.ends.source.0,
                WordsOf::DestinationType => into_type[0].0.0,
            };
            let into_type = &into_type;
            let setup =
                KindSetup { graph, relation, is_one_of_several, into_type, options, group_picks, most };
            // mix(0) is 0: the first relation has the words of a homogeneous graph.
            Ok(RelationDrawing { view: *view, seed: options.seed ^ mix(salt.into()), picks: P::new(&setup)? })
        };
        let relations = indices().zip(&relations).map(drawing).collect::<Result<_, SampleError>>()?;
        let (lists, waiting) = (Box::new([List::default(); GROUP]), PendingPositions::new(group_picks));
        Ok(Self { options, types, relations, lists, waiting })
    }

    /// A relation's hop of the batch `key`, and the maximum number of destinations in a group.
    pub(super) fn hop<'a, I: NodeId>(
        &self,
        relation: Relation,
        key: BatchKey,
        layer: usize,
        indices: &'a [I],
    ) -> (Hop<'a, I>, usize)
    where
        'g: 'a,
    {
        let RelationDrawing { view: RelationView { ends, lists, .. }, seed, picks } =
            &self.relations[relation.index()];
        let like = StreamKey {
            seed: *seed,
            node: 0,
            purpose: picks.purpose(),
            layer: layer as u32,
            batch: key.batch,
            epoch: key.epoch,
            split: key.split,
        };
        let shape = if P::KIND.draws_together() { HopShape::of_layer } else { HopShape::of };
        let HopShape { limit, group } = shape(self.options.fanouts.of(layer, relation));
        let hop = Hop {
            batch: key,
            layer,
            // Without a limit every list is taken whole.
            fanout: limit.unwrap_or(usize::MAX),
            like,
            indptr: lists.csc.indptr,
            indices,
            original_ids: self.types[ends.destination.index()].original_ids,
            sources: self.types[ends.source.index()],
            batch_dependency: self.options.batch_dependency,
        };
        (hop, group)
    }

    /// Draws from a relation's lists of `nodes`, in groups of `group`. `find` finds the lists of a group's nodes
    /// ([`Hop::find_lists`]), or the parts of them that are there to draw from. `count` receives the number of entries picked from each
    /// list, in order, before they are written to `to`. `weights` is memory for the weights of edges, with the number
    /// already present.
    pub(super) fn draw<I: NodeId>(
        &mut self,
        (relation, hop, group): (Relation, &Hop<'_, I>, usize),
        nodes: &[i64],
        to: PickTarget<'_>,
        (weights, weighed): (&mut [f32], usize),
        find: impl Fn(&[i64], &mut [List]) -> PickResult,
        mut count: impl FnMut(usize) -> PickResult,
    ) -> Result<ListReads, SampleError> {
        let Self { options, relations, lists, waiting, .. } = self;
        let RelationDrawing { view: RelationView { lists: graph, .. }, picks, .. } =
            &mut relations[relation.index()];
        let kind = picks.counts_as();
        let mut sink = PickSink { waiting, used: 0, to, weights, weighed };
        let mut reads = ListReads::default();
        picks.begin(hop, nodes, &mut lists[..])?;
        for group in nodes.chunks(group) {
            let lists = &mut lists[..group.len()];
            find(group, lists)?;
            picks.prepare(hop, group, lists)?;
            for (list, node) in lists.iter().zip(group) {
                reads +=
                    reads_of(kind, graph, (hop.fanout, options.replace), *node, (list.degree, list.picks));
                count(list.picks)?;
            }
            picks.pick_group(hop, lists, &mut sink)?;
            sink.write(hop)?;
        }
        Ok(reads)
    }
}

/// The reads of a visit of the list of `node`, by its degree and the entries picked from it.
#[inline]
pub(super) fn reads_of(
    kind: SamplerKind,
    graph: &GraphView<'_>,
    (fanout, replace): (usize, bool),
    node: i64,
    (degree, picks): (usize, usize),
) -> ListReads {
    let visit = VisitReads::of(kind, degree, picks, (fanout, replace));
    let cached = if (node as usize) < graph.cached_lists { visit.cached(graph.cached_weights) } else { 0 };
    ListReads { all: visit.all(), cached }
}
