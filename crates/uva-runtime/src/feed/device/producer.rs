//! The producer's side of feature slots on a GPU.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Duration, Instant};

use uva_batch::{BatchHeader, BatchLayout, Column, Stage};
use uva_cuda::kernels::gather::{GatherKernels, GatherReport};
use uva_cuda::memory::{JoinedMemory, SharedBuffer};
use uva_cuda::{Module, ModuleOptions};
use uva_graph::{Dataset, NodeType};
use uva_mem::{FrozenBytes, ZeroedPages};
use uva_rows::cuda::{
    BroughtRows, DeviceCache, DeviceSource, Fill, HostMadeRows, HostPartialSums, SlotFiller, SlotPlace,
};
use uva_rows::{DiskReads, KeptRows, RowSource, SumBeginner};

use super::batches::DeviceBatches;
use super::direct::DirectHops;
use super::host_work::{
    EdgesOnHost, HostWork, RowsOnHost, feature_ranges, hop_runs, slot_sums, table_places,
};
use super::slots::{SlotSignals, TableFiles, slot_shape, stamp};
use super::sources::{DeviceParts, cache_on_gpu};
use crate::RuntimeError;
use crate::backend::CudaBackend;
use crate::backend::widening::narrow_float;
use crate::control::disk_counts::DiskCounts;
use crate::feed::hop_rows::parts;
use crate::feed::ranks::RankExchanges;
use crate::feed::rows::{
    ComingBatch, EdgeRowSource, HostParts, RowTree, begun_bytes, begun_room, failed, nodes_of,
};
use crate::plan::RunPlan;
use crate::sampler::lane::Lane;

/// Feature slots on a GPU for a producer to fill: shared already, while the table is not yet pinned.
pub(crate) struct DeviceSetup {
    pub lane: Lane,
    pub cuda: CudaBackend,
    pub slots: (Arc<SharedBuffer>, SlotSignals),
    /// Batches that stay on the device.
    pub batches: Option<Arc<DeviceBatches>>,
    /// The rows of the feature cache, if several GPUs already hold them.
    pub joined_rows: Option<Arc<JoinedMemory>>,
}

impl DeviceSetup {
    /// Pins the table and prepares all that batches need; this takes minutes for hundreds of gigabytes. `cached_rows`
    /// are the ids of the rows in the feature cache, if they do not change; `ranks` are the other ranks with rows of
    /// the table, if it is divided.
    pub fn open<'d>(
        self,
        plan: &'d RunPlan,
        dataset: &'d Arc<Dataset>,
        cached_rows: Option<&FrozenBytes>,
        ranks: Option<&RankExchanges>,
    ) -> Result<DeviceGather<'d>, RuntimeError> {
        let tree = RowTree::of(plan);
        let ids: Option<&[i64]> = cached_rows.map(|ids| bytemuck::cast_slice(ids.bytes()));
        let cached =
            |tree: &RowTree| matches!(tree, RowTree::Cached(..) | RowTree::Spliced(_) | RowTree::Begun(_));
        if plan.caches.rows > 0 && !tree.any(&cached) {
            return Err(tree.is_not("read through the cache of this run"));
        }
        let context = self.lane.context();
        let cache = match (tree.device_cache(), &self.joined_rows, ids) {
            (None, ..) => None,
            (Some(_), Some(memory), Some(ids)) => {
                let shape = (dataset.nodes(), dataset.table().row_bytes());
                Some(DeviceCache::joined(context, Arc::clone(memory), shape, ids)?)
            }
            (Some(kind), ..) => {
                let threads = plan.options.gather_threads;
                Some(cache_on_gpu(context, dataset, threads, kind, ids)?)
            }
        };
        let host =
            HostParts { ranks, ..HostParts::new(dataset, plan.options.gather_threads).with_chosen(ids) }
                .copying(&tree);
        DeviceGather::new(self, plan, dataset, &tree, host, cache)
    }
}

/// Gathers rows into feature slots on a GPU.
pub(crate) struct DeviceGather<'d> {
    filler: SlotFiller<Box<dyn DeviceSource + 'd>>,
    signals: SlotSignals,
    dataset: &'d Arc<Dataset>,
    batches: Option<Arc<DeviceBatches>>,
    tables: TableFiles,
    edges: Option<EdgesOnHost>,
    work: HostWork<'d>,
    /// Disk reads for the last batch's rows, made by the CPU or brought by the source.
    made: Cell<DiskCounts>,
    brought: Cell<DiskReads>,
    note: String,
}

