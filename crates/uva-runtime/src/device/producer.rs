//! The producer's side of feature slots on a GPU.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use uva_batch::{Aggregation, BatchHeader, BatchLayout, Column, Stage};
use uva_cuda::kernels::gather::{GatherKernels, GatherReport};
use uva_cuda::memory::{JoinedMemory, PinHow, PinOptions, PinReport, PinnedTable, SharedBuffer};
use uva_cuda::{Context, Module, ModuleOptions};
use uva_graph::{Dataset, Hops};
use uva_mem::{FrozenBytes, ZeroedPages};
use uva_rows::cuda::{
    BegunOnHost, BroughtRows, DeviceCache, DeviceRows, DeviceSource, DeviceTable, DeviceTables, Fill,
    FillError, GridBound, Kernel, MadeOnHost, NoRows, Pinned, SlotFiller, SlotPlace, SlotSums, Spliced,
    Split, Staged,
};
use uva_rows::{Cached, DiskReads, GatherError, HostPlace, KeptRows, RowSource, SumBeginner};

use super::batches::DeviceBatches;
use super::direct::DirectHops;
use super::slots::{SlotSignals, out_of_range, slot_shape, stamp};
use crate::RuntimeError;
use crate::aggregate_counts::SumsMade;
use crate::backend::{CudaBackend, GatherChoice};
use crate::cache::Caches;
use crate::disk_counts::DiskCounts;
use crate::edge_rows::EdgeRows;
use crate::hop_rows::{parts, runs_at};
use crate::hop_source::HopSource;
use crate::host_rows::{FEATURES, FeatureBytes, HostRows, failed, owned_source};
use crate::lane::Lane;
use crate::plan::RunPlan;
use crate::ranks::Ranks;
use crate::rows_from::RowsFrom;
use crate::widening::narrow_float;

/// Feature slots on a GPU for a producer to fill: shared already, while the table is not yet pinned.
pub(crate) struct DeviceSetup {
    pub lane: Lane,
    pub cuda: CudaBackend,
    pub slots: (Arc<SharedBuffer>, SlotSignals),
    /// Batches that come on the device.
    pub batches: Option<Arc<DeviceBatches>>,
    /// The rows of the feature cache, where several GPUs hold them already.
    pub joined_rows: Option<Arc<JoinedMemory>>,
}

impl DeviceSetup {
    /// Pins the table and prepares all that batches need; this takes minutes for hundreds of gigabytes. `cached_rows`
    /// are the ids of the rows in the feature cache, if it holds the same ones throughout; `ranks` the others that have rows
    /// of the table, where it is divided.
    pub fn open<'d>(
        self,
        plan: &'d RunPlan,
        dataset: &'d Arc<Dataset>,
        cached_rows: Option<&FrozenBytes>,
        ranks: Option<&Ranks>,
    ) -> Result<DeviceGather<'d>, RuntimeError> {
        let threads = plan.options.gather_threads;
        let context = self.lane.context();
        let cache = match (&self.joined_rows, cached_rows) {
            _ if plan.caches.are_before_disk() || plan.splices() => None,
            (Some(memory), Some(ids)) => {
                let shape = (dataset.features().rows, dataset.features().row_bytes());
                let ids = bytemuck::cast_slice(ids.bytes());
                Some(DeviceCache::joined(context, Arc::clone(memory), shape, ids)?)
            }
            _ => cache_on_gpu(context, dataset, threads, &plan.caches, cached_rows)?,
        };
        DeviceGather::new(self, plan, dataset, (cache, cached_rows), ranks)
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
    /// What the CPU makes, where the source's rows are not read.
    on_host: Option<OnHost<'d>>,
    /// What brings the rows of a hop set from its files.
    direct: Option<DirectHops<'d>>,
    /// Whether the CPU brings those rows that a cache on the GPU has not, and so knows which hit.
    splices: bool,
    /// What the last batch's rows took from disk: those that the CPU made, and those that were brought.
    made: Cell<DiskCounts>,
    brought: Cell<DiskReads>,
    note: String,
}

/// Who makes a batch's rows on the CPU, or what it has in their place.
enum OnHost<'d> {
    /// Rows of a table, or own rows and sums, made or begun.
    Rows(Box<RowsOnHost<'d>>),
    /// Rows of a hop set.
    Hops(Box<RefCell<HopSource<'d>>>, Hops<'d>),
}

