//! The engine that samples: the CPU, or the GPU, over the graph in the caches' order.

use std::ops::Range;
use std::sync::Arc;

use uva_cuda::kernels::gather::IdWidth;
use uva_cuda::kernels::sample::SampleKernels;
use uva_cuda::memory::{PinOptions, PinnedTable, PreflightPolicy, SharedBuffer, TableBytes};
use uva_cuda::{Module, ModuleOptions};
use uva_graph::Dataset;
use uva_graph::reorder::ReorderedLayout;
use uva_mem::FrozenBytes;
use uva_sample::cuda::{
    BatchPlace, CudaSampleError, CudaSampler, CudaSamplerOptions, DatasetArray, DeviceBytes, GraphSource,
    PinnedArray,
};
use uva_sample::{
    BatchBounds, BatchCounts, BatchKey, BatchMut, BatchSampler, Divided, Seeds, divided_sampler, sampler,
};

use super::caches::Caches;
use super::graph::SampledGraph;
use crate::backend::CudaBackend;
use crate::sampler::lane::Lane;
use crate::{LoaderOptions, RuntimeError};

/// A sampler. Its batches do not depend on its place.
pub(crate) enum Engine<'a> {
    Host { sampler: Box<dyn BatchSampler + 'a>, dataset: &'a Dataset },
    Device(Box<CudaSampler>),
}

/// The parts of a sampler on the GPU.
pub(crate) struct OnGpu<'a> {
    pub lane: &'a Lane,
    pub cuda: &'a CudaBackend,
    pub dataset: &'a Arc<Dataset>,
    /// The graph in the order of the list cache, if that differs from the dataset's.
    pub reordered: Option<&'a Arc<FrozenBytes>>,
    /// Whether the sampler has device memory for a batch, and samples only to it.
    pub own_batch: bool,
}

impl<'a> Engine<'a> {
    /// A sampler on the CPU, which counts hits of the lists of `caches`.
    pub fn on_host(
        dataset: &'a Dataset,
        graph: &SampledGraph<'a>,
        loader: &LoaderOptions,
        caches: &Caches,
    ) -> Result<Self, RuntimeError> {
        let sampling = loader.sampling_in(dataset.metagraph())?;
        Ok(Self::Host { sampler: sampler(graph.types_of(caches), &sampling)?, dataset })
    }

    /// A sampler on the CPU over lists that are divided among ranks.
    pub fn on_divided(
        dataset: &'a Dataset,
        graph: &SampledGraph<'a>,
        loader: &LoaderOptions,
        lists: Divided<'a>,
    ) -> Result<Self, RuntimeError> {
        Ok(Self::Host { sampler: divided_sampler(graph.view(), &loader.sampling(), lists)?, dataset })
    }

    /// Draws the picks that other ranks request in the hops of one batch, if this rank has no batch.
    pub fn serve(&mut self) -> Result<(), RuntimeError> {
        match self {
            Self::Host { sampler, .. } => Ok(sampler.serve()?),
            Self::Device(_) => Ok(()),
        }
    }

    /// A sampler on the GPU: pins the graph, and copies the cached lists to the device.
    pub fn on_gpu(
        at: &OnGpu<'_>,
        graph: &SampledGraph<'_>,
        loader: &LoaderOptions,
        bounds: &BatchBounds,
        caches: &Caches,
    ) -> Result<Self, RuntimeError> {
        let sampler = at.sampler(&at.source(loader)?, graph, loader, bounds, caches)?;
        Ok(Self::Device(Box::new(sampler)))
    }

    /// Samples the batch `key` around `seeds` of each node type, which are ids of `graph`. The nodes it returns have the
    /// dataset's ids. `degrees` receives the in-degrees in the whole graph of as many nodes as fit.
    pub fn sample(
        &mut self,
        graph: &SampledGraph<'_>,
        key: BatchKey,
        seeds: Seeds<'_>,
        out: &mut BatchMut<'_, '_>,
        degrees: &mut [i32],
    ) -> Result<BatchCounts, RuntimeError> {
        match self {
            Self::Host { sampler, dataset } => {
                let counts =
                    sampler.sample_types(key, seeds, out).map_err(|error| graph.in_dataset_ids(error))?;
                // Graphs of several types are not reordered, and their batches have no degrees.
                let nodes = &mut out.nodes[0][..counts.types()[0].nodes];
                graph.to_dataset_ids(nodes);
                if !degrees.is_empty() {
                    let csc = dataset.csc();
                    for (to, node) in degrees.iter_mut().zip(nodes) {
                        *to = i32::try_from(csc.whole_degree(*node as usize)).unwrap_or(i32::MAX);
                    }
                }
                Ok(counts)
            }
            Self::Device(sampler) => sampler
                .sample_into(key, seeds.ids[0], out, degrees)
                .map_err(|error| on_gpu_failed(graph, error)),
        }
    }

    /// Device memory of a sampler on the GPU.
    pub fn device_bytes(&self) -> Option<DeviceBytes> {
        match self {
            Self::Host { .. } => None,
            Self::Device(sampler) => Some(sampler.device_bytes()),
        }
    }

