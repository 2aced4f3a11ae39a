//! Kinds that find neighbours around each destination, at any distance. An edge of a block leads to a found node and
//! has a weight.

use crate::hops::{Hop, KindSetup, List, NodeId, PickResult, PickSink, Picks};
use crate::philox::RandomPurpose;
use crate::{SampleError, SamplerKind};

/// Finds the neighbours of a group of destinations.
pub trait Find: Send + Sized {
    /// The kind.
    const KIND: SamplerKind;

    /// The purpose of its random words.
    const PURPOSE: RandomPurpose = RandomPurpose::Neighbors;

    /// Allocates all memory.
    fn new(setup: &KindSetup<'_, '_>) -> Self;

    /// Appends the finds of each list's node to `found`: the entry that leads to the found node, and its weight. Sets
    /// [`List::picks`] to their number.
    ///
    /// # Errors
    /// An invalid graph.
    fn find<I: NodeId>(
        &mut self,
        hop: &Hop<'_, I>,
        nodes: &[i64],
        lists: &mut [List],
        found: &mut Vec<(usize, f32)>,
    ) -> PickResult;
}

/// Samples the nodes that `F` finds.
pub struct FindSampler<F> {
    find: F,
    /// Entries and weights of the group's picks.
    picked: Vec<(usize, f32)>,
    /// How many of them the sink has received.
    used: usize,
}

impl<F: Find> Picks<'_> for FindSampler<F> {
    const KIND: SamplerKind = F::KIND;
    const PURPOSE: RandomPurpose = F::PURPOSE;

    fn new(setup: &KindSetup<'_, '_>) -> Result<Self, SampleError> {
        Ok(Self { find: F::new(setup), picked: Vec::with_capacity(setup.group_picks), used: 0 })
    }

    fn prepare<I: NodeId>(&mut self, hop: &Hop<'_, I>, nodes: &[i64], lists: &mut [List]) -> PickResult {
        self.picked.clear();
        self.used = 0;
        self.find.find(hop, nodes, lists, &mut self.picked)
    }

    fn pick<I: NodeId>(&mut self, hop: &Hop<'_, I>, list: &List, sink: &mut PickSink<'_>) -> PickResult {
        let picked = &self.picked[self.used..self.used + list.picks];
        self.used += list.picks;
        for (to, &(entry, _)) in sink.room(hop, list.picks)?.iter_mut().zip(picked) {
            *to = entry;
        }
        for (to, &(_, weight)) in sink.weights(list.picks).iter_mut().zip(picked) {
            *to = weight;
        }
        Ok(())
    }
}