/// Rows on their way, or own rows and sums, made by the CPU.
struct RowsOnHost<'d> {
    /// Lent to the closure that a fill calls once.
    rows: RefCell<HostRows<'d>>,
    /// Where a cache on the GPU has some of the rows, with which a kernel continues the sums.
    beginner: Option<RefCell<SumBeginner>>,
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
        plan: &'d RunPlan,
        dataset: &'d Arc<Dataset>,
        (mut cache, cached_rows): (Option<DeviceCache>, Option<&FrozenBytes>),
        ranks: Option<&Ranks>,
    ) -> Result<Self, RuntimeError> {
        let begins = plan.sums_made() == SumsMade::HostAndCache;
        let kept = cache.take_if(|_| begins);
        let DeviceSetup { lane, cuda, slots: (buffer, signals), batches, .. } = setup;
        let (began, context) = (Instant::now(), lane.context());
        let options = ModuleOptions { nvrtc: cuda.nvrtc.clone(), ..ModuleOptions::default() };
        let kernels = GatherKernels::new(&Module::gather(context, &options)?)?;
        let compiled = began.elapsed();
        let of_hops = dataset.hops().zip(plan.options.hops.as_ref());
        let what = format!("the feature table {}", dataset.path().join("feat.npy").display());
        let (multiprocessors, bound) = (lane.multiprocessors(), lane.grid());
        let (threads, row_bytes) = (plan.options.gather_threads, plan.layout.row_bytes());
        // A table that only the CPU reads need not be pinned.
        let by_copies = || -> Result<_, RuntimeError> {
            Ok(Staged::new(context, owned_source(dataset, (threads, RowsFrom::Memory))?)?)
        };
        let (source, how): (Box<dyn DeviceSource>, String) = match cuda.gather {
            // It has no rows: those of hops are made on the host, come from files, or lie in tables of the filler's.
            _ if plan.reads_by_cufile() => (Box::new(NoRows), String::new()),
            _ if of_hops.is_some() => {
                (Box::new(NoRows), "rows of hops: the CPU copies them to pinned memory".to_owned())
            }
            _ if plan.divided => {
                (Box::new(NoRows), "feature rows: the CPU gets them from this and other ranks".to_owned())
            }
            // `Auto` is never granted; it would be this.
            GatherChoice::ZeroCopy | GatherChoice::Auto => {
                let (table, how) = pinned_once(context, dataset, &cuda.pin_table_options(&what))?;
                (zero_copy(&kernels, table, row_bytes, cuda.kernel, multiprocessors, cache)?, how)
            }
            GatherChoice::Dma if plan.splices() => {
                let ids = cached_rows.map(|ids| bytemuck::cast_slice(ids.bytes()));
                let mut ids: Vec<i64> = ids.unwrap_or_default().to_vec();
                if plan.reads_table_from_disk() {
                    // One pass over the file, as in `chosen_rows`.
                    ids.sort_unstable();
                }
                let rows = owned_source(dataset, (threads, plan.rows_from()))?;
                let spliced = Spliced::new(context, rows, &ids, (cuda.kernel, bound))?;
                let how = format!("{}, beside {} rows on the GPU", read_by_cpu(plan), ids.len());
                (Box::new(spliced), how)
            }
            // Other gathers read no cached rows: `planning::cacheable`.
            _ if cache.is_some() => {
                return Err(RuntimeError::Failed(
                    "rows can be cached for zero-copy, for copies, and for sums that the CPU begins"
                        .to_owned(),
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
            GatherChoice::Dma | GatherChoice::Cpu => (Box::new(by_copies()?), read_by_cpu(plan)),
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
        let (tables, how) = match of_hops {
            Some((hops, batches)) if cuda.gather == GatherChoice::Device => {
                let began = Instant::now();
                let rows = HopSource::new(hops, &batches.tables, (threads, plan.options.rows_from()))?;
                let tables = training_rows(context, hops, rows, batches.tables.len(), (cuda.kernel, bound))?;
                let (gigabytes, seconds) = (tables.bytes() as f64 * 1e-9, began.elapsed().as_secs_f64());
                let how = format!("training rows: {gigabytes:.2} GB copied to the GPU in {seconds:.2} s");
                (Some(tables), how)
            }
            _ => (None, how),
        };
        let direct = match of_hops {
            Some((hops, batches)) if plan.reads_by_cufile() => {
                Some(DirectHops::open(context, hops, &batches.tables, &buffer)?)
            }
            _ => None,
        };
        let how = direct.as_ref().map_or(how, DirectHops::note);
        let slots = buffer.bytes() as f64 * 1e-9;
        let (memory, by) = (buffer.kind().name(), signals.name());
        let seconds = compiled.as_secs_f64();
        let note = format!(
            "{how}; {slots:.2} GB of feature slots on the GPU ({memory}, {by}); kernels ready in {seconds:.2} s"
        );
        let mut filler = SlotFiller::new(lane.stream()?, kernels, source, buffer, slot_shape(plan))?;
        if let Some(tables) = tables {
            filler = filler.with_tables(tables);
        }
        // Of a hop set and of a divided table the source has no rows.
        let rows = if of_hops.is_some() || plan.divided { 0 } else { plan.slot_room().nodes };
        filler.reserve_room(plan.upload_bytes(batches.is_some()), rows)?;
        if let Some(rows) = plan.summed_rows() {
            filler.sum_rows(rows, narrow_float(Some(plan.layout.element())), bound)?;
        }
        let mut beginner = None;
        if let (Some(cache), Some(room), Some(ids)) = (kept, plan.begun_room(), cached_rows) {
            filler.continue_sums(cache, room, narrow_float(Some(plan.layout.element())), bound)?;
            let kept = KeptRows::new(plan.table_rows, bytemuck::cast_slice(ids.bytes()));
            beginner = Some(RefCell::new(SumBeginner::new(kept.map_err(failed)?, plan.begun_bytes())));
        } else if let Some(bytes) = plan.made_bytes() {
            filler.reserve_made(bytes)?;
        }
        let on_host = match of_hops {
            _ if beginner.is_none() && plan.made_bytes().is_none() => None,
            Some((hops, batches)) => {
                let rows = HopSource::new(hops, &batches.tables, (threads, plan.options.rows_from()))?;
                Some(OnHost::Hops(Box::new(RefCell::new(rows)), hops))
            }
            None => {
                let by = (threads, plan.rows_from());
                let (caches, ids) = match plan.caches.are_before_disk() {
                    true => (&plan.caches, cached_rows),
                    false => (&Caches::default(), None),
                };
                let rows = match ranks {
                    Some(ranks) => HostRows::divided(dataset, &plan.layout, threads, ranks)?,
                    None => HostRows::new(dataset, &plan.layout, by, caches, ids)?,
                };
                Some(OnHost::Rows(Box::new(RowsOnHost { rows: RefCell::new(rows), beginner, threads })))
            }
        };
        let edges = EdgeRows::new(dataset, &plan.layout, threads)?;
        let edges = edges.map(|source| EdgesOnHost { source, rows: Vec::new(), threads });
        let (made, brought, rows) = (Cell::default(), Cell::default(), plan.table_rows);
        Ok(Self {
            filler,
            signals,
            dataset,
            batches,
            rows,
            edges,
            on_host,
            direct,
            splices: plan.splices(),
            made,
            brought,
            note,
        })
    }

    /// Says which nodes' rows the batches to come will ask for.
    pub fn expect(&mut self, coming: &[&[i64]]) {
        match &mut self.on_host {
            Some(OnHost::Rows(rows)) => rows.rows.get_mut().expect(coming),
            _ => self.filler.source_mut().expect(coming),
        }
    }

    /// Gives the other ranks the rows that they want, for a batch that they have and this rank does not.
    pub fn serve(&mut self) -> Result<(), RuntimeError> {
        match &mut self.on_host {
            Some(OnHost::Rows(rows)) => rows.rows.get_mut().serve(),
            _ => Ok(()),
        }
    }

    /// Whether this process makes or reads the rows that a batch has, or what it has in their place, while it fills a slot.
    pub fn works_on_host(&self) -> bool {
        self.on_host.is_some() || self.direct.is_some() || self.splices
    }

    /// What the rows of the last batch, which has so many, took from disk.
    pub fn disk_reads(&self, rows: usize) -> DiskCounts {
        match self.direct {
            Some(_) => DiskCounts::of_runs(self.brought.get(), rows),
            None => self.made.get(),
        }
    }

    /// A line for people about its set-up.
    pub fn note(&self) -> &str {
        &self.note
    }

    /// Enqueues the upload of a batch's arrays and the gather of its rows into the slot of `sequence`, after the
    /// consumer's last use of it. `from` is the payload of batch slot `batch_slot`; it is not read after this returns. The
    /// header gets what the CPU alone knows.
    pub fn fill(
        &mut self,
        plan: &RunPlan,
        sequence: u64,
        noted: &mut BatchHeader,
        (batch_slot, from): (usize, &[u8]),
    ) -> Result<(), RuntimeError> {
        let header = &*noted;
        let slots = plan.options.feature_slots as u64;
        let slot = (sequence % slots) as usize;
        // In a slot's first generation there is nothing to wait for.
        let free = sequence.checked_sub(slots).map(|before| self.signals.free(slot, before)).transpose()?;
        let ready = self.signals.ready(slot, sequence)?;
        let layout = &plan.layout;
        let batches = self.batches.as_deref();
        // Training rows of a hop set may be on the GPU, by their places in the split.
        let of_tables = self.filler.tables().is_some() && header.key().split == uva_graph::Split::Train;
        let ids_in = if layout.is_of_hops() { Column::InputId } else { Column::InputNodes };
        let on_host = batches.is_none_or(|batches| batches.is_on_host(Column::InputNodes));
        let ids: &[i64] = match on_host && (of_tables || !layout.is_of_hops()) {
            true => bytemuck::cast_slice(&from[layout.range(header, ids_in, 0)]),
            // No rows are read by them.
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
        let ranges = feature_ranges(layout, header);
        let begins: Vec<usize> = ranges.iter().map(|range| range.start).collect();
        self.forget_reads();
        let counts = Cell::new((0, 0));
        let make = |parts: &mut [&mut [u8]]| {
            let Some(rows) = &self.on_host else { return Ok(()) };
            let (hits, disk) = rows.make(layout, header, from, parts)?;
            self.made.set(disk);
            counts.set((hits, 0));
            Ok(())
        };
        let beginner = match &self.on_host {
            Some(OnHost::Rows(sums)) => sums.beginner.as_ref().map(|beginner| (sums, beginner)),
            _ => None,
        };
        let begin = |room: &mut [u8]| {
            let Some((sums, beginner)) = beginner else { unreachable!("asked for where sums are begun") };
            let (mut rows, mut beginner) = (sums.rows.borrow_mut(), beginner.borrow_mut());
            let begun = rows.begin_sums(layout, header, sums.threads, from, (&mut beginner, room))?;
            counts.set((begun.kept, begun.row_bytes() as u64));
            Ok(begun)
        };
        let runs = self.direct.as_ref().map(|direct| hop_runs(direct.hops, layout, header, from));
        let place = SlotPlace {
            slot,
            arrays: &arrays,
            on_device: batches.map(|batches| batches.lent(batch_slot, header, &columns)),
            ids_at: layout.packed_range(header, ids_in, 0).start,
            features_at: layout.packed_range(header, Column::X, 0).start,
            sums: self.filler.sums_rows().then(|| slot_sums(layout, header)).flatten(),
            made: (self.on_host.is_some() && beginner.is_none() && !of_tables)
                .then_some(MadeOnHost { ranges: &ranges, make: &make }),
            begun: beginner.map(|_| BegunOnHost { begin: &begin }),
            brought: self.direct.as_ref().zip(runs.as_deref()).map(|(direct, runs)| BroughtRows {
                by: &direct.runs,
                runs,
                ranges: &ranges,
                took: &self.brought,
            }),
            tables_at: of_tables.then_some(&begins[..]),
            stamp: stamp(sequence),
            after: free.as_deref(),
            ready: &*ready,
        };
        let read = self.filler.submit(ids, place)?.read();
        if self.splices {
            self.made.set(DiskCounts::of(&read));
            counts.set((read.hits(), 0));
        }
        let (hits, link_bytes) = counts.get();
        noted.set_rows_cached(hits);
        noted.set_link_bytes(link_bytes);
        Ok(())
    }

    /// Writes the batch to `to` as it would lie in a slot on the GPU, where it has no [room](RunPlan::fits_slot):
    /// report, arrays, and rows or sums. The CPU does all of it, and the device's slot is left as it is. `from` as in
    /// [`fill`](Self::fill). Returns how many bytes that are.
    pub fn fill_aside(
        &mut self,
        plan: &RunPlan,
        sequence: u64,
        noted: &mut BatchHeader,
        (batch_slot, from): (usize, &[u8]),
        to: &mut [u8],
    ) -> Result<usize, RuntimeError> {
        let header = &*noted;
        if self.direct.is_some() {
            return Err(RuntimeError::Failed(format!(
                "a batch of {} rows has no room in a slot for which cuFile reads",
                header.nodes()
            )));
        }
        self.forget_reads();
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
        if let Some(rows @ OnHost::Hops(..)) = &self.on_host {
            let ranges = feature_ranges(layout, header).into_iter();
            let (_, disk) = rows.make(layout, header, from, &mut parts(to, ranges)).map_err(failed)?;
            self.made.set(disk);
            return Ok(layout.packed_bytes(header));
        }
        let ranges = FEATURES.map(|column| layout.packed_range(header, column, 0));
        let feature_bytes: usize = ranges.iter().map(ExactSizeIterator::len).sum();
        let to = (&mut *to, ranges);
        let read = match &mut self.on_host {
            // Those that were expected to make it.
            Some(OnHost::Rows(rows)) if rows.beginner.is_none() => {
                rows.rows.get_mut().fill_ranges(layout, header, threads, from, to)?
            }
            _ => {
                let by = (threads, plan.options.rows_from());
                let mut rows = HostRows::behind(self.dataset, layout, by, None)?;
                rows.fill_ranges(layout, header, threads, from, to)?
            }
        };
        self.made.set(DiskCounts::of(&read));
        let bytes = layout.packed_bytes(header);
        noted.set_rows_cached(read.hits());
        // All of it crosses the link.
        noted.set_link_bytes(feature_bytes as u64);
        Ok(bytes)
    }

    fn forget_reads(&self) {
        self.made.take();
        self.brought.take();
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

/// How rows come that the CPU reads, for people.
fn read_by_cpu(plan: &RunPlan) -> String {
    let from = if plan.reads_table_from_disk() { " from disk" } else { "" };
    format!("feature table: not pinned, the CPU reads it{from}")
}

/// Copies the training rows of so many tables of a hop set to the GPU.
fn training_rows(
    context: &Arc<Context>,
    hops: Hops<'_>,
    mut source: HopSource<'_>,
    tables: usize,
    by: (Kernel, GridBound),
) -> Result<DeviceTables, RuntimeError> {
    let train = hops.rows_of(uva_graph::Split::Train);
    let mut read = |rows: Range<usize>, parts: &mut [&mut [u8]]| {
        let rows = train.start + rows.start..train.start + rows.end;
        source.gather(&[rows], parts).map(drop)
    };
    let what = "the training rows of the hop set (--place host reads them from host memory)";
    Ok(DeviceTables::new(context, (tables, train.len(), hops.row_bytes()), by, what, &mut read)?)
}

/// The bytes of a slot that the rows of the batch of this header take, or what it has in their place: of a hop set, a range
/// for each table.
fn feature_ranges(layout: &BatchLayout, header: &BatchHeader) -> Vec<Range<usize>> {
    match layout.is_of_hops() {
        true => (0..layout.tables()).map(|table| layout.packed_range(header, Column::X, table)).collect(),
        false => FEATURES.map(|column| layout.packed_range(header, column, 0)).to_vec(),
    }
}

impl OnHost<'_> {
    /// Makes the rows of the batch of this header in the parts of [`feature_ranges`]. `from` is its batch slot's payload.
    /// Returns how many hit a cache, and what they took from disk.
    fn make(
        &self,
        layout: &BatchLayout,
        header: &BatchHeader,
        from: &[u8],
        parts: &mut [&mut [u8]],
    ) -> Result<(u64, DiskCounts), GatherError> {
        match self {
            Self::Rows(on_host) => {
                let [x, aggregated, argmax] = parts else { return Ok((0, DiskCounts::default())) };
                let mut rows = on_host.rows.borrow_mut();
                let read =
                    rows.fill_columns(layout, header, on_host.threads, from, [x, aggregated, argmax])?;
                Ok((read.hits(), DiskCounts::of(&read)))
            }
            Self::Hops(rows, hops) => {
                let read = rows.borrow_mut().gather(&hop_runs(*hops, layout, header, from), parts)?;
                Ok((0, DiskCounts::of_runs(read, header.nodes())))
            }
        }
    }
}

/// The runs of a hop set's rows that the batch of this header has. `from` is its batch slot's payload.
fn hop_runs(hops: Hops<'_>, layout: &BatchLayout, header: &BatchHeader, from: &[u8]) -> Vec<Range<usize>> {
    let places = bytemuck::cast_slice(&from[layout.range(header, Column::InputId, 0)]);
    runs_at(places, hops.rows_of(header.key().split).start)
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
