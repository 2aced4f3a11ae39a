//! The shared properties of feature slots on a GPU: shape, signals, and the report stamp of a complete batch.

use std::ops::{Deref, Range};
use std::sync::Arc;
use std::time::Duration;

use uva_cuda::kernels::gather::GatherReport;
use uva_cuda::memory::SharedBuffer;
use uva_cuda::{CudaError, CudaEvent, Signal, StampSignal};
use uva_graph::NodeType;
use uva_rows::cuda::{BadId, SlotShape};

use crate::RuntimeError;
use crate::plan::RunPlan;

/// The way in which a side detects on the device that a slot is ready, or free.
#[derive(Clone, Debug)]
pub(crate) enum SlotSignals {
    /// By events of each slot.
    Events { ready: Vec<Arc<CudaEvent>>, free: Vec<Arc<CudaEvent>> },
    /// Words after the slots. Their watch checks whether `in_use` is still held.
    Stamps {
        buffer: Arc<SharedBuffer>,
        words: StampWords,
        #[allow(dead_code, reason = "held, not read")]
        in_use: Arc<()>,
    },
}

/// A signal of a slot.
pub(crate) enum SlotSignal<'s> {
    Event(&'s CudaEvent),
    Stamp(StampSignal<'s>),
}

impl<'s> Deref for SlotSignal<'s> {
    type Target = dyn Signal + 's;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Event(event) => *event,
            Self::Stamp(stamp) => stamp,
        }
    }
}

impl SlotSignals {
    /// The name of the way, as a value of `--ipc-signals`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Events { .. } => "events",
            Self::Stamps { .. } => "stamps",
        }
    }

    /// The producer's signal that the batch of this sequence number is in its slot.
    pub fn ready(&self, slot: usize, sequence: u64) -> Result<SlotSignal<'_>, CudaError> {
        Ok(match self {
            Self::Events { ready, .. } => SlotSignal::Event(&ready[slot]),
            Self::Stamps { buffer, words, .. } => {
                SlotSignal::Stamp(StampSignal::new(buffer, words.ready(slot), stamp(sequence))?)
            }
        })
    }

    /// The consumer's signal that it no longer uses that batch.
    pub fn free(&self, slot: usize, sequence: u64) -> Result<SlotSignal<'_>, CudaError> {
        Ok(match self {
            Self::Events { free, .. } => SlotSignal::Event(&free[slot]),
            Self::Stamps { buffer, words, .. } => {
                SlotSignal::Stamp(StampSignal::new(buffer, words.free(slot), stamp(sequence))?)
            }
        })
    }
}

/// The place of the slots' words in their buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StampWords {
    at: usize,
    slots: usize,
}

impl StampWords {
    /// Bytes of the words of one slot, a separate line, so that a slot's signal does not wait for another's.
    const BYTES: usize = 64;

    pub fn new(plan: &RunPlan) -> Self {
        Self { at: plan.device_bytes(), slots: plan.options.feature_slots }
    }

    /// All words, as bytes of the buffer.
    pub fn range(self) -> Range<usize> {
        self.at..self.at + self.slots * Self::BYTES
    }

    /// The word that the producer writes.
    pub fn ready(self, slot: usize) -> usize {
        self.at + slot * Self::BYTES
    }

    /// The word that the consumer writes.
    pub fn free(self, slot: usize) -> usize {
        self.ready(slot) + StampSignal::BYTES
    }

    pub fn slots(self) -> Range<usize> {
        0..self.slots
    }
}

pub(super) fn slot_shape(plan: &RunPlan) -> SlotShape {
    SlotShape { slots: plan.options.feature_slots, stride: plan.slot_room().bytes }
}

/// The tables from which a run reads rows by id, by the numbers of a gather's report: their files, and their numbers of
/// rows.
#[derive(Debug)]
pub(super) struct TableFiles(Vec<(String, usize)>);

impl TableFiles {
    pub fn of(plan: &RunPlan) -> Self {
        let (layout, metagraph) = (&plan.layout, plan.layout.metagraph());
        if layout.row_tables().is_none() || !layout.reads_rows_by_id() {
            return Self(vec![("feat.npy".to_owned(), plan.table_rows)]);
        }
        let types = metagraph.types().filter(|of| layout.rows_of(*of).is_some());
        let file = |of: NodeType| {
            (format!("nodes/{}/feat.npy", metagraph.type_name(of)), plan.type_rows[of.index()])
        };
        Self(types.map(file).collect())
    }

    /// The error for an id that is not a row of its table.
    pub fn out_of_range(&self, BadId { table, position, id }: BadId) -> RuntimeError {
        let (file, rows) = self.0.get(table).map_or(("feat.npy", 0), |(file, rows)| (file, *rows));
        RuntimeError::failed(format!(
            "{file}: id {id} at position {position} is outside the table of {rows} rows"
        ))
    }
}

/// The result of a gather.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gathered {
    /// Its duration on the device.
    pub time: Duration,
    /// Rows from the feature cache.
    pub hits: u64,
}

impl Gathered {
    pub fn of(report: &GatherReport) -> Self {
        Self {
            time: Duration::from_nanos(report.ended_ns.saturating_sub(report.began_ns)),
            hits: report.hits,
        }
    }
}

/// The stamp that a gather's report, and a word, get when the batch of this sequence number is complete.
pub(super) fn stamp(sequence: u64) -> u64 {
    sequence + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_id_is_reported_with_the_file_of_its_type() {
        let file = |name: &str, rows| (format!("nodes/{name}/feat.npy"), rows);
        let files = TableFiles(vec![file("paper", 6), file("topic", 3)]);
        let said = files.out_of_range(BadId { table: 1, position: 2, id: 9 }).to_string();
        assert!(
            said.contains("nodes/topic/feat.npy: id 9 at position 2 is outside the table of 3 rows"),
            "{said}"
        );
    }
}
