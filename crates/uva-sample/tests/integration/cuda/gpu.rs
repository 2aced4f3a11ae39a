//! Graphs pinned for the device, and batches of both samplers.

use std::sync::Arc;

use crate::common::{Graph, Ids};
use uva_cuda::kernels::gather::{GridBound, IdWidth};
use uva_cuda::kernels::sample::SampleKernels;
use uva_cuda::memory::{PinOptions, PinnedTable, TableBytes};
use uva_cuda::{CacheKind, Context, CudaStream, Module, ModuleOptions};
use uva_graph::Split;
use uva_sample::cuda::{CudaSampleError, CudaSampler, CudaSamplerOptions, GraphSource, PinnedArray};
use uva_sample::{
    BatchBounds, BatchCounts, BatchKey, BatchSampler, Fanouts, GraphView, MiniBatch, SampleError,
    SamplerOptions,
};

/// A device and the kernels on it.
pub struct Gpu {
    pub context: Arc<Context>,
    pub kernels: SampleKernels,
}

impl Gpu {
    pub fn new() -> Self {
        let context = Context::primary(0).unwrap();
        let options = ModuleOptions {
            cache: cuda_sim::kernel_cache().map_or(CacheKind::Off, CacheKind::Folder),
            ..Default::default()
        };
        let kernels = SampleKernels::new(&Module::sample(&context, &options).unwrap()).unwrap();
        Self { context, kernels }
    }

    pub fn sampler(
        &self,
        graph: &Graph,
        options: &CudaSamplerOptions<'_>,
    ) -> Result<CudaSampler, CudaSampleError> {
        let stream = CudaStream::new(&self.context).unwrap();
        CudaSampler::new(self.kernels.clone(), stream, graph.pinned(&self.context), options)
    }
}

/// Bytes on separate pages.
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

impl Graph {
    /// The same graph with `order[n]` as node `n`, and list entries in the original order.
    pub fn reordered(&self, order: &[i64]) -> Self {
        let csc = self.csc();
        let mut places = vec![0; order.len()];
        for (place, &node) in order.iter().enumerate() {
            places[node as usize] = place as i64;
        }
        let list = |&node: &i64| {
            let ends = csc.indptr[node as usize] as usize..csc.indptr[node as usize + 1] as usize;
            ends.map(|at| places[csc.indices.get(at) as usize]).collect()
        };
        let lists: Vec<Vec<i64>> = order.iter().map(list).collect();
        let original = |&node: &i64| self.original_ids.as_ref().map_or(node, |ids| ids[node as usize]);
        let graph = Self {
            original_ids: Some(order.iter().map(original).collect()),
            home: Some((self.indptr.clone(), order.to_vec())),
            weights: self.weights.clone(),
            ..Self::from_lists(&lists)
        };
        if matches!(self.indices, Ids::I32(_)) { graph.narrow() } else { graph }
    }

    /// The graph with widely varying weights; every third list has none above 0.
    pub fn unevenly_weighted(self) -> Self {
        let weight = |at: usize| match at.wrapping_mul(2_654_435_761) >> 7 & 15 {
            0 => 0.0,
            1 => -0.0,
            2 => f32::from_bits(1 + at as u32 % 1000),
            3 => f32::MIN_POSITIVE,
            4 => f32::MAX,
            5..8 => 1.0,
            other => (at % 97) as f32 * other as f32 * 0.01,
        };
        let lists = self.indptr.windows(2).enumerate();
        let of_list = |(node, ends): (usize, &[i64])| {
            let alike = move |at: usize| match node % 6 {
                0 | 3 => 0.0,
                1 => 0.5,
                // Only the smallest weights.
                2 => f32::from_bits(at as u32 % 4),
                _ => weight(at),
            };
            (ends[0] as usize..ends[1] as usize).map(alike).collect::<Vec<_>>()
        };
        Self { weights: Some(lists.flat_map(of_list).collect()), ..self }
    }

