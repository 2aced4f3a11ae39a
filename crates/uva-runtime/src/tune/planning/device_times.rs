//! Timing of caches on a GPU: the sampler and the gather of a run, each alone, by the device's clock.

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use uva_cuda::kernels::gather::{GatherKernels, GatherReport};
use uva_cuda::memory::{IpcKind, PinnedTable, SharedBuffer};
use uva_cuda::{Context, CudaEvent, CudaStream, Module, ModuleOptions};
use uva_graph::reorder::NodeOrder;
use uva_graph::{Dataset, NodeType, Split};
use uva_mem::FrozenBytes;
use uva_plan::{TimedCaches, TimedRun};
use uva_rows::RowSource;
use uva_rows::cuda::{DeviceCache, SlotFiller, SlotPlace, SlotShape};
use uva_sample::cuda::GraphSource;
use uva_sample::{BatchKey, MiniBatch};

use super::host_times::{HostTimes, median, of_lists, share};
use crate::backend::CudaBackend;
use crate::feed::device::zero_copy;
use crate::feed::rows::FeatureBytes;
use crate::sampler::cache::{self, Caches, OnGpu, SampledGraph};
use crate::sampler::lane::{Lane, grid, sampler_lane};
use crate::{LoaderOptions, RuntimeError};

/// Alignment of rows and of their report.
const ALIGNMENT: usize = 128;

/// The timing of the GPU's sampler and gather.
pub(super) struct DeviceTimes<'d> {
    context: Arc<Context>,
    /// The sampler's lane.
    lane: Lane,
    cuda: &'d CudaBackend,
    dataset: &'d Arc<Dataset>,
    loader: &'d LoaderOptions,
    host: HostTimes<'d>,
    /// The graph in the order of the timed lists, and pinned.
    graph: Option<OrderedGraph>,
    /// The features, pinned, and the kernels.
    table: Option<(Arc<PinnedTable>, GatherKernels)>,
}

/// The graph in an order of its lists.
struct OrderedGraph {
    /// The first nodes of that order.
    first: Vec<i64>,
    region: Arc<FrozenBytes>,
    source: GraphSource,
}

/// The clock of a measurement.
#[derive(Clone, Copy)]
enum Clock {
    Host,
    /// The device's clock, without the parts that a cache cannot change.
    Device,
}

type Failure = Box<dyn Error + Send + Sync>;

impl<'d> DeviceTimes<'d> {
    /// Creates the timing for the first training batches of a run with these options on that GPU.
    pub fn new(
        context: Arc<Context>,
        cuda: &'d CudaBackend,
        dataset: &'d Arc<Dataset>,
        loader: &'d LoaderOptions,
    ) -> Result<Self, RuntimeError> {
        let host = HostTimes::new(dataset, loader)?;
        let lane = sampler_lane(&context, cuda, "planner")?;
        Ok(Self { context, lane, cuda, dataset, loader, host, graph: None, table: None })
    }

    /// The time of the CPU's sampler for the same batches, in milliseconds per batch of one sampler.
    pub fn sampling_on_cpu(&mut self) -> Result<f64, Failure> {
        Ok(self.host.sample(&SampledGraph::new(self.dataset, None)?, 0, &mut |_| {})?.ms)
    }

    /// The time of the GPU's sampler on the dataset's own graph, without a cache, by the host's clock. It includes the
    /// copy of ids and blocks, since a run waits for that.
    pub fn sampling_on_gpu(&mut self) -> Result<f64, Failure> {
        let at = self.on_gpu(None);
        let (source, graph) = (at.source(self.loader)?, SampledGraph::new(self.dataset, None)?);
        let sampler = at.sampler(&source, &graph, self.loader, self.host.bounds(), &Caches::default())?;
        Ok(self.sample(sampler, &graph, Clock::Host)?.ms)
    }

    fn on_gpu<'a>(&'a self, reordered: Option<&'a Arc<FrozenBytes>>) -> OnGpu<'a> {
        OnGpu { lane: &self.lane, cuda: self.cuda, dataset: self.dataset, reordered, own_batch: true }
    }