    /// The sampler on the GPU.
    ///
    /// # Errors
    /// [`RuntimeError::Failed`] if the sampler is on the CPU.
    fn on_device(&mut self) -> Result<&mut CudaSampler, RuntimeError> {
        match self {
            Self::Host { .. } => Err(RuntimeError::failed("a sampler on the CPU has no memory on the GPU")),
            Self::Device(sampler) => Ok(sampler),
        }
    }

    /// Samples on the GPU to device memory, including the degrees.
    pub fn sample_to(
        &mut self,
        graph: &SampledGraph<'_>,
        key: BatchKey,
        seeds: &[i64],
        place: &BatchPlace<'_>,
    ) -> Result<BatchCounts, RuntimeError> {
        self.on_device()?.sample_to(key, seeds, place).map_err(|error| on_gpu_failed(graph, error))
    }

    /// Copies parts of a batch that [`Self::sample_to`] has sampled to the host.
    pub fn read_back(
        &mut self,
        graph: &SampledGraph<'_>,
        memory: &SharedBuffer,
        parts: &mut [(Range<usize>, &mut [u8])],
    ) -> Result<(), RuntimeError> {
        self.on_device()?.read_back(memory, parts).map_err(|error| on_gpu_failed(graph, error))
    }
}

fn on_gpu_failed(graph: &SampledGraph<'_>, error: CudaSampleError) -> RuntimeError {
    match error {
        CudaSampleError::Sample(error) => graph.in_dataset_ids(error).into(),
        CudaSampleError::Cuda(error) => error.into(),
    }
}

impl OnGpu<'_> {
    /// The graph, pinned, and the other arrays of the dataset that samplers with these options read.
    pub fn source(&self, loader: &LoaderOptions) -> Result<GraphSource, RuntimeError> {
        let remedies = "sample on the CPU with `sampler=cpu`";
        let pin = PinOptions { remedies, ..self.cuda.pin_options("the graph") };
        let context = self.lane.context();
        let of_dataset = |array| PinnedArray::of_dataset(context, self.dataset, array, &pin);
        let weighted = loader.sampler_kind.needs_weights();
        let mut source = match self.reordered {
            Some(region) => self.reordered_source(region)?,
            None => GraphSource::of_dataset(context, self.dataset, &pin)?,
        };
        // Weights and edge ids are in the dataset's order, even if the graph is not.
        if self.reordered.is_some() && (weighted || loader.sampling().edge_ids) {
            source = source.with_home(of_dataset(DatasetArray::Indptr)?)?;
        }
        if weighted && self.dataset.weights().is_some() {
            source = source.with_weights(of_dataset(DatasetArray::Weights)?)?;
        }
        Ok(source)
    }

    fn reordered_source(&self, region: &Arc<FrozenBytes>) -> Result<GraphSource, RuntimeError> {
        let layout = ReorderedLayout::new(self.dataset);
        // Its pages have already been written, so pinning them needs no additional memory.
        let preflight = PreflightPolicy::Off;
        let options = PinOptions { preflight, ..self.cuda.pin_options("the reordered graph") };
        let owner: Arc<dyn TableBytes> = Arc::new(GraphBytes(Arc::clone(region)));
        let table = Arc::new(PinnedTable::new(self.lane.context(), owner, &options)?);
        let array = |range| PinnedArray::new(Arc::clone(&table), range);
        let width = if layout.id_bytes() == 4 { IdWidth::I32 } else { IdWidth::I64 };
        Ok(GraphSource::new(array(layout.indptr_range())?, array(layout.indices_range())?, width)?)
    }

    /// A sampler of that graph, with the lists of `caches` on the device.
    pub fn sampler(
        &self,
        source: &GraphSource,
        graph: &SampledGraph<'_>,
        loader: &LoaderOptions,
        bounds: &BatchBounds,
        caches: &Caches,
    ) -> Result<CudaSampler, RuntimeError> {
        let Self { lane, cuda, .. } = self;
        let module = ModuleOptions { nvrtc: cuda.nvrtc.clone(), ..ModuleOptions::default() };
        let kernels = SampleKernels::new(&Module::sample(lane.context(), &module)?)?;
        let options = CudaSamplerOptions {
            cached_lists: caches.lists,
            cached_weights: caches.list_weights,
            cached_edge_ids: caches.list_homes,
            original_ids: graph.csc().original_ids,
            dataset_ids: graph.dataset_ids(),
            degrees: loader.has_degrees(),
            whole_degrees: self.dataset.csc().degrees,
            grid: lane.grid(),
            own_batch: self.own_batch,
            ..CudaSamplerOptions::new(loader.sampling(), bounds.clone())
        };
        CudaSampler::new(kernels, lane.stream()?, source.clone(), &options).map_err(|error| match error {
            CudaSampleError::Sample(error) => error.into(),
            CudaSampleError::Cuda(error) => error.into(),
        })
    }
}

/// The reordered graph's bytes, while they are pinned.
struct GraphBytes(Arc<FrozenBytes>);

impl TableBytes for GraphBytes {
    fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }
}
