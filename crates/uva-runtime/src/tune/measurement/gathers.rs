//! The measured gathers: a run's own sources over a sample of its table, through slots on the GPU.

use std::sync::Arc;
use std::time::Instant;

use uva_cuda::kernels::gather::{BadId, GatherKernels, GatherReport};
use uva_cuda::memory::{
    IpcKind, PinOptions, PinPages, PinnedTable, PreflightPolicy, SharedBuffer, TableBytes,
};
use uva_cuda::{Context, CudaEvent, CudaStream, Module, ModuleOptions};
use uva_graph::Dataset;
use uva_mem::mix;
use uva_rows::cuda::{
    DeviceSource, GridBound, Pinned, SlotFiller, SlotPlace, SlotShape, SplitSource, StagingSource,
};
use uva_rows::{MappedTable, RowSource};

use super::figures::{Case, Figure, Figures, MeasurementShape};
use super::settle::measured_table;
use super::timetable::{self, CaseFailure, Gathers};
use super::verdict::fair_share;
use crate::RuntimeError;
use crate::backend::{CudaBackend, GatherChoice};

/// Maximum bytes of a copy. A larger copy would exceed the time of all cases.
const MOST_COPIED: usize = 256 << 20;

/// Maximum bytes of a gather. The gain of an order of its rows depends on their number.
const MOST_BYTES: usize = 128 << 20;

/// Slots, as a run has by default.
const SLOTS: usize = 2;

const ALIGNMENT: usize = 128;

/// Measures gathers of rows of this dataset on that GPU.
///
/// # Errors
/// [`RuntimeError::Input`] for a table without rows; errors of the GPU.
pub fn measure(
    dataset: &Arc<Dataset>,
    gather_threads: usize,
    cuda: &CudaBackend,
) -> Result<Figures, RuntimeError> {
    let context = Context::primary(cuda.ordinal)?;
    let options = ModuleOptions { nvrtc: cuda.nvrtc.clone(), ..ModuleOptions::default() };
    let kernels = GatherKernels::new(&Module::gather(&context, &options)?)?;
    let (table, row_bytes) =
        measured_table(dataset).map_or((0, 0), |table| (table.bytes.len(), table.row_bytes()));
    let shape = MeasurementShape::new(table, row_bytes, cuda.kernel, gather_threads);
    let began = Instant::now();
    let multiprocessors = context.device().multiprocessors();
    let mut on_gpu = OnGpu::new(context, kernels, dataset, shape, cuda.preflight)?;
    let cases = timetable::cases(multiprocessors);
    let cases = timetable::run(&cases, &mut on_gpu, &mut || began.elapsed())
        .map_err(|error| RuntimeError::failed(format!("measuring gathers: {error}")))?;
    let sample_bytes = on_gpu.sample.length as u64;
    let seconds = began.elapsed().as_secs_f64();
    Ok(Figures { shape, multiprocessors, sample_bytes, seconds, cases })
}

/// The first rows of the measured table.
#[derive(Clone)]
struct Sample {
    dataset: Arc<Dataset>,
    length: usize,
}

impl TableBytes for Sample {
    fn bytes(&self) -> &[u8] {
        measured_table(&self.dataset).map_or(&[], |table| &table.bytes[..self.length])
    }
}

struct OnGpu {
    context: Arc<Context>,
    kernels: GatherKernels,
    shape: MeasurementShape,
    sample: Sample,
    preflight: PreflightPolicy,
    buffer: Arc<SharedBuffer>,
    slots: SlotShape,
    ids_at: usize,
    features_at: usize,
    most_rows: usize,
    /// The sample in its mapped pages, pinned with the first case that reads it.
    in_place: Option<Arc<PinnedTable>>,
    prepared: Option<Filling>,
    ids: Vec<i64>,
    stamp: u64,
}

impl OnGpu {
    fn new(
        context: Arc<Context>,
        kernels: GatherKernels,
        dataset: &Arc<Dataset>,
        shape: MeasurementShape,
        preflight: PreflightPolicy,
    ) -> Result<Self, RuntimeError> {
        let row_bytes = shape.row_bytes;
        let table = measured_table(dataset).map_or(0, |table| table.bytes.len());
        let length = MeasurementShape::sample(table, row_bytes);
        if length == 0 {
            return Err(RuntimeError::input("the feature table has no rows to measure with"));
        }
        let sample = Sample { dataset: Arc::clone(dataset), length };
        // No more rows than the table has: the slots of a small one stay small.
        let most_rows = (MOST_BYTES / row_bytes).min(length / row_bytes).max(1);
        // The report comes first: a fill sends it and the ids by one copy.
        let ids_at = GatherReport::BYTES.next_multiple_of(ALIGNMENT);
        let features_at = (ids_at + most_rows * 8).next_multiple_of(ALIGNMENT);
        let stride = (features_at + most_rows * row_bytes).next_multiple_of(ALIGNMENT);
        let buffer =
            SharedBuffer::create(&context, SLOTS * stride, IpcKind::Auto, "the gathers that are measured")?;
        Ok(Self {
            context,
            kernels,
            shape,
            sample,
            preflight,
            buffer: Arc::new(buffer),
            slots: SlotShape { slots: SLOTS, stride },
            ids_at,
            features_at,
            most_rows,
            in_place: None,
            prepared: None,
            ids: Vec::new(),
            stamp: 0,
        })
    }

