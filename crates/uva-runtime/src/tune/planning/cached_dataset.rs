//! A dataset with its two caches: DUCATI's two calls, for programs that make batches themselves.

use std::sync::Arc;

use uva_batch::BatchLayout;
use uva_cuda::Context;
use uva_cuda::kernels::gather::GatherKernels;
use uva_cuda::memory::PinnedTable;
use uva_cuda::{Module, ModuleOptions};
use uva_graph::{Dataset, ElementType, NodeType};
use uva_rows::cuda::{DeviceSource, ReadBack};
use uva_rows::{GatherError, Hits, HostPlace, HostSource};
use uva_sample::cuda::DeviceBytes;
use uva_sample::{BatchCounts, BatchKey, MiniBatch};

use crate::backend::{Backend, CudaBackend};
use crate::feed::device::{cache_on_gpu, zero_copy};
use crate::feed::rows::{FeatureBytes, HostParts, RowTree};
use crate::sampler::cache::{CacheContents, Engine, OnGpu, SampledGraph};
use crate::sampler::lane::{grid, sampler_lane};
use crate::{LoaderOptions, RuntimeError};

/// A sampler and a loader that read through the caches. Results are the same as without them; ids are the dataset's.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use uva_graph::{Dataset, Split};
/// use uva_runtime::LoaderOptions;
/// use uva_runtime::backend::Backend;
/// use uva_runtime::sampler::cache::{CacheContents, CachePolicy};
/// use uva_runtime::tune::planning::{self, CachedDataset};
/// use uva_sample::BatchKey;
///
/// let dataset = Arc::new(Dataset::open("data/graph".as_ref())?);
/// let options = LoaderOptions { fanouts: [15, 10].into(), ..LoaderOptions::default() };
/// let (plan, _) = planning::plan(&dataset, &options, &Backend::Cpu, 64 << 20, CachePolicy::PRESAMPLE, &|_| {})?;
/// let contents = CacheContents::of_plan(&dataset, &plan)?;
/// let mut cached = CachedDataset::new(&dataset, &options, &Backend::Cpu, &contents)?;
///
/// let mut batch = cached.room();
/// let key = BatchKey { split: Split::Train, epoch: 0, batch: 0 };
/// let counts = cached.sample(key, &dataset.split(Split::Train)[..256], &mut batch)?;
/// let mut rows = vec![0; counts.nodes() * dataset.table().row_bytes()];
/// let hits = cached.load(batch.nodes(), &mut rows)?;
/// println!("{} of {} rows, {:?} of lists", hits.last, counts.nodes(), counts.list_reads);
/// # Ok(())
/// # }
/// ```
pub struct CachedDataset<'d> {
    graph: SampledGraph<'d>,
    engine: Engine<'d>,
    rows: Box<dyn HostSource + 'd>,
    hits: Hits,
    layout: BatchLayout,
    /// The samplers' id of each node; empty if it equals the dataset's.
    places: Vec<i64>,
    seeds: Vec<i64>,
}

