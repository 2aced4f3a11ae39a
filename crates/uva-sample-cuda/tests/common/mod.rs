//! Graphs built from lists, pinned for the device, and batches of both samplers.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::sync::Arc;

use uva_cuda::kernels::gather::{GridBound, IdWidth};
use uva_cuda::kernels::sample::SampleKernels;
use uva_cuda::memory::{PinOptions, PinnedTable, TableBytes};
use uva_cuda::{CacheKind, Context, Module, ModuleOptions, Stream};
use uva_graph::{Csc, Indices, Split};
use uva_sample::{
    BatchBounds, BatchCounts, BatchKey, MiniBatch, NeighborSampler, SampleError, SamplerOptions,
};
use uva_sample_cuda::{CudaSampleError, CudaSampler, CudaSamplerOptions, GraphSource, PinnedArray};

/// A device and the kernels on it.
pub struct Gpu {
    pub context: Arc<Context>,
    pub kernels: SampleKernels,
}

impl Gpu {
    pub fn new() -> Self {
        let context = Context::primary(0).unwrap();
        let options = ModuleOptions { cache: CacheKind::Off, ..Default::default() };
        let kernels = SampleKernels::new(&Module::sample(&context, &options).unwrap()).unwrap();
        Self { context, kernels }
    }

    pub fn sampler(
        &self,
        graph: &Graph,
        options: &CudaSamplerOptions<'_>,
    ) -> Result<CudaSampler, CudaSampleError> {
        let stream = Stream::new(&self.context).unwrap();
        CudaSampler::new(self.kernels.clone(), stream, graph.pinned(&self.context), options)
    }
}

/// Bytes on pages of their own.
struct Paged {
    memory: Vec<u8>,
    begin: usize,
    length: usize,
}

impl Paged {
    fn of(bytes: &[u8]) -> Self {
        const PAGE: usize = 4096;
        let mut memory = vec![0; bytes.len() + 3 * PAGE];
        let begin = memory.as_ptr().align_offset(PAGE) + 64;
        memory[begin..begin + bytes.len()].copy_from_slice(bytes);
        Self { memory, begin, length: bytes.len() }
    }
}

impl TableBytes for Paged {
    fn bytes(&self) -> &[u8] {
        &self.memory[self.begin..self.begin + self.length]
    }

    fn is_writable(&self) -> bool {
        true
    }
}

/// A graph that owns its arrays.
#[derive(Clone, Debug)]
pub struct Graph {
    pub indptr: Vec<i64>,
    pub indices: Ids,
    pub original_ids: Option<Vec<i64>>,
}

/// Neighbour ids in one of the two widths.
#[derive(Clone, Debug)]
pub enum Ids {
    I32(Vec<i32>),
    I64(Vec<i64>),
}

impl Graph {
    /// With 64-bit ids.
    pub fn from_lists(lists: &[Vec<i64>]) -> Self {
        let ends = lists.iter().scan(0, |end, list| {
            *end += list.len() as i64;
            Some(*end)
        });
        Self {
            indptr: std::iter::once(0).chain(ends).collect(),
            indices: Ids::I64(lists.concat()),
            original_ids: None,
        }
    }

    /// The same with 32-bit ids.
    pub fn narrow(mut self) -> Self {
        if let Ids::I64(wide) = self.indices {
            self.indices = Ids::I32(wide.into_iter().map(|id| i32::try_from(id).unwrap()).collect());
        }
        self
    }

    pub fn csc(&self) -> Csc<'_> {
        let indices = match &self.indices {
            Ids::I32(ids) => Indices::I32(ids),
            Ids::I64(ids) => Indices::I64(ids),
        };
        Csc { indptr: &self.indptr, indices, original_ids: self.original_ids.as_deref() }
    }

    /// Both arrays in one pinned table, as a region of shared memory has them.
    pub fn pinned(&self, context: &Arc<Context>) -> GraphSource {
        let mut bytes: Vec<u8> = self.indptr.iter().flat_map(|value| value.to_le_bytes()).collect();
        let indptr = 0..bytes.len();
        bytes.resize(bytes.len().next_multiple_of(64), 0xff);
        let begin = bytes.len();
        let width = match &self.indices {
            Ids::I32(ids) => {
                bytes.extend(ids.iter().flat_map(|value| value.to_le_bytes()));
                IdWidth::I32
            }
            Ids::I64(ids) => {
                bytes.extend(ids.iter().flat_map(|value| value.to_le_bytes()));
                IdWidth::I64
            }
        };
        let indices = begin..bytes.len();
        let table = PinnedTable::new(context, Arc::new(Paged::of(&bytes)), &PinOptions::default()).unwrap();
        let table = Arc::new(table);
        GraphSource::new(
            PinnedArray::new(Arc::clone(&table), indptr).unwrap(),
            PinnedArray::new(table, indices).unwrap(),
            width,
        )
        .unwrap()
    }

    /// Bounds that any batch of so many seeds keeps.
    pub fn bounds(&self, seeds: usize, fanouts: &[i32]) -> BatchBounds {
        let csc = self.csc();
        BatchBounds::within(usize::MAX, seeds.max(1), fanouts, csc.nodes(), csc.edges()).unwrap()
    }
}

pub fn key(batch: u32) -> BatchKey {
    BatchKey { split: Split::Train, epoch: 3, batch }
}

pub fn options(fanouts: &[i32]) -> SamplerOptions {
    SamplerOptions { fanouts: fanouts.to_vec(), seed: 0x1234_5678_9abc_def0, ..SamplerOptions::default() }
}

/// Few blocks, so that a launch has several and each has several turns.
pub const FEW_BLOCKS: GridBound = GridBound::Blocks(3);

/// A batch with all that is said of it, or why there is none.
pub type Outcome = Result<(BatchCounts, Vec<i64>, Vec<(Vec<i32>, Vec<i32>)>), SampleError>;

fn content(batch: &MiniBatch) -> Outcome {
    let blocks = batch.blocks().map(|block| (block.indptr.to_vec(), block.indices.to_vec())).collect();
    Ok((*batch.counts(), batch.nodes().to_vec(), blocks))
}

/// What the sampler on the CPU makes of it.
pub fn on_cpu(
    sampler: &mut NeighborSampler<'_>,
    bounds: &BatchBounds,
    key: BatchKey,
    seeds: &[i64],
) -> Outcome {
    let mut batch = MiniBatch::with_bounds(bounds);
    sampler.sample_into(key, seeds, &mut batch)?;
    content(&batch)
}

/// What the sampler on the GPU makes of it.
pub fn on_gpu(
    sampler: &mut CudaSampler,
    bounds: &BatchBounds,
    key: BatchKey,
    seeds: &[i64],
    degrees: &mut [i32],
) -> Outcome {
    let mut batch = MiniBatch::with_bounds(bounds);
    let sampled = batch.fill(|out| sampler.sample_into(key, seeds, out, degrees));
    match sampled {
        Ok(_) => content(&batch),
        Err(CudaSampleError::Sample(error)) => Err(error),
        Err(CudaSampleError::Cuda(error)) => panic!("{error}"),
    }
}
