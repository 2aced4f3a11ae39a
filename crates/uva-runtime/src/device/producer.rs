//! The producer's side of feature slots on a GPU.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use uva_batch::{Aggregation, BatchHeader, BatchLayout, Column, Stage};
use uva_cuda::kernels::gather::{GatherKernels, GatherReport};
use uva_cuda::memory::{PinHow, PinOptions, PinReport, PinnedTable, SharedBuffer, TableBytes};
use uva_cuda::{Context, Module, ModuleOptions};
use uva_graph::Dataset;
use uva_mem::{FrozenBytes, ZeroedPages};
use uva_rows::cuda::{
    DeviceCache, DeviceRows, DeviceSource, DeviceTable, Fill, FillError, GridBound, Kernel, MadeOnHost,
    Pinned, SlotFiller, SlotPlace, SlotSums, Split, Staged,
};
use uva_rows::{Cached, HostPlace, Mapped, RowSource};

use super::batches::DeviceBatches;
use super::slots::{SlotSignals, out_of_range, slot_shape, stamp};
use crate::RuntimeError;
use crate::backend::{CudaBackend, GatherChoice};
use crate::cache::Caches;
use crate::edge_rows::EdgeRows;
use crate::host_rows::{FEATURES, HostRows};
use crate::lane::Lane;
use crate::plan::RunPlan;
use crate::rows_from::RowsFrom;
use crate::widening::narrow_float;

/// The feature table's bytes, for as long as the dataset is mapped.
pub(crate) struct FeatureBytes(pub(crate) Arc<Dataset>);

impl TableBytes for FeatureBytes {
    fn bytes(&self) -> &[u8] {
        self.0.features().bytes
    }
}

/// Feature slots on a GPU for a producer to fill: shared already, while the table is not yet pinned.
pub(crate) struct DeviceSetup {
    pub lane: Lane,
    pub cuda: CudaBackend,
    pub slots: (Arc<SharedBuffer>, SlotSignals),
    /// Batches that come on the device.
    pub batches: Option<Arc<DeviceBatches>>,
}

impl DeviceSetup {
    /// Pins the table and prepares all that batches need; this takes minutes for hundreds of gigabytes. `cached_rows`
    /// are the ids of the rows in the feature cache, if it holds the same ones throughout.
    pub fn open<'d>(
        self,
        plan: &RunPlan,
        dataset: &'d Arc<Dataset>,
        cached_rows: Option<&FrozenBytes>,
    ) -> Result<DeviceGather<'d>, RuntimeError> {
        let threads = plan.options.gather_threads;
        let cache = cache_on_gpu(self.lane.context(), dataset, threads, &plan.caches, cached_rows)?;
        DeviceGather::new(self, plan, dataset, cache)
    }
}

/// A run's cache of rows in the GPU's memory, if it has one: of the rows with these ids, or of recently read rows.
pub(crate) fn cache_on_gpu(
    context: &Arc<Context>,
    dataset: &Dataset,
    threads: usize,
    caches: &Caches,
    cached_rows: Option<&FrozenBytes>,
) -> Result<Option<DeviceCache>, RuntimeError> {
    let table = dataset.features();
    let row_bytes = table.row_bytes();
    Ok(match cached_rows {
        Some(ids) => {
            let ids: &[i64] = bytemuck::cast_slice(ids.bytes());
            Some(DeviceCache::filled(context, table.bytes, row_bytes, ids, threads)?)
        }
        None => match caches.dynamic {
            Some(policy) => Some(DeviceCache::evicting(policy, context, table.rows, row_bytes, caches.rows)?),
            None => None,
        },
    })
}

/// Rows of a pinned table, which kernels read over the link, and from a cache on the GPU if there is one.
pub(crate) fn zero_copy(
    kernels: &GatherKernels,
    table: Arc<PinnedTable>,
    row_bytes: usize,
    kernel: Kernel,
    multiprocessors: Option<u32>,
    cache: Option<DeviceCache>,
) -> Result<Box<dyn DeviceSource>, FillError> {
    let rows = Pinned::new(kernels.clone(), table, row_bytes, kernel, grid(multiprocessors))?;
    Ok(match cache {
        None => Box::new(rows),
        Some(cache) => Box::new(Cached::on_device(rows, cache)?),
    })
}

