//! Nodes that are known by their ids: seeds share the nodes that they reach.

use uva_graph::{Indices, Relation};

use super::divided_lists::Divided;
use super::draws::Drawing;
use super::identity::{Destinations, Identity};
use super::list::{Hop, List, NodeId};
use super::picks::{PickResult, Picks};
use super::sink::{BlockRoom, BlockTarget, PickTarget};
use crate::batches::local_ids::LocalIds;
use crate::{ListReads, SampleError, Seeds, TypedView};

/// A node is its id.
pub struct ById<'g> {
    /// Of each node type.
    local_ids: Vec<LocalIds>,
    /// Present if the lists are divided among ranks.
    divided: Option<Divided<'g>>,
}

impl<'g> ById<'g> {
    /// Sets the access to lists that are divided among ranks. The kind must pick list by list.
    pub(super) fn among(self, divided: Option<Divided<'g>>) -> Self {
        Self { divided, ..self }
    }

    /// Draws the picks that other ranks request in the hops of a batch, if this rank has no batch.
    fn serve_ids<I: NodeId, P: Picks<'g>>(
        &mut self,
        drawing: &mut Drawing<'g, P>,
        indices: &[I],
    ) -> PickResult {
        let Some(divided) = &mut self.divided else { return Ok(()) };
        (0..drawing.options.fanouts.hops()).try_for_each(|layer| divided.serve(drawing, layer, indices))
    }
}

impl<'g> Identity<'g> for ById<'g> {
    fn new(graph: &TypedView<'g>, _: &crate::SamplerOptions) -> Result<Self, SampleError> {
        let local_ids = graph.types.iter().map(|of_type| LocalIds::new(of_type.nodes));
        Ok(Self { local_ids: local_ids.collect::<Result<_, _>>()?, divided: None })
    }

    fn begin(&mut self, _: Seeds<'_>) -> PickResult {
        self.local_ids.iter_mut().for_each(LocalIds::begin_batch);
        Ok(())
    }

    fn take_seeds(&mut self, of: usize, seeds: &[i64], _: &mut [i64]) -> PickResult {
        for (position, &seed) in seeds.iter().enumerate() {
            // A repeated seed is a separate destination. As a source, its first occurrence stands for all.
            self.local_ids[of].insert(seed as usize, position as u32);
        }
        Ok(())
    }

    fn draw<I: NodeId, P: Picks<'g>>(
        &mut self,
        drawing: &mut Drawing<'g, P>,
        (relation, hop, group): (Relation, &Hop<'_, I>, usize),
        Destinations { nodes, source, .. }: Destinations<'_>,
        room: BlockRoom<'_>,
        weights: (&mut [f32], usize),
        count: impl FnMut(usize) -> PickResult,
    ) -> Result<ListReads, SampleError> {
        let block = BlockTarget { local_ids: &mut self.local_ids[source], room };
        match &mut self.divided {
            None => {
                let to = PickTarget::Block(block);
                let find = |nodes: &[i64], lists: &mut [List]| hop.find_lists(nodes, lists);
                drawing.draw((relation, hop, group), nodes, to, weights, find, count)
            }
            Some(divided) => {
                divided.bring(drawing, hop, nodes)?;
                divided.hand_over(drawing, hop, nodes, block, count)
            }
        }
    }

    fn serve<P: Picks<'g>>(&mut self, drawing: &mut Drawing<'g, P>) -> PickResult {
        // Lists that are divided among ranks are of one relation.
        match drawing.relations[0].view.lists.csc.indices {
            Indices::I32(indices) => self.serve_ids(drawing, indices),
            Indices::I64(indices) => self.serve_ids(drawing, indices),
        }
    }

    fn give_up(&self, error: &SampleError) {
        if let Some(divided) = &self.divided {
            divided.give_up(error);
        }
    }
}