    /// The sample on these pages.
    fn pinned(&mut self, pages: PinPages) -> Result<Arc<PinnedTable>, CaseFailure> {
        if let (PinPages::InPlace, Some(table)) = (pages, &self.in_place) {
            return Ok(Arc::clone(table));
        }
        if pages != PinPages::InPlace && self.sample.length > MOST_COPIED {
            let wanted =
                format!("a copy of {} MiB takes longer than measuring may", self.sample.length >> 20);
            return Err(format!("{wanted}; `table_pages={pages}` reads one").into());
        }
        let options = PinOptions {
            what: "a sample of the feature table".to_owned(),
            pages,
            others: false,
            preflight: self.preflight,
            ..PinOptions::default()
        };
        let table = Arc::new(PinnedTable::new(&self.context, Arc::new(self.sample.clone()), &options)?);
        if pages == PinPages::InPlace {
            self.in_place = Some(Arc::clone(&table));
        }
        Ok(table)
    }

    fn kernel_reads(&mut self, case: &Case) -> Result<Pinned, CaseFailure> {
        let table = self.pinned(case.pages)?;
        let bound = case.multiprocessors.map_or(GridBound::Device, GridBound::Multiprocessors);
        Ok(Pinned::new(self.kernels.clone(), table, self.shape.row_bytes, self.shape.kernel, bound)?)
    }

    fn copies(&self) -> Result<StagingSource<MappedTable<'static>>, CaseFailure> {
        let MeasurementShape { row_bytes, gather_threads, .. } = self.shape;
        let table = MappedTable::owned(Arc::new(self.sample.clone()), row_bytes, gather_threads)?;
        Ok(StagingSource::new(&self.context, table)?)
    }

    fn filling(&self, source: Box<dyn DeviceSource>) -> Result<Filling, CaseFailure> {
        let stream = CudaStream::new(&self.context)?;
        let buffer = Arc::clone(&self.buffer);
        let mut filler = SlotFiller::new(stream, self.kernels.clone(), source, buffer, self.slots)?;
        filler.reserve_room(self.features_at, self.most_rows)?;
        let ready = CudaEvent::local(&self.context)?;
        let (ids_at, features_at) = (self.ids_at, self.features_at);
        Ok(Filling { filler, ready, ids_at, features_at, split_share: None })
    }
}

impl Gathers for OnGpu {
    fn prepare(&mut self, case: &Case, so_far: &[Figure]) -> Result<(), CaseFailure> {
        // The last case's pages are freed first.
        self.prepared = None;
        let source: Box<dyn DeviceSource> = match case.gather {
            GatherChoice::Dma => Box::new(self.copies()?),
            GatherChoice::Split => {
                let mut split = SplitSource::new(self.kernel_reads(case)?, self.copies()?)?;
                if let Some(share) = fair_share(so_far) {
                    split.set_share(share);
                }
                Box::new(split)
            }
            _ => Box::new(self.kernel_reads(case)?),
        };
        self.prepared = Some(self.filling(source)?);
        Ok(())
    }

    fn most_rows(&self) -> usize {
        self.most_rows
    }

    fn gather(&mut self, rows: usize, times: u32) -> Result<u64, CaseFailure> {
        let Self { prepared, ids, sample, shape, stamp, .. } = self;
        let prepared = prepared.as_mut().ok_or("nothing is prepared")?;
        let table_rows = (sample.length / shape.row_bytes) as u64;
        for _ in 0..times {
            *stamp += 1;
            ids.clear();
            // Uniform, and other rows each time: a product's upper half maps a random word to a row.
            let first = stamp.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let word = |position: u64| u128::from(mix(first.wrapping_add(position)));
            ids.extend(
                (0..rows as u64).map(|position| ((word(position) * u128::from(table_rows)) >> 64) as i64),
            );
            prepared.submit(ids, *stamp as usize % SLOTS, *stamp)?;
        }
        prepared.drain()?;
        Ok(u64::from(times) * (rows * shape.row_bytes) as u64)
    }

    fn split_share(&self) -> Option<f64> {
        self.prepared.as_ref()?.split_share
    }
}

/// Slots being filled from a source.
struct Filling {
    filler: SlotFiller<Box<dyn DeviceSource>>,
    ready: CudaEvent,
    ids_at: usize,
    features_at: usize,
    /// The share of the last fill in which both ways had a part.
    split_share: Option<f64>,
}

impl Filling {
    fn submit(&mut self, ids: &[i64], slot: usize, stamp: u64) -> Result<(), CaseFailure> {
        let place = SlotPlace {
            slot,
            arrays: &[(self.ids_at, bytemuck::cast_slice(ids))],
            on_device: None,
            ids_at: self.ids_at,
            features_at: self.features_at,
            sums: None,
            made: None,
            brought: None,
            tables_at: None,
            of_set: None,
            begun: None,
            stamp,
            after: None,
            ready: &self.ready,
        };
        self.filler.submit(ids, place)?;
        Ok(())
    }

    fn drain(&mut self) -> Result<(), CaseFailure> {
        for fill in self.filler.drain()? {
            if let Some(BadId { position, id, .. }) = fill.bad {
                return Err(format!("the kernel found no row {id} (position {position})").into());
            }
            let by_kernel = fill.by_kernel();
            if (1..fill.rows).contains(&by_kernel) {
                self.split_share = Some(by_kernel as f64 / fill.rows as f64);
            }
        }
        Ok(())
    }
}