impl<'d> DeviceGather<'d> {
    fn new(
        setup: DeviceSetup,
        plan: &'d RunPlan,
        dataset: &'d Arc<Dataset>,
        tree: &RowTree,
        host: HostParts<'d, '_>,
        cache: Option<DeviceCache>,
    ) -> Result<Self, RuntimeError> {
        let DeviceSetup { lane, cuda, slots: (buffer, signals), batches, .. } = setup;
        let (began, context) = (Instant::now(), lane.context());
        let options = ModuleOptions { nvrtc: cuda.nvrtc.clone(), ..ModuleOptions::default() };
        let kernels = GatherKernels::new(&Module::gather(context, &options)?)?;
        let compiled = began.elapsed();
        let ids = host.chosen.ids();
        let mut parts =
            DeviceParts { lane: &lane, cuda: &cuda, kernels: &kernels, dataset, plan, host, cache };
        let (source, mut how) = parts.source(tree)?;
        let (tables, set) = (parts.tables(tree)?, parts.table_set(tree)?);
        let work = match tree {
            RowTree::Upload(of) | RowTree::BySplit { others: of, .. } => made_of(&parts, of)?,
            RowTree::Tables(..) => {
                let (hops, tables) = parts.hops(tree)?;
                HostWork::Direct(Box::new(DirectHops::open(context, hops, tables, &buffer)?))
            }
            RowTree::Spliced(_) => HostWork::Spliced,
            RowTree::Begun(of) => {
                let kept = KeptRows::new(plan.table_rows, ids).map_err(failed)?;
                let beginner = SumBeginner::new(kept, begun_bytes(plan));
                HostWork::Begun(rows_on_host(&parts, of)?, Box::new(RefCell::new(beginner)))
            }
            _ => HostWork::None,
        };
        if let HostWork::Direct(direct) = &work {
            how = direct.note();
        } else if let Some((_, note)) = &tables {
            how.clone_from(note);
        } else if let Some((_, note)) = &set {
            how.clone_from(note);
        }
        let slots = buffer.bytes() as f64 * 1e-9;
        let (memory, by) = (buffer.kind().name(), signals.name());
        let seconds = compiled.as_secs_f64();
        let note = format!(
            "{how}; {slots:.2} GB of feature slots on the GPU ({memory}, {by}); kernels ready in {seconds:.2} s"
        );
        let (rows, made_bytes, cache) =
            (parts.rows_by_id(tree), parts.upload_bytes(tree), parts.cache.take());
        let mut filler = SlotFiller::new(lane.stream()?, kernels, source, buffer, slot_shape(plan))?;
        if let Some((tables, _)) = tables {
            filler = filler.with_tables(tables);
        }
        if let Some((set, _)) = set {
            filler = filler.with_set(set);
        }
        filler.reserve_room(plan.upload_bytes(batches.is_some()), rows)?;
        let narrow = narrow_float(Some(plan.layout.element()));
        match (tree, cache) {
            (RowTree::SummedOnDevice(_), _) => filler.sum_rows(rows, narrow, lane.grid())?,
            (RowTree::Begun(_), Some(cache)) => {
                filler.continue_sums(cache, begun_room(plan), narrow, lane.grid())?;
            }
            _ => {}
        }
        if let Some(bytes) = made_bytes {
            filler.reserve_made(bytes)?;
        }
        let threads = plan.options.gather_threads;
        let edges = EdgeRowSource::new(dataset, &plan.layout, threads)?;
        let edges = edges.map(|source| EdgesOnHost { source, rows: Vec::new(), threads });
        let (made, brought, tables) = (Cell::default(), Cell::default(), TableFiles::of(plan));
        Ok(Self { filler, signals, dataset, batches, tables, edges, work, made, brought, note })
    }

