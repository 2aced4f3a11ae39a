//! What both sides of feature slots on a GPU share: shape, signals, and the report stamp of a whole batch.

use std::ops::{Deref, Range};
use std::sync::Arc;
use std::time::Duration;

use uva_cuda::kernels::gather::GatherReport;
use uva_cuda::memory::SharedBuffer;
use uva_cuda::{CudaError, CudaEvent, Signal, StampSignal};
use uva_rows::cuda::SlotShape;

use crate::RuntimeError;
use crate::plan::RunPlan;

/// How either side learns on the device that a slot is ready, or free.
#[derive(Clone, Debug)]
pub(crate) enum SlotSignals {
    /// By events of each slot.
    Events { ready: Vec<Arc<CudaEvent>>, free: Vec<Arc<CudaEvent>> },
    /// By words behind the slots. Who watches over them looks whether `in_use` is still held.
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
    /// The name of the way, as `--ipc-signals` takes it.
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

    /// The consumer's signal that it has no more use for that batch.
    pub fn free(&self, slot: usize, sequence: u64) -> Result<SlotSignal<'_>, CudaError> {
        Ok(match self {
            Self::Events { free, .. } => SlotSignal::Event(&free[slot]),
            Self::Stamps { buffer, words, .. } => {
                SlotSignal::Stamp(StampSignal::new(buffer, words.free(slot), stamp(sequence))?)
            }
        })
    }
}

/// Where the words of the slots lie in their buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StampWords {
    at: usize,
    slots: usize,
}

impl StampWords {
    /// Words of one slot, in a line of their own: no slot's signal waits for another's.
    const BYTES: usize = 64;

    pub fn new(plan: &RunPlan) -> Self {
        Self { at: plan.device_bytes(), slots: plan.options.feature_slots }
    }

    /// All of them, as bytes of the buffer.
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

pub(super) fn out_of_range(position: u64, id: i64, rows: usize) -> RuntimeError {
    RuntimeError::failed(format!(
        "feat.npy: id {id} at position {position} is outside the table of {rows} rows"
    ))
}

/// The result of a gather.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gathered {
    /// How long it took on the device.
    pub time: Duration,
    /// Rows that came from the feature cache.
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

/// The stamp that a gather's report, and a word, get when the batch of this sequence number is whole.
pub(super) fn stamp(sequence: u64) -> u64 {
    sequence + 1
}
