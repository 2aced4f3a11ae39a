//! Batches that pass on the device from a sampler on the GPU to the producer, a thread of the same process.
//!
//! Each slot of the batch ring has a place in device memory with the same columns at the same offsets. The slot itself
//! carries the header, the columns that the host makes, and copies of those that the CPU reads. The sampler waits for
//! its counts before it hands a slot over, so its columns are complete then. The producer copies them to the feature
//! slot by one launch, records `taken`, and hands the slot back. The sampler's next batch there waits for that event on
//! the device.
//!
//! The sampler cannot write to the feature slot: its columns are contiguous, so their places depend on counts that the
//! sampler has only at the end.

use std::ops::Range;
use std::sync::Arc;

use uva_batch::{BatchHeader, BatchLayout, Column, ColumnPlace, ColumnsMut};
use uva_cuda::memory::SharedBuffer;
use uva_cuda::{Context, CudaEvent, CudaStream};
use uva_mem::ZeroedPages;
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
    /// The columns that the CPU reads too.
    on_host: Vec<Column>,
    /// Events recorded after the last read of each place.
    taken: Vec<CudaEvent>,
}

/// Whether batches of a sampler on the GPU stay in its memory. Padding is written on the host.
pub(crate) fn stays_on_gpu(plan: &RunPlan) -> bool {
    plan.layout.shapes().is_none()
        && plan.backend.gpu_sampler().is_some()
        && plan.backend.device_slots().is_some()
}

/// The columns that the CPU reads: node ids if it gathers rows or determines evictions, and edge ids if it gathers
/// edge features or types.
fn read_on_host(cuda: &CudaBackend, plan: &RunPlan) -> Vec<Column> {
    let by_kernels = matches!(cuda.gather, GatherChoice::ZeroCopy | GatherChoice::Device);
    let nodes = !by_kernels || plan.caches.dynamic.is_some();
    let edges = plan.options.edge_attr || plan.options.edge_type;
    [nodes.then_some(Column::InputNodes), edges.then_some(Column::EdgeIds)].into_iter().flatten().collect()
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
            format!("{slots} batches of a sampler on the GPU (`batch_slots`, `batch_size`, `fanouts`)");
        let memory = SharedBuffer::create(context, bytes_on_gpu(plan), cuda.ipc, &what)?;
        let taken = (0..slots).map(|_| CudaEvent::local(context)).collect::<Result<_, _>>()?;
        let layout = Arc::clone(&plan.layout);
        let on_host = read_on_host(cuda, plan);
        Ok(Self { memory: Arc::new(memory), stride: stride(&layout), layout, on_host, taken })
    }

    /// The memory that all places lie in.
    pub fn memory(&self) -> &SharedBuffer {
        &self.memory
    }

    /// Whether the CPU reads that column.
    pub fn is_on_host(&self, column: Column) -> bool {
        self.on_host.contains(&column)
    }

    /// The columns that the CPU reads, each with its range in a batch slot and the bytes of the memory that the batch
    /// of this header uses.
    pub fn for_host<'c>(
        &self,
        slot: usize,
        header: &BatchHeader,
        columns: &mut ColumnsMut<'c>,
    ) -> Vec<(Range<usize>, &'c mut [u8])> {
        self.parts(slot, header, columns, |column| self.is_on_host(column))
    }

    /// The whole batch of this header in the form of a batch slot that the CPU sampled. `from` is the content of its
    /// batch slot; the columns on the device are copied over this stream, and waited for.
    pub fn on_host(
        &self,
        slot: usize,
        header: &BatchHeader,
        from: &[u8],
        stream: &CudaStream,
    ) -> Result<ZeroedPages, RuntimeError> {
        let no_memory =
            |error| RuntimeError::failed(format!("a batch of the GPU's sampler in host memory: {error}"));
        let mut pages = ZeroedPages::new(self.layout.batch_bytes()).map_err(no_memory)?;
        // Columns on the device are not filled yet.
        for range in self.layout.copied(header) {
            pages.bytes_mut()[range.clone()].copy_from_slice(&from[range]);
        }
        let on_device = |column: Column| column.spec().made_on_gpu && column.spec().first_of.is_none();
        let mut columns = self.layout.columns_mut(pages.bytes_mut());
        self.memory.read_back(stream, &mut self.parts(slot, header, &mut columns, on_device))?;
        drop(columns);
        Ok(pages)
    }

    /// These columns, each with its range in a batch slot and the bytes of the memory that the batch of this header
    /// uses.
    fn parts<'c>(
        &self,
        slot: usize,
        header: &BatchHeader,
        columns: &mut ColumnsMut<'c>,
        wanted: impl Fn(Column) -> bool,
    ) -> Vec<(Range<usize>, &'c mut [u8])> {
        let places = self.layout.columns().iter().filter(|place| wanted(place.key.column));
        let with_room = |place: &ColumnPlace| {
            let used = place.used(header);
            let room: &mut [u8] = columns.take(place.key);
            let bytes = used.len();
            (self.within(slot, used), &mut room[..bytes])
        };
        places.map(with_room).collect()
    }

    /// The place in device memory for the batch of a slot of the ring.
    pub fn place(&self, slot: usize) -> BatchPlace<'_> {
        let room = |column: Column, layer| match self.layout.place(column.at(layer)) {
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
            blocks: (0..self.layout.layers()).map(block).collect(),
            after: Some(&self.taken[slot]),
        }
    }

    /// The columns that the sampler wrote for the batch of this header: the offset of each in a feature slot, and its
    /// bytes of the memory.
    pub fn columns(&self, slot: usize, header: &BatchHeader) -> Vec<(usize, Range<usize>)> {
        let on_gpu = self.layout.packed(header).filter(|(place, _)| place.key.column.spec().made_on_gpu);
        on_gpu.map(|(place, to)| (to.start, self.within(slot, place.used(header)))).collect()
    }

    /// These columns in the form for a fill.
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