    /// Announces the batches to come.
    pub fn expect(&mut self, layout: &BatchLayout, coming: &[ComingBatch<'_>]) {
        match &mut self.work {
            HostWork::Rows(on_host) | HostWork::Begun(on_host, _) => {
                on_host.rows.get_mut().expect(layout, coming);
            }
            _ => self.filler.source_mut().expect(&nodes_of(layout, coming, NodeType::ONLY)),
        }
    }

    /// Sends the other ranks their requested rows, for a batch that they have and this rank does not.
    pub fn serve(&mut self) -> Result<(), RuntimeError> {
        match &mut self.work {
            HostWork::Rows(on_host) | HostWork::Begun(on_host, _) => on_host.rows.get_mut().serve(),
            _ => Ok(()),
        }
    }

    /// Whether this process makes or reads a batch's rows, or their replacements, while it fills a slot.
    pub fn works_on_host(&self) -> bool {
        !matches!(self.work, HostWork::None)
    }

    /// Disk reads for the last batch, which has `rows` rows.
    pub fn disk_reads(&self, rows: usize) -> DiskCounts {
        match self.work {
            HostWork::Direct(_) => DiskCounts::of_runs(self.brought.get(), rows),
            _ => self.made.get(),
        }
    }

    /// A line for people about its set-up.
    pub fn note(&self) -> &str {
        &self.note
    }

    /// Enqueues the upload of a batch's arrays and the gather of its rows into the slot of `sequence`, after the
    /// consumer's last use of it. `from` is the payload of batch slot `batch_slot`; it is not read after this returns.
    /// The CPU's own counts are written to the header.
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
        // In a slot's first generation there is no earlier use.
        let free = sequence.checked_sub(slots).map(|before| self.signals.free(slot, before)).transpose()?;
        let ready = self.signals.ready(slot, sequence)?;
        let layout = &plan.layout;
        let batches = self.batches.as_deref();
        // Training rows of a hop set may be on the GPU, by their places in the split.
        let of_tables = self.filler.tables().is_some() && header.key().split == uva_graph::Split::Train;
        let ids_in = layout.row_ids();
        let on_host = batches.is_none_or(|batches| batches.is_on_host(ids_in));
        // Rows that the CPU copies in runs are not read by id.
        let of_set = self.filler.set().map(|_| table_places(layout, header));
        let by_id = of_set.is_none() && layout.reads_rows_by_id();
        let ids: &[i64] = match on_host && (of_tables || by_id) {
            true => bytemuck::cast_slice(&from[layout.range(header, ids_in)]),
            false => &[],
        };
        let columns = batches.map(|batches| batches.columns(batch_slot, header)).unwrap_or_default();
        if let Some(edges) = &mut self.edges {
            edges.gather(layout, header, from)?;
        }
        let edges = self.edges.as_ref();
        let arrays: Vec<(usize, &[u8])> = layout
            .packed(header)
            .filter(|(place, _)| batches.is_none() || !place.key.column.spec().made_on_gpu)
            .map(|(place, to)| match place.key.column.spec().written_by {
                Stage::Sampler => (to.start, &from[place.used(header)]),
                Stage::Producer => (to.start, edges.map_or(&[][..], |edges| edges.of_column(place.key))),
            })
            .collect();
        let ranges = feature_ranges(layout, header);
        let begins: Vec<usize> = ranges.iter().map(|range| range.start).collect();
        self.forget_reads();
        let counts = Cell::new((0, 0));
        let make = |parts: &mut [&mut [u8]]| {
            let (hits, disk) = self.work.make(layout, header, from, parts)?;
            self.made.set(disk);
            counts.set((hits, 0));
            Ok(())
        };
        let beginner = match &self.work {
            HostWork::Begun(sums, beginner) => Some((sums, beginner)),
            _ => None,
        };
        let begin = |room: &mut [u8]| {
            let Some((sums, beginner)) = beginner else { unreachable!("called only where sums are begun") };
            let (mut rows, mut beginner) = (sums.rows.borrow_mut(), beginner.borrow_mut());
            let begun = rows.begin_sums(layout, header, sums.threads, from, (&mut beginner, room))?;
            counts.set((begun.kept, begun.row_bytes() as u64));
            Ok(begun)
        };
        let direct = match &self.work {
            HostWork::Direct(direct) => Some(direct),
            _ => None,
        };
        let runs = direct.map(|direct| hop_runs(direct.hops, layout, header, from));
        let place = SlotPlace {
            slot,
            arrays: &arrays,
            on_device: batches.map(|batches| batches.lent(batch_slot, header, &columns)),
            ids_at: layout.packed_range(header, ids_in).start,
            features_at: layout.packed_range(header, Column::X).start,
            sums: self.filler.sums_rows().then(|| slot_sums(layout, header)).flatten(),
            made: (self.work.makes_ranges() && !of_tables)
                .then_some(HostMadeRows { ranges: &ranges, make: &make }),
            begun: beginner.map(|_| HostPartialSums { begin: &begin }),
            brought: direct.zip(runs.as_deref()).map(|(direct, runs)| BroughtRows {
                by: &direct.runs,
                runs,
                ranges: &ranges,
                took: &self.brought,
            }),
            of_set: of_set.as_deref(),
            tables_at: of_tables.then_some(&begins[..]),
            stamp: stamp(sequence),
            after: free.as_deref(),
            ready: &*ready,
        };
        let read = self.filler.submit(ids, place)?.read();
        if matches!(self.work, HostWork::Spliced) {
            self.made.set(DiskCounts::of(&read));
            counts.set((read.hits(), 0));
        }
        let (hits, link_bytes) = counts.get();
        noted.set_rows_cached(hits);
        noted.set_link_bytes(link_bytes);
        Ok(())
    }