/// The grid of a gather on this many multiprocessors, or on all.
fn grid(multiprocessors: Option<u32>) -> GridBound {
    multiprocessors.map_or(GridBound::Device, GridBound::Multiprocessors)
}

/// Gathers rows into feature slots on a GPU.
pub(crate) struct DeviceGather<'d> {
    filler: SlotFiller<Box<dyn DeviceSource>>,
    signals: SlotSignals,
    dataset: &'d Arc<Dataset>,
    batches: Option<Arc<DeviceBatches>>,
    rows: usize,
    edges: Option<EdgesOnHost>,
    /// Where the CPU makes sums, and the source's rows are not read.
    sums: Option<SumsOnHost<'d>>,
    note: String,
}

/// Own rows and sums on their way, made by the CPU.
struct SumsOnHost<'d> {
    /// Lent to the closure that a fill calls once.
    rows: RefCell<HostRows<'d>>,
    threads: usize,
}

/// The feature rows of edges on their way: gathered by the CPU, and sent to the slot with the batch's arrays.
struct EdgesOnHost {
    source: EdgeRows,
    /// Of each layer of the present batch.
    rows: Vec<Vec<u8>>,
    threads: usize,
}

impl<'d> DeviceGather<'d> {
    fn new(
        setup: DeviceSetup,
        plan: &RunPlan,
        dataset: &'d Arc<Dataset>,
        cache: Option<DeviceCache>,
    ) -> Result<Self, RuntimeError> {
        let DeviceSetup { lane, cuda, slots: (buffer, signals), batches } = setup;
        let (began, context) = (Instant::now(), lane.context());
        let options = ModuleOptions { nvrtc: cuda.nvrtc.clone(), ..ModuleOptions::default() };
        let kernels = GatherKernels::new(&Module::gather(context, &options)?)?;
        let compiled = began.elapsed();
        let what = format!("the feature table {}", dataset.path().join("feat.npy").display());
        let (multiprocessors, bound) = (lane.multiprocessors(), lane.grid());
        let (threads, row_bytes) = (plan.options.gather_threads, plan.layout.row_bytes());
        // A table that only the CPU reads need not be pinned.
        let owner = || Arc::new(FeatureBytes(Arc::clone(dataset)));
        let by_copies = || {
            let table = Mapped::owned(owner(), row_bytes, threads)?;
            Staged::new(context, table)
        };
        let (source, how): (Box<dyn DeviceSource>, String) = match cuda.gather {
            // `Auto` is never granted; it would be this.
            GatherChoice::ZeroCopy | GatherChoice::Auto => {
                let (table, how) = pinned_once(context, dataset, &cuda.pin_table_options(&what))?;
                (zero_copy(&kernels, table, row_bytes, cuda.kernel, multiprocessors, cache)?, how)
            }
            // Rows are cached only for zero-copy reads: `cache::cacheable`.
            _ if cache.is_some() => {
                return Err(RuntimeError::Failed(
                    "rows can be cached for the zero-copy gather only".to_owned(),
                ));
            }
            GatherChoice::Device => {
                let began = Instant::now();
                let bytes = dataset.features().bytes;
                let table = Arc::new(DeviceTable::new(context, bytes, &what)?);
                let (gigabytes, seconds) = (bytes.len() as f64 * 1e-9, began.elapsed().as_secs_f64());
                let how = format!("feature table: {gigabytes:.2} GB copied to the GPU in {seconds:.2} s");
                (Box::new(DeviceRows::new(kernels.clone(), table, row_bytes, cuda.kernel, bound)?), how)
            }
            GatherChoice::Dma | GatherChoice::Cpu => {
                (Box::new(by_copies()?), "feature table: not pinned, the CPU reads it".to_owned())
            }
            GatherChoice::Split => {
                let (table, how) = pinned_once(context, dataset, &cuda.pin_table_options(&what))?;
                let first = Pinned::new(kernels.clone(), table, row_bytes, cuda.kernel, bound)?;
                let mut split = Split::new(first, by_copies()?)?;
                if let Some(share) = cuda.split_share {
                    split.set_share(share);
                }
                (Box::new(split), how)
            }
        };
        let slots = buffer.bytes() as f64 * 1e-9;
        let (memory, by) = (buffer.kind().name(), signals.name());
        let seconds = compiled.as_secs_f64();
        let note = format!(
            "{how}; {slots:.2} GB of feature slots on the GPU ({memory}, {by}); kernels ready in {seconds:.2} s"
        );
        let mut filler = SlotFiller::new(lane.stream()?, kernels, source, buffer, slot_shape(plan))?;
        filler.reserve_room(plan.upload_bytes(batches.is_some()), plan.slot_room().nodes)?;
        if let Some(rows) = plan.summed_rows() {
            filler.sum_rows(rows, narrow_float(Some(plan.layout.element())), bound)?;
        }
        let sums = match plan.made_bytes() {
            None => None,
            Some(bytes) => {
                filler.reserve_made(bytes)?;
                let rows = HostRows::behind(dataset, &plan.layout, (threads, RowsFrom::Memory), None)?;
                Some(SumsOnHost { rows: RefCell::new(rows), threads })
            }
        };
        let edges = EdgeRows::new(dataset, &plan.layout, threads)?;
        let edges = edges.map(|source| EdgesOnHost { source, rows: Vec::new(), threads });
        Ok(Self { filler, signals, dataset, batches, rows: plan.table_rows, edges, sums, note })
    }

