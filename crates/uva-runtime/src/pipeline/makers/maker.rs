//! The interface of what makes the batches of a run.

use std::sync::Arc;

use uva_batch::BatchHeader;
use uva_cuda::memory::TableBytes;
use uva_graph::Dataset;
use uva_mem::FrozenBytes;
use uva_rows::CachedRows;
use uva_sample::BatchKey;

use crate::RuntimeError;
use crate::control::Control;
use crate::feed::device::DeviceBatches;
use crate::feed::ranks::RankExchanges;
use crate::machine::memory::MemoryLine;
use crate::sampler::lane::Lane;

/// A function that writes a batch into a slot with this number and payload. Without a key this rank has no batch, and
/// others may request picks for theirs.
pub(crate) type SampleBatch<'s> =
    dyn FnMut(Option<BatchKey>, usize, &mut [u8]) -> Result<BatchHeader, RuntimeError> + Send + 's;

/// The parts of a sampler that batches are made from.
pub(crate) struct SamplerParts<'a> {
    pub dataset: &'a Arc<Dataset>,
    /// The other ranks, if the feature table is divided among them.
    pub ranks: Option<&'a RankExchanges>,
    /// The graph in the order of the list cache, if the cache requires an order other than the dataset's.
    pub reordered: Option<Arc<FrozenBytes>>,
    /// The lane of the GPU to sample on; `None` for the CPU.
    pub gpu: Option<Lane>,
    /// The memory of batches that stay on that GPU; `None` if they go to the batch slots.
    pub on_device: Option<Arc<DeviceBatches>>,
    /// Whether it makes batches of several ranks, of which one may be in another epoch.
    pub serves_ranks: bool,
}

/// The parts of a worker that batches are made from.
pub(crate) struct WorkerParts<'a> {
    pub dataset: &'a Arc<Dataset>,
    pub control: &'a Control,
    /// The worker's place on the control page.
    pub place: usize,
    /// The rows of a feature cache that does not change.
    pub cached: Option<&'a Arc<CachedRows>>,
    /// The copy of the feature table, if rows are read from one.
    pub copied: Option<&'a Arc<dyn TableBytes>>,
    /// See [`SamplerParts`].
    pub reordered: Option<&'a FrozenBytes>,
    /// Pins the thread to its core. To be called after all threads that read rows have started.
    pub keep_on_core: &'a dyn Fn(),
}

/// The batches of a worker, which are made in feature slots, one after the other.
pub(crate) trait WorkerBatches {
    /// Writes everything except rows into the payload of this slot.
    fn sample(&mut self, key: BatchKey, slot: usize, payload: &mut [u8])
    -> Result<BatchHeader, RuntimeError>;

    /// Writes the rows of the batch that was sampled last, with this sequence number, and records in its header the
    /// time at which they were complete.
    fn gather(
        &mut self,
        sequence: u64,
        header: &mut BatchHeader,
        payload: &mut [u8],
    ) -> Result<(), RuntimeError>;
}

/// What makes the batches of a run in its roles.
pub(crate) trait BatchMaker {
    /// Prepares a sampler, and calls `hand_over` with the function that samples.
    fn sample(
        &self,
        parts: SamplerParts<'_>,
        hand_over: &mut dyn FnMut(&mut SampleBatch<'_>) -> Result<(), RuntimeError>,
    ) -> Result<(), RuntimeError>;

    /// Prepares a worker, and calls `hand_over` with its batches.
    fn work(
        &self,
        parts: &WorkerParts<'_>,
        hand_over: &mut dyn FnMut(&mut dyn WorkerBatches) -> Result<(), RuntimeError>,
    ) -> Result<(), RuntimeError>;

    /// The memory of what it reads, without that of rows: mapped files and copies of them.
    fn memory(&self) -> Vec<MemoryLine>;
}
