//! The difference between kinds of sampler: which entries of each list are picked.

use super::list::{Hop, List, NodeId};
use super::sink::PickSink;
use crate::philox::RandomPurpose;
use crate::{GraphView, SampleError, SamplerKind, SamplerOptions};
use uva_graph::Relation;

/// The result of a step. It fails only on an invalid graph or a full batch.
pub type PickResult = Result<(), SampleError>;

/// The inputs that size a kind's memory.
pub struct KindSetup<'a, 'g> {
    /// The lists of one relation, checked against the options.
    pub(crate) graph: GraphView<'g>,
    pub(crate) relation: Relation,
    /// Whether the graph has other relations too.
    pub(crate) is_one_of_several: bool,
    /// The relations that lead to the same node type, this one included.
    pub(crate) into_type: &'a [(Relation, GraphView<'g>)],
    pub(crate) options: &'a SamplerOptions,
    /// The most picks of a group.
    pub(crate) group_picks: usize,
    /// The most picks drawn from one list.
    pub(crate) most: usize,
}

impl KindSetup<'_, '_> {
    /// The largest fanout: for a kind that draws together, the most draws of a hop.
    pub(crate) fn largest_fanout(&self) -> usize {
        let fanouts = self.options.fanouts.of_relation(self.relation);
        fanouts.map(|fanout| usize::try_from(fanout).unwrap_or(0)).max().unwrap_or(0)
    }
}

/// What the random words of a relation belong to. Relations with the same have the same words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordsOf {
    /// The relation.
    Relation,
    /// Its source type: the words belong to neighbours.
    SourceType,
    /// The first relation that leads to its destination type: a node has one draw for all its lists.
    DestinationType,
}

/// The part that differs between kinds: which entries of each list are picked.
pub trait Picks<'g>: Send + Sized {
    /// The kind.
    const KIND: SamplerKind;

    /// What salts its random words in a graph with several relations.
    const WORDS_OF: WordsOf = WordsOf::Relation;

    /// The purpose of its random words.
    const PURPOSE: RandomPurpose = RandomPurpose::Neighbors;

    /// The purpose of its random words in this relation.
    fn purpose(&self) -> RandomPurpose {
        Self::PURPOSE
    }

    /// The kind by whose picks reads are counted.
    fn counts_as(&self) -> SamplerKind {
        Self::KIND
    }

    /// Allocates all memory.
    ///
    /// # Errors
    /// If the graph lacks data that the kind picks by.
    fn new(setup: &KindSetup<'_, 'g>) -> Result<Self, SampleError>;

    /// Looks at all destinations of a hop before any of their lists is picked from. `lists` is scratch for a group.
    ///
    /// # Errors
    /// An invalid graph.
    fn begin<I: NodeId>(&mut self, hop: &Hop<'_, I>, nodes: &[i64], lists: &mut [List]) -> PickResult {
        let _ = (hop, nodes, lists);
        Ok(())
    }

    /// Sets how many entries are picked for each list of a group ([`List::picks`]). `nodes` are the lists' nodes.
    ///
    /// A kind that does not draw together picks no more than the fanout. A kind that [picks in
    /// lists](SamplerKind::picks_in_lists) without replacement picks no more than the list has. The default is the
    /// smaller of the two.
    ///
    /// # Errors
    /// An invalid graph.
    #[inline]
    fn prepare<I: NodeId>(&mut self, hop: &Hop<'_, I>, nodes: &[i64], lists: &mut [List]) -> PickResult {
        let _ = nodes;
        for list in lists {
            list.picks = list.degree.min(hop.fanout);
        }
        Ok(())
    }

    /// Passes the positions picked for a list to the sink: as many as [`prepare`](Self::prepare) set. If the kind
    /// [weighs edges](SamplerKind::weighs_edges), it passes as many weights too. The lists of a group come in order,
    /// each once.
    ///
    /// # Errors
    /// An invalid graph, and a full batch.
    fn pick<I: NodeId>(&mut self, hop: &Hop<'_, I>, list: &List, sink: &mut PickSink<'_>) -> PickResult;

    /// Picks for all lists of a group, one after the other.
    ///
    /// # Errors
    /// As [`pick`](Self::pick).
    #[inline]
    fn pick_group<I: NodeId>(
        &mut self,
        hop: &Hop<'_, I>,
        lists: &[List],
        sink: &mut PickSink<'_>,
    ) -> PickResult {
        lists.iter().try_for_each(|list| self.pick(hop, list, sink))
    }
}