    /// Whether the CPU makes what a batch has in the place of rows.
    pub fn sums_on_host(&self) -> bool {
        self.sums.is_some()
    }

    /// A line for people about its set-up.
    pub fn note(&self) -> &str {
        &self.note
    }

    /// Enqueues the upload of a batch's arrays and the gather of its rows into the slot of `sequence`, after the
    /// consumer's last use of it. `from` is the payload of batch slot `batch_slot`; it is not read after this returns.
    pub fn fill(
        &mut self,
        plan: &RunPlan,
        sequence: u64,
        header: &BatchHeader,
        (batch_slot, from): (usize, &[u8]),
    ) -> Result<(), RuntimeError> {
        let slots = plan.options.feature_slots as u64;
        let slot = (sequence % slots) as usize;
        // In a slot's first generation there is nothing to wait for.
        let free = sequence.checked_sub(slots).map(|before| self.signals.free(slot, before)).transpose()?;
        let ready = self.signals.ready(slot, sequence)?;
        let layout = &plan.layout;
        let batches = self.batches.as_deref();
        let ids: &[i64] = match batches.is_none_or(|batches| batches.is_on_host(Column::InputNodes)) {
            true => bytemuck::cast_slice(&from[layout.range(header, Column::InputNodes, 0)]),
            false => &[],
        };
        let columns = batches.map(|batches| batches.columns(batch_slot, header)).unwrap_or_default();
        if let Some(edges) = &mut self.edges {
            edges.gather(layout, header, from)?;
        }
        let edges = self.edges.as_ref();
        let arrays: Vec<(usize, &[u8])> = layout
            .packed(header)
            .filter(|(place, _)| batches.is_none() || !place.column.spec().made_on_gpu)
            .map(|(place, to)| match place.column.spec().written_by {
                Stage::Sampler => (to.start, &from[place.used(header)]),
                Stage::Producer => (to.start, edges.map_or(&[][..], |edges| edges.of_layer(place.layer))),
            })
            .collect();
        let ranges = FEATURES.map(|column| layout.packed_range(header, column, 0));
        let make = |parts: &mut [&mut [u8]]| {
            let (Some(sums), [x, aggregated, argmax]) = (&self.sums, parts) else { return Ok(()) };
            let mut rows = sums.rows.borrow_mut();
            rows.fill_columns(layout, header, sums.threads, from, [x, aggregated, argmax]).map(drop)
        };
        let place = SlotPlace {
            slot,
            arrays: &arrays,
            on_device: batches.map(|batches| batches.lent(batch_slot, header, &columns)),
            ids_at: layout.packed_range(header, Column::InputNodes, 0).start,
            features_at: layout.packed_range(header, Column::X, 0).start,
            sums: self.filler.sums_rows().then(|| slot_sums(layout, header)).flatten(),
            made: self.sums.is_some().then_some(MadeOnHost { ranges: &ranges, make: &make }),
            stamp: stamp(sequence),
            after: free.as_deref(),
            ready: &*ready,
        };
        self.filler.submit(ids, place)?;
        Ok(())
    }

