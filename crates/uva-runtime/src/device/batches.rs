//! Batches of a sampler on the GPU, on their way to the producer in the same process: they stay on the device.
//!
//! Each slot of the batch ring has a place in device memory with the same columns at the same offsets. The slot itself
//! carries the header and the columns that the host makes. The sampler waits for its counts before it hands a slot over,
//! so its columns are complete then. The producer copies them to the feature slot, records `taken`, and hands the slot
//! back; the sampler's next batch there waits for that event on the device.

use std::ops::Range;
use std::sync::Arc;

use uva_batch::{BatchHeader, BatchLayout, Column};
use uva_cuda::memory::SharedBuffer;
use uva_cuda::{Context, Event};
use uva_rows::cuda::OnDevice;
use uva_sample::cuda::{BatchPlace, BlockPlace};

use crate::RuntimeError;
use crate::backend::{CudaBackend, GatherChoice};
use crate::plan::RunPlan;

/// Places are as far apart as pages, so that columns begin on cache lines.
const PAGE: usize = 4096;

/// Device memory for the batches of a ring.
#[derive(Debug)]
pub(crate) struct DeviceBatches {
    memory: Arc<SharedBuffer>,
    stride: usize,
    layout: Arc<BatchLayout>,
    /// Recorded behind the last read of each place.
    taken: Vec<Event>,
}

/// Whether batches of a sampler on the GPU can stay there, if the producer is in the same process: nothing needs their
/// columns on the host. The CPU reads node ids where it gathers rows or decides what a cache evicts, and edge ids where
/// it gathers features of edges.
pub(crate) fn stays_on_gpu(plan: &RunPlan) -> bool {
    let by_kernels =
        |cuda: &CudaBackend| matches!(cuda.gather, GatherChoice::ZeroCopy | GatherChoice::Device);
    plan.backend.gpu_sampler().is_some()
        && plan.backend.device_slots().is_some_and(by_kernels)
        && plan.caches.dynamic.is_none()
        && plan.layout.edge_attr().is_none()
}

/// Bytes of all places.
pub(crate) fn bytes_on_gpu(plan: &RunPlan) -> usize {
    stride(&plan.layout).saturating_mul(plan.batch_slots())
}

fn stride(layout: &BatchLayout) -> usize {
    layout.batch_bytes().next_multiple_of(PAGE)
}

impl DeviceBatches {
    pub fn new(context: &Arc<Context>, cuda: &CudaBackend, plan: &RunPlan) -> Result<Self, RuntimeError> {
        let slots = plan.batch_slots();
        let what =
            format!("{slots} batches of a sampler on the GPU (--batch-slots, --batch-size, --fanouts)");
        let memory = SharedBuffer::create(context, bytes_on_gpu(plan), cuda.ipc, &what)?;
        let taken = (0..slots).map(|_| Event::local(context)).collect::<Result<_, _>>()?;
        let layout = Arc::clone(&plan.layout);
        Ok(Self { memory: Arc::new(memory), stride: stride(&layout), layout, taken })
    }

    /// Where the sampler writes the batch of a slot of the ring.
    pub fn place(&self, slot: usize) -> BatchPlace<'_> {
        let room = |column, layer| match self.layout.place(column, layer) {
            Some(place) => self.within(slot, place.room()),
            None => 0..0,
        };
        let block = |layer| BlockPlace {
            indptr: room(Column::Indptr, layer),
            indices: room(Column::Indices, layer),
            edge_ids: room(Column::EdgeIds, layer),
        };
        BatchPlace {
            memory: &self.memory,
            nodes: room(Column::InputNodes, 0),
            degrees: room(Column::Degrees, 0),
            blocks: (0..self.layout.layers().len()).map(block).collect(),
            after: Some(&self.taken[slot]),
        }
    }

    /// The columns that the sampler wrote there for the batch of this header: where each goes in a feature slot, and its
    /// bytes of the memory.
    pub fn columns(&self, slot: usize, header: &BatchHeader) -> Vec<(usize, Range<usize>)> {
        let on_gpu = self.layout.packed(header).filter(|(place, _)| place.column.spec().made_on_gpu);
        on_gpu.map(|(place, to)| (to.start, self.within(slot, place.used(header)))).collect()
    }

    /// These columns as a fill takes them.
    pub fn lent<'p>(
        &'p self,
        slot: usize,
        header: &BatchHeader,
        columns: &'p [(usize, Range<usize>)],
    ) -> OnDevice<'p> {
        let taken = &self.taken[slot];
        OnDevice { memory: &self.memory, arrays: columns, count: header.nodes(), taken }
    }

    fn within(&self, slot: usize, range: Range<usize>) -> Range<usize> {
        let base = slot * self.stride;
        base + range.start..base + range.end
    }
}