    fn sample(
        &self,
        mut sampler: uva_sample::cuda::CudaSampler,
        graph: &SampledGraph<'_>,
        clock: Clock,
    ) -> Result<TimedRun, Failure> {
        let mut batch = MiniBatch::with_bounds(self.host.bounds());
        let split = graph.split(Split::Train);
        let mut times = Vec::new();
        let (mut all, mut hits) = (0, 0);
        for (number, positions) in (0..).zip(self.host.seeds()) {
            let seeds: Vec<i64> = positions.iter().map(|&position| split[position as usize]).collect();
            let key = BatchKey { split: Split::Train, epoch: 0, batch: number };
            let began = Instant::now();
            let counts = batch.fill(|out| sampler.sample_into(key, &seeds, out, &mut []))?;
            times.push(match clock {
                Clock::Host => began.elapsed().as_secs_f64() * 1e3,
                Clock::Device => sampler.device_ns() as f64 * 1e-6,
            });
            all += counts.list_reads.all;
            hits += counts.list_reads.cached;
        }
        Ok(TimedRun { hit_rate: share(hits, all), ms: median(times) })
    }
}

impl TimedCaches for DeviceTimes<'_> {
    fn sampling(&mut self, order: &[i64], cached: usize) -> Result<TimedRun, Failure> {
        if self.graph.as_ref().is_none_or(|graph| graph.first != order) {
            // One at a time: each is as large as the adjacency.
            self.graph = None;
            let of_nodes = NodeOrder::from_first(self.dataset.nodes(), order)?;
            let region = Arc::new(cache::reordered_graph(self.dataset, &of_nodes)?);
            let source = self.on_gpu(Some(&region)).source(self.loader)?;
            self.graph = Some(OrderedGraph { first: order.to_vec(), region, source });
        }
        let Some(OrderedGraph { region, source, .. }) = &self.graph else { return Err("no graph".into()) };
        let graph = SampledGraph::new(self.dataset, Some(region.bytes()))?;
        let at = self.on_gpu(Some(region));
        let sampler = at.sampler(source, &graph, self.loader, self.host.bounds(), &of_lists(cached))?;
        self.sample(sampler, &graph, Clock::Device)
    }

    fn gathering(&mut self, cached: &[i64]) -> Result<TimedRun, Failure> {
        let Self { context, cuda, dataset, loader, .. } = self;
        if self.table.is_none() {
            let module = ModuleOptions { nvrtc: cuda.nvrtc.clone(), ..ModuleOptions::default() };
            let kernels = GatherKernels::new(&Module::gather(context, &module)?)?;
            let owner = Arc::new(FeatureBytes(Arc::clone(dataset), NodeType::ONLY));
            let table = PinnedTable::new(context, owner, &cuda.pin_table_options("the feature table"))?;
            self.table = Some((Arc::new(table), kernels));
        }
        let Some((table, kernels)) = &self.table else { return Err("no table".into()) };
        let row_bytes = dataset.table().row_bytes();
        let batches = self.host.nodes()?;
        let most = batches.iter().map(Vec::len).max().unwrap_or(0);
        // The report, the ids, the rows.
        let ids_at = GatherReport::BYTES;
        let features_at = (ids_at + most * 8).next_multiple_of(ALIGNMENT);
        let stride = (features_at + most * row_bytes).next_multiple_of(ALIGNMENT);
        let buffer = SharedBuffer::create(context, stride, IpcKind::Auto, "the batches that are timed")?;
        let cache = match cached {
            [] => None,
            cached => {
                let bytes = dataset.features().bytes;
                Some(DeviceCache::filled(context, bytes, row_bytes, cached, loader.gather_threads)?)
            }
        };
        let bound = grid(cuda.partition.gather_multiprocessors());
        let rows = zero_copy(kernels, Arc::clone(table), row_bytes, cuda.kernel, bound, cache)?;
        let shape = SlotShape { slots: 1, stride };
        let mut filler =
            SlotFiller::new(CudaStream::new(context)?, kernels.clone(), rows, Arc::new(buffer), shape)?;
        filler.reserve_room(features_at, most)?;
        let ready = CudaEvent::local(context)?;
        let mut times = Vec::new();
        let (mut rows, mut hits) = (0, 0);
        for (stamp, nodes) in (1..).zip(batches) {
            let place = SlotPlace {
                slot: 0,
                arrays: &[(ids_at, bytemuck::cast_slice(nodes))],
                on_device: None,
                ids_at,
                features_at,
                sums: None,
                made: None,
                brought: None,
                tables_at: None,
                of_set: None,
                begun: None,
                stamp,
                after: None,
                ready: &ready,
            };
            filler.submit(nodes, place)?;
            for fill in filler.drain()? {
                times.push(fill.ended_ns.saturating_sub(fill.began_ns) as f64 * 1e-6);
                rows += fill.rows as u64;
                hits += fill.read.hits();
            }
        }
        Ok(TimedRun { hit_rate: share(hits, rows), ms: median(times) })
    }
}