    /// Writes the batch to `to` as it would lie in a slot on the GPU, where it has no [room](RunPlan::fits_slot):
    /// report, arrays, and rows or sums. The CPU does all of it, and the device's slot is left as it is. `from` as in
    /// [`fill`](Self::fill). Returns how many bytes that are.
    pub fn fill_aside(
        &mut self,
        plan: &RunPlan,
        sequence: u64,
        header: &BatchHeader,
        (batch_slot, from): (usize, &[u8]),
        to: &mut [u8],
    ) -> Result<usize, RuntimeError> {
        let (layout, threads) = (&plan.layout, plan.options.gather_threads);
        let sampled_on_gpu = match &self.batches {
            None => None,
            Some(batches) => Some(batches.on_host(batch_slot, header, from, self.filler.stream())?),
        };
        let from = sampled_on_gpu.as_ref().map_or(from, ZeroedPages::bytes);
        let report = GatherReport { stamp: stamp(sequence), ..GatherReport::PREPARED };
        to[..GatherReport::BYTES].copy_from_slice(report.bytes());
        if let Some(edges) = &mut self.edges {
            edges.gather(layout, header, from)?;
        }
        for (place, range) in layout.packed(header) {
            to[range].copy_from_slice(match (place.column.spec().written_by, &self.edges) {
                (Stage::Sampler, _) => &from[place.used(header)],
                (Stage::Producer, edges) => {
                    edges.as_ref().map_or(&[][..], |edges| edges.of_layer(place.layer))
                }
            });
        }
        let ranges = FEATURES.map(|column| layout.packed_range(header, column, 0));
        let mut rows = HostRows::behind(self.dataset, layout, (threads, RowsFrom::Memory), None)?;
        rows.fill_ranges(layout, header, threads, from, (&mut *to, ranges))?;
        Ok(layout.packed_bytes(header))
    }

    /// The total time of the gathers that completed since the last call.
    pub fn finished(&mut self) -> Result<Duration, RuntimeError> {
        let fills = self.filler.finished()?;
        self.add_up(&fills)
    }

    /// Drops the slots as they are: the consumer is gone, and the GPU may wait for its events forever.
    pub fn abandon(self) {
        self.filler.abandon();
    }

    /// An error if nothing more runs on the GPU, as when its context is lost.
    pub fn works(&self) -> Result<(), RuntimeError> {
        self.filler.stream().query()?;
        Ok(())
    }

    /// Waits for all gathers in flight.
    pub fn drain(&mut self) -> Result<Duration, RuntimeError> {
        let fills = self.filler.drain()?;
        self.add_up(&fills)
    }

    fn add_up(&self, fills: &[Fill]) -> Result<Duration, RuntimeError> {
        let mut sum = Duration::ZERO;
        for fill in fills {
            if let Some((position, id)) = fill.bad {
                return Err(out_of_range(position, id, self.rows));
            }
            sum += Duration::from_nanos(fill.ended_ns.saturating_sub(fill.began_ns));
        }
        Ok(sum)
    }
}