    /// Writes a batch that does not [fit](RunPlan::fits_slot) its slot on the GPU to `to`, in the form of the slot:
    /// report, arrays, and rows or sums. The CPU does all of this, and the device's slot does not change. `from` is as
    /// in [`fill`](Self::fill). Returns the number of bytes.
    pub fn fill_aside(
        &mut self,
        plan: &RunPlan,
        sequence: u64,
        noted: &mut BatchHeader,
        (batch_slot, from): (usize, &[u8]),
        to: &mut [u8],
    ) -> Result<usize, RuntimeError> {
        let header = &*noted;
        if matches!(self.work, HostWork::Direct(_)) {
            return Err(RuntimeError::failed(format!(
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
            to[range].copy_from_slice(match (place.key.column.spec().written_by, &self.edges) {
                (Stage::Sampler, _) => &from[place.used(header)],
                (Stage::Producer, edges) => {
                    edges.as_ref().map_or(&[][..], |edges| edges.of_column(place.key))
                }
            });
        }
        if matches!(self.work, HostWork::Hops(..)) {
            let ranges = feature_ranges(layout, header).into_iter();
            let (_, disk) = self.work.make(layout, header, from, &mut parts(to, ranges)).map_err(failed)?;
            self.made.set(disk);
            return Ok(layout.packed_bytes(header));
        }
        let ranges = feature_ranges(layout, header);
        let feature_bytes: usize = ranges.iter().map(ExactSizeIterator::len).sum();
        let to = (&mut *to, &ranges[..]);
        let read = match &mut self.work {
            // To which the batch was announced.
            HostWork::Rows(on_host) => {
                on_host.rows.get_mut().fill_ranges(layout, header, threads, from, to)?
            }
            _ => {
                let parts = HostParts::new(self.dataset, threads);
                let mut rows = RowTree::aside(plan).on_host(layout, &parts)?;
                rows.fill_ranges(layout, header, threads, from, to)?
            }
        };
        self.made.set(DiskCounts::of(&read));
        let bytes = layout.packed_bytes(header);
        noted.set_rows_cached(read.hits());
        // All bytes cross the link.
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

    /// Drops the slots without waiting: the consumer has ended, and the GPU may wait indefinitely for its events.
    pub fn abandon(self) {
        self.filler.abandon();
    }

    /// Returns an error if no work runs on the GPU any longer, as after the loss of its context.
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
            if let Some(bad) = fill.bad {
                return Err(self.tables.out_of_range(bad));
            }
            sum += Duration::from_nanos(fill.ended_ns.saturating_sub(fill.began_ns));
        }
        Ok(sum)
    }
}

/// The CPU's work in page-locked memory for the rows of this tree.
fn made_of<'d>(parts: &DeviceParts<'d, '_>, of: &RowTree) -> Result<HostWork<'d>, RuntimeError> {
    match of {
        RowTree::Upload(of) => made_of(parts, of),
        RowTree::Tables(..) => {
            let (hops, _) = parts.hops(of)?;
            Ok(HostWork::Hops(Box::new(RefCell::new(parts.hop_source(of)?)), hops))
        }
        of => Ok(HostWork::Rows(rows_on_host(parts, of)?)),
    }
}

fn rows_on_host<'d>(parts: &DeviceParts<'d, '_>, of: &RowTree) -> Result<RowsOnHost<'d>, RuntimeError> {
    let rows = of.on_host(&parts.plan.layout, &parts.host)?;
    Ok(RowsOnHost { rows: Box::new(RefCell::new(rows)), threads: parts.host.threads })
}
