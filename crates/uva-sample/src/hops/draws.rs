//! Draws from the lists of a hop, group by group.

use super::list::{Hop, List, NodeId};
use super::picks::{PickResult, Picks};
use super::sink::{PendingPositions, PickSink, PickTarget};
use crate::options::GROUP;
use crate::philox::StreamKey;
use crate::{BatchKey, GraphView, HopShape, ListReads, SampleError, SamplerOptions, VisitReads};
use uva_graph::Relation;

/// The state for draws from lists.
pub(super) struct Drawing<'g, P> {
    pub graph: GraphView<'g>,
    pub options: SamplerOptions,
    pub lists: Box<[List; GROUP]>,
    pub picks: P,
    pub waiting: PendingPositions,
}

impl<'g, P: Picks<'g>> Drawing<'g, P> {
    /// A hop of the batch `key`, and the maximum number of destinations in a group.
    pub fn hop<'a, I: NodeId>(&self, key: BatchKey, layer: usize, indices: &'a [I]) -> (Hop<'a, I>, usize)
    where
        'g: 'a,
    {
        let (csc, options) = (self.graph.csc, &self.options);
        let like = StreamKey {
            seed: options.seed,
            node: 0,
            purpose: P::PURPOSE,
            layer: layer as u32,
            batch: key.batch,
            epoch: key.epoch,
            split: key.split,
        };
        let shape = if P::KIND.draws_together() { HopShape::of_layer } else { HopShape::of };
        let HopShape { limit, group } = shape(options.fanouts.of(layer, Relation::ONLY));
        let hop = Hop {
            batch: key,
            layer,
            // Without a limit every list is taken whole.
            fanout: limit.unwrap_or(usize::MAX),
            like,
            indptr: csc.indptr,
            indices,
            original_ids: csc.original_ids,
            batch_dependency: options.batch_dependency,
        };
        (hop, group)
    }

    /// Draws from the lists of `nodes`, in groups of `group`. `count` receives the number of entries picked from each
    /// list, in order, before they are written to `to`. `weights` is memory for the weights of edges, with the number
    /// already present.
    pub fn draw<I: NodeId>(
        &mut self,
        hop: &Hop<'_, I>,
        group: usize,
        nodes: &[i64],
        to: PickTarget<'_>,
        (weights, weighed): (&mut [f32], usize),
        mut count: impl FnMut(usize) -> PickResult,
    ) -> Result<ListReads, SampleError> {
        let Self { graph, options, lists, picks, waiting } = self;
        let mut sink = PickSink { waiting, used: 0, to, weights, weighed };
        let mut reads = ListReads::default();
        picks.begin(hop, nodes, &mut lists[..])?;
        for group in nodes.chunks(group) {
            let lists = &mut lists[..group.len()];
            hop.find_lists(group, lists)?;
            picks.prepare(hop, group, lists)?;
            for (list, node) in lists.iter().zip(group) {
                reads += reads_of::<P>(graph, options, hop.fanout, *node, (list.degree, list.picks));
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
pub(super) fn reads_of<'g, P: Picks<'g>>(
    graph: &GraphView<'_>,
    options: &SamplerOptions,
    fanout: usize,
    node: i64,
    (degree, picks): (usize, usize),
) -> ListReads {
    let visit = VisitReads::of(P::KIND, degree, picks, (fanout, options.replace));
    let cached = if (node as usize) < graph.cached_lists { visit.cached(graph.cached_weights) } else { 0 };
    ListReads { all: visit.all(), cached }
}