/// Where the outermost layer's lists of the batch of this header lie in a slot, and where its sums go; `None` where rows
/// are not summed.
fn slot_sums(layout: &BatchLayout, header: &BatchHeader) -> Option<SlotSums> {
    let by_degrees = match layout.aggregation() {
        // No kernel makes the last two: `Backend::check_features` has refused them.
        Aggregation::None | Aggregation::Sum | Aggregation::Max => return None,
        Aggregation::Mean => false,
        Aggregation::Degrees => true,
    };
    let outermost = layout.layers().len() - 1;
    let counts = header.outermost();
    let at = |column| {
        layout.place(column, outermost)?;
        Some(layout.packed_range(header, column, outermost).start)
    };
    Some(SlotSums {
        destinations: counts.destinations,
        edges: counts.edges,
        indptr_at: at(Column::Indptr)?,
        indices_at: at(Column::Indices)?,
        weights_at: at(Column::Weights),
        degrees_at: at(Column::Degrees).filter(|_| by_degrees),
        sums_at: at(Column::Aggregated)?,
        own: layout.aggregation().keeps_own_rows(),
    })
}

impl EdgesOnHost {
    /// Gathers each layer's rows.
    fn gather(
        &mut self,
        layout: &BatchLayout,
        header: &BatchHeader,
        from: &[u8],
    ) -> Result<(), RuntimeError> {
        self.rows.resize(layout.layers().len(), Vec::new());
        for ((layer, range), out) in EdgeRows::ranges(layout, header).enumerate().zip(&mut self.rows) {
            out.resize(range.len(), 0);
            let place = HostPlace { out, threads: self.threads };
            self.source.fill(layout, header, layer, from, place)?;
        }
        Ok(())
    }

    fn of_layer(&self, layer: usize) -> &[u8] {
        self.rows.get(layer).map_or(&[], Vec::as_slice)
    }
}

/// The tables pinned in this process, each with its key: the GPU, the dataset's folder and its fingerprint.
type PinnedTables = Vec<((usize, PathBuf, String), Weak<PinnedTable>)>;
static PINNED: Mutex<PinnedTables> = Mutex::new(Vec::new());

/// The feature table, pinned, and the report about it. Loaders of several splits in one process share one, which is
/// unpinned with the last of them.
fn pinned_once(
    context: &Arc<Context>,
    dataset: &Arc<Dataset>,
    options: &PinOptions,
) -> Result<(Arc<PinnedTable>, String), RuntimeError> {
    let path = dataset.path().canonicalize().unwrap_or_else(|_| dataset.path().to_owned());
    let key = (context.device().ordinal(), path, dataset.fingerprint());
    // Held while a table is pinned, so that a second caller finds it.
    let mut tables = PINNED.lock().unwrap_or_else(PoisonError::into_inner);
    tables.retain(|(_, table)| table.strong_count() > 0);
    if let Some(table) = tables.iter().find(|(known, _)| *known == key).and_then(|(_, table)| table.upgrade())
    {
        return Ok((table, "feature table: pinned already, by another loader of this process".to_owned()));
    }
    let table = Arc::new(PinnedTable::new(context, Arc::new(FeatureBytes(Arc::clone(dataset))), options)?);
    tables.push((key, Arc::downgrade(&table)));
    let how = pinned(table.report());
    Ok((table, how))
}

/// How the table was pinned and on which pages, as a line for a person.
fn pinned(report: &PinReport) -> String {
    let refused = report.refused.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let how = match report.how {
        PinHow::InPlaceReadOnly | PinHow::InPlace => "where it is mapped",
        PinHow::Copied => "in a copy",
        PinHow::Empty => "with nothing in it",
    };
    let pages = match (report.how, report.pages) {
        (PinHow::Empty, _) => String::new(),
        (_, None) => ", on pages of the page cache".to_owned(),
        (_, Some("hostalloc")) => ", on pages of the driver's".to_owned(),
        (_, Some(pages)) => format!(", {pages} pages"),
    };
    let given = report.huge_share.map(|share| format!(" ({:.0} % given)", share * 100.0)).unwrap_or_default();
    format!(
        "feature table: {:.2} GB pinned in {:.2} s {how}{refused}{pages}{given}",
        report.pinned_bytes as f64 * 1e-9,
        report.seconds
    )
}
