//! Batches that the producer has taken before their turn, to announce their rows early.

use std::collections::VecDeque;

use uva_batch::HandOver;
use uva_mem::ring::{ReadSlot, Reader, RingError};

use crate::feed::rows::{ComingBatch, RowTree};
use crate::plan::RunPlan;

/// Batches that were sampled early enough. Only ready batches are taken: a sampler may wait for the slot that the
/// producer holds, so a producer that waited for a later batch could deadlock.
pub(super) struct TakenAhead {
    most: usize,
    /// The slots in order; the first is the next.
    slots: VecDeque<ReadSlot>,
    /// The sequence number of the first batch that was not announced to the source of rows.
    unannounced: u64,
    /// Whether a batch that does not fit its slot gets its rows from another source, because the source with a cache on
    /// the GPU expects the other batches' misses.
    only_in_slots: bool,
}

impl TakenAhead {
    /// Creates a queue of at most `most` batches, with rows from this tree.
    pub fn new(most: usize, tree: &RowTree) -> Self {
        let only_in_slots = matches!(tree, RowTree::Spliced(_));
        Self { most, slots: VecDeque::new(), unannounced: 0, only_in_slots }
    }

    /// The next batch, if it has been taken.
    pub fn next(&mut self) -> Option<ReadSlot> {
        self.slots.pop_front()
    }

    /// Takes the ready batches after the current one, and announces them to the source of rows by `expect`.
    pub fn look(
        &mut self,
        batches: &mut Reader,
        current: &ReadSlot,
        plan: &RunPlan,
        expect: impl FnOnce(&[ComingBatch<'_>]),
    ) -> Result<(), RingError> {
        if self.most == 0 {
            return Ok(());
        }
        while self.slots.len() < self.most {
            let next = current.sequence() + 1 + self.slots.len() as u64;
            let Some(slot) = batches.acquire_if_ready(next)? else { break };
            self.slots.push_back(slot);
        }
        let coming: Vec<ComingBatch<'_>> = std::iter::once(current)
            .chain(&self.slots)
            .filter(|slot| slot.sequence() >= self.unannounced)
            .filter_map(|slot| self.coming(plan, slot.payload()))
            .collect();
        expect(&coming);
        self.unannounced = current.sequence() + 1 + self.slots.len() as u64;
        Ok(())
    }

    /// A batch to announce; `None` for a hand-over without a batch. A wrong header is reported when its turn comes.
    fn coming<'s>(&self, plan: &RunPlan, payload: &'s [u8]) -> Option<ComingBatch<'s>> {
        let header =
            plan.layout.read_header(payload).ok().filter(|header| header.kind() == HandOver::Batch)?;
        let is_expected = !self.only_in_slots || plan.fits_slot(&header);
        is_expected.then_some(ComingBatch { header, payload })
    }
}