    /// The graph as a sampler on the CPU sees it, with this many lists counted as cached, and their weights.
    pub fn view_cached(&self, cached_lists: usize) -> GraphView<'_> {
        GraphView { cached_lists, cached_weights: true, ..self.view() }
    }

    /// Options of a sampler on the GPU over this graph, whose batches have the dataset's ids if it is reordered.
    pub fn on_gpu(&self, sampler: &SamplerOptions, bounds: &BatchBounds) -> CudaSamplerOptions<'_> {
        CudaSamplerOptions {
            original_ids: self.original_ids.as_deref(),
            dataset_ids: self.home.as_ref().map(|(_, nodes)| nodes.as_slice()),
            ..CudaSamplerOptions::new(sampler.clone(), bounds.clone())
        }
    }

    /// Translates a batch's nodes to the ids of its output.
    pub fn in_dataset_ids(&self, batch: &mut Outcome) {
        if let (Ok((_, nodes, _)), Some((_, names))) = (batch, &self.home) {
            nodes.iter_mut().for_each(|node| *node = names[*node as usize]);
        }
    }

    /// An array of numbers, pinned.
    fn pinned_array(context: &Arc<Context>, bytes: &[u8]) -> PinnedArray {
        let table = PinnedTable::new(context, Arc::new(Paged::of(bytes)), &PinOptions::default()).unwrap();
        PinnedArray::whole(Arc::new(table))
    }

    /// Both arrays in one pinned table, as in a region of shared memory; the others in separate tables.
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
        let source = GraphSource::new(
            PinnedArray::new(Arc::clone(&table), indptr).unwrap(),
            PinnedArray::new(table, indices).unwrap(),
            width,
        );
        let mut source = source.unwrap();
        if let Some((indptr, _)) = &self.home {
            source = source.with_home(Self::pinned_array(context, bytemuck::cast_slice(indptr))).unwrap();
        }
        if let Some(weights) = &self.weights {
            source = source.with_weights(Self::pinned_array(context, bytemuck::cast_slice(weights))).unwrap();
        }
        source
    }

    /// Bounds for any batch of this many seeds.
    pub fn bounds(&self, seeds: usize, fanouts: impl Into<Fanouts>) -> BatchBounds {
        self.bounds_of(seeds, &options(fanouts))
    }

    /// Bounds for these options.
    pub fn bounds_of(&self, seeds: usize, sampler: &SamplerOptions) -> BatchBounds {
        let csc = self.csc();
        let room = Some(usize::MAX);
        BatchBounds::for_options(sampler, seeds.max(1), csc.nodes(), csc.edges(), room).unwrap()
    }
}

pub fn key(batch: u32) -> BatchKey {
    BatchKey { split: Split::Train, epoch: 3, batch }
}

pub fn options(fanouts: impl Into<Fanouts>) -> SamplerOptions {
    SamplerOptions { fanouts: fanouts.into(), seed: 0x1234_5678_9abc_def0, ..SamplerOptions::default() }
}

/// Few blocks, so that a launch has several and each has several turns.
pub const FEW_BLOCKS: GridBound = GridBound::Blocks(3);

/// A batch with its counts, or the error.
pub type Outcome = Result<(BatchCounts, Vec<i64>, Vec<Block>), SampleError>;

/// A block's offsets, local ids and edge ids.
pub type Block = (Vec<i32>, Vec<i32>, Vec<i64>);

fn content(batch: &MiniBatch) -> Outcome {
    let blocks = batch.blocks();
    let blocks = blocks.map(|block| (block.indptr.to_vec(), block.indices.to_vec(), block.edge_ids.to_vec()));
    Ok((batch.counts().clone(), batch.nodes().to_vec(), blocks.collect()))
}

/// The result of the sampler on the CPU.
pub fn on_cpu(sampler: &mut dyn BatchSampler, bounds: &BatchBounds, key: BatchKey, seeds: &[i64]) -> Outcome {
    let mut batch = MiniBatch::with_bounds(bounds);
    sampler.sample_into(key, seeds, &mut batch)?;
    content(&batch)
}

/// The result of the sampler on the GPU.
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

/// A graph of `nodes` nodes with all special cases: hubs, empty lists, repeated edges, self-loops.
pub fn rough(nodes: i64) -> Graph {
    let mut state = 1_u64;
    let mut random = move |bound: i64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as i64 % bound
    };
    let lists: Vec<Vec<i64>> = (0..nodes)
        .map(|node| {
            let degree = match node % 7 {
                0 => 0,
                1 => 1,
                2 => 3 * nodes.min(100),
                _ => random(30),
            };
            (0..degree).map(|place| if place % 5 == 0 { node } else { random(nodes) }).collect()
        })
        .collect();
    Graph::from_lists(&lists)
}

/// Compares batches of both samplers, with this many lists cached, and all their properties.
pub fn same(
    gpu: &Gpu,
    graph: &Graph,
    sampler: &SamplerOptions,
    cached_lists: usize,
    batches: u32,
    seeds: usize,
) {
    let bounds = graph.bounds_of(seeds, sampler);
    let csc = graph.csc();
    let mut cpu = uva_sample::sampler(graph.view_cached(cached_lists), sampler).unwrap();
    let of_gpu = CudaSamplerOptions {
        cached_lists,
        cached_weights: true,
        cached_edge_ids: true,
        degrees: true,
        grid: FEW_BLOCKS,
        ..graph.on_gpu(sampler, &bounds)
    };
    let mut device = gpu.sampler(graph, &of_gpu).unwrap();
    let mut degrees = vec![-1; bounds.nodes()];
    for batch in 0..batches {
        let first = (u64::from(batch) * 13) as usize % csc.nodes();
        let seeds: Vec<i64> =
            (0..seeds.min(csc.nodes())).map(|at| ((first + at) % csc.nodes()) as i64).collect();
        let mut expected = on_cpu(cpu.as_mut(), &bounds, key(batch), &seeds);
        let in_degrees: Vec<i32> =
            expected.as_ref().unwrap().1.iter().map(|node| csc.degree(*node as usize) as i32).collect();
        graph.in_dataset_ids(&mut expected);
        let found = on_gpu(&mut device, &bounds, key(batch), &seeds, &mut degrees);
        assert_eq!(found, expected, "batch {batch} of {sampler:?}, {cached_lists} lists cached");
        assert_eq!(degrees[..in_degrees.len()], in_degrees);
    }
}