impl<'d> CachedDataset<'d> {
    /// A sampler and a gather over `dataset` with these caches, each on the GPU if the backend places it there. Rows
    /// are always written to host memory.
    ///
    /// # Errors
    /// [`RuntimeError::Usage`] for invalid options; [`RuntimeError::Missing`] and [`RuntimeError::Failed`] if the
    /// machine or its GPU lacks the required resources.
    pub fn new(
        dataset: &'d Arc<Dataset>,
        options: &LoaderOptions,
        backend: &Backend,
        contents: &'d CacheContents,
    ) -> Result<Self, RuntimeError> {
        options.check()?;
        options.check_dataset(dataset)?;
        let layout = BatchLayout::new(dataset, &options.batch_spec(dataset)?)?;
        backend.check_features(&layout, options.gathers_before_sums)?;
        let graph = SampledGraph::new(dataset, contents.graph().map(|graph| graph.bytes()))?;
        let engine = match backend.gpu_sampler() {
            Some(cuda) => {
                let context = &Context::primary(cuda.ordinal)?;
                let lane = &sampler_lane(context, cuda, "sampler")?;
                let at = OnGpu { lane, cuda, dataset, reordered: contents.graph(), own_batch: true };
                Engine::on_gpu(&at, &graph, options, layout.bounds(), contents.caches())?
            }
            None => Engine::on_host(dataset, &graph, options, contents.caches())?,
        };
        let rows: Box<dyn HostSource + 'd> = match backend.device_slots() {
            Some(cuda) => Box::new(rows_by_gpu(dataset, options, cuda, contents)?),
            None => {
                let parts = HostParts::new(dataset, options.gather_threads).with_chosen(chosen(contents));
                RowTree::Mapped.behind(contents.caches()).widened_for(&layout).gathered(&parts)?
            }
        };
        let mut places = Vec::new();
        if let Some(ids) = graph.dataset_ids() {
            places = vec![0; ids.len()];
            for (place, &id) in (0..).zip(ids) {
                places[id as usize] = place;
            }
        }
        Ok(Self { graph, engine, rows, hits: Hits::default(), layout, places, seeds: Vec::new() })
    }

    /// Memory for any batch.
    #[must_use]
    pub fn room(&self) -> MiniBatch {
        MiniBatch::with_bounds(self.layout.bounds())
    }

    /// Device memory of its sampler. The lists use exactly the bytes of the plan. `None` if the CPU samples.
    #[must_use]
    pub fn sampler_bytes(&self) -> Option<DeviceBytes> {
        self.engine.device_bytes()
    }

    /// Bytes of a row that [`load`](Self::load) writes.
    #[must_use]
    pub fn row_bytes(&self) -> usize {
        self.layout.row_bytes()
    }

    /// The element type of that row.
    #[must_use]
    pub fn row_element(&self) -> ElementType {
        self.layout.element()
    }

    /// Samples around `seeds`, which must not repeat. The picks are those of the batch `key` of a run with these
    /// options.
    ///
    /// # Errors
    /// Seeds that are not nodes, or repeat; a batch that does not fit; errors of the GPU.
    pub fn sample(
        &mut self,
        key: BatchKey,
        seeds: &[i64],
        batch: &mut MiniBatch,
    ) -> Result<BatchCounts, RuntimeError> {
        let Self { graph, engine, places, seeds: translated, .. } = self;
        let seeds = if places.is_empty() {
            seeds
        } else {
            translated.clear();
            // A seed that is not a node is unchanged, so that the sampler reports it.
            let place = |&seed: &i64| {
                usize::try_from(seed).ok().and_then(|seed| places.get(seed)).copied().unwrap_or(seed)
            };
            translated.extend(seeds.iter().map(place));
            translated
        };
        batch.fill(|out| engine.sample(graph, key, (&[seeds][..]).into(), out, &mut []))
    }

    /// Writes the feature row of each node to its place in `rows`, in the options' feature type. Returns the number of
    /// rows from the cache.
    ///
    /// # Errors
    /// A node out of range; `rows` of another length; errors of the GPU.
    pub fn load(&mut self, nodes: &[i64], rows: &mut [u8]) -> Result<Hits, RuntimeError> {
        let failed = |error: GatherError| RuntimeError::failed(format!("feat.npy: {error}"));
        let read = self.rows.fill(nodes, HostPlace::new(rows)).map_err(failed)?;
        self.hits.count(&read);
        Ok(self.hits)
    }
}

/// The ids of the rows of a cache that does not change.
fn chosen(contents: &CacheContents) -> Option<&[i64]> {
    contents.rows().map(|rows| bytemuck::cast_slice(rows.bytes()))
}

fn rows_by_gpu(
    dataset: &Arc<Dataset>,
    options: &LoaderOptions,
    cuda: &CudaBackend,
    contents: &CacheContents,
) -> Result<ReadBack<Box<dyn DeviceSource>>, RuntimeError> {
    let context = &Context::primary(cuda.ordinal)?;
    let row_bytes = dataset.table().row_bytes();
    let module = ModuleOptions { nvrtc: cuda.nvrtc.clone(), ..ModuleOptions::default() };
    let kernels = GatherKernels::new(&Module::gather(context, &module)?)?;
    let pin = cuda.pin_options("the feature table");
    let table = PinnedTable::new(context, Arc::new(FeatureBytes(Arc::clone(dataset), NodeType::ONLY)), &pin)?;
    let cache = match RowTree::Pinned.behind(contents.caches()).device_cache() {
        Some(kind) => Some(cache_on_gpu(context, dataset, options.gather_threads, kind, chosen(contents))?),
        None => None,
    };
    let bound = grid(cuda.partition.gather_multiprocessors());
    let rows = zero_copy(&kernels, Arc::new(table), row_bytes, cuda.kernel, bound, cache)?;
    Ok(ReadBack::new(context, kernels, rows)?)
}
