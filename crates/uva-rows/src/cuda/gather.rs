//! The gather on a GPU behind the contract of every backend: synchronous, for checks and benches.

use std::sync::Arc;

use uva_cuda::kernels::cache::CacheInsertion;
use uva_cuda::kernels::gather::{GatherArguments, GatherKernels, GatherReport, GridBound, IdWidth, Kernel};
use uva_cuda::memory::{DeviceBuffer, PinnedBuffer, PinnedTable, device_to_host, host_to_device};
use uva_cuda::{Context, CudaError, Stream};

use crate::cuda::cache::{DeviceCache, write_insertions};
use crate::host::RowId;
use crate::{GatherError, Hits, RowGather};

/// Gathers rows of a pinned table by a kernel into device memory, and copies them from there.
///
/// An id that is no row is found by the kernel; then nothing is copied, so the output is untouched.
#[derive(Debug)]
pub struct CudaGather {
    kernels: GatherKernels,
    kernel: Kernel,
    bound: GridBound,
    stream: Stream,
    row_bytes: usize,
    rows: usize,
    /// Grown when more is asked for than before.
    ids: DeviceBuffer,
    out: DeviceBuffer,
    report: DeviceBuffer,
    report_host: PinnedBuffer,
    cache: Option<DeviceCache>,
    /// What a FIFO cache takes in. Grown as the others.
    insertions: PinnedBuffer,
    hits: Hits,
    /// Last: unpinned only after the stream is gone, and `gather` leaves nothing running on it.
    table: Arc<PinnedTable>,
}

impl CudaGather {
    /// A gather from `table`, rows of `row_bytes` bytes (at least 1) without gaps, by that kernel on as many
    /// multiprocessors as `bound` says.
    ///
    /// # Errors
    /// [`CudaError::Refused`] unless the table is whole rows; what making a stream and small buffers says.
    pub fn new(
        kernels: GatherKernels,
        table: Arc<PinnedTable>,
        row_bytes: usize,
        kernel: Kernel,
        bound: GridBound,
    ) -> Result<Self, CudaError> {
        if row_bytes == 0 || !table.bytes().is_multiple_of(row_bytes) {
            let error = GatherError::TableLength { length: table.bytes(), row_bytes };
            return Err(CudaError::Refused(error.to_string()));
        }
        let context: &Arc<Context> = table.context();
        Ok(Self {
            kernels,
            kernel,
            bound,
            stream: Stream::new(context)?,
            row_bytes,
            rows: table.bytes() / row_bytes,
            ids: DeviceBuffer::new(context, 0, "the ids of a gather")?,
            out: DeviceBuffer::new(context, 0, "the rows of a gather")?,
            report: DeviceBuffer::new(context, GatherReport::BYTES, "the report of a gather")?,
            report_host: PinnedBuffer::new(context, GatherReport::BYTES, "the report of a gather")?,
            cache: None,
            insertions: PinnedBuffer::new(context, 0, "what a cache takes in")?,
            hits: Hits::default(),
            table,
        })
    }

    /// Reads cached rows from the device from now on. What is gathered stays the same, byte for byte. Counts begin
    /// anew. A FIFO cache is let go of when the device fails: what it holds is not known then.
    ///
    /// # Errors
    /// [`GatherError::OtherTable`] for a cache of another number of rows, or of rows of another size;
    /// [`GatherError::Device`] for one on another device.
    pub fn with_cache(mut self, cache: DeviceCache) -> Result<Self, GatherError> {
        cache.check(self.table.context(), self.rows, self.row_bytes)?;
        self.cache = Some(cache);
        self.hits = Hits::default();
        Ok(self)
    }

    fn gather_ids<I: RowId>(&mut self, ids: &[I], width: IdWidth, out: &mut [u8]) -> Result<(), GatherError> {
        let count = ids.len();
        let row_bytes = self.row_bytes;
        if count.checked_mul(row_bytes) != Some(out.len()) {
            return Err(GatherError::OutputLength { ids: count, row_bytes, length: out.len() });
        }
        let report = match self.gather_on_device(ids, width, out.len()) {
            Ok(report) => report,
            Err(error) => return Err(self.failed(error)),
        };
        if let Some((position, id)) = report.bad() {
            return Err(GatherError::IdOutOfRange { position: position as usize, id, rows: self.rows });
        }
        // SAFETY: the rows were gathered and waited for, as many bytes as `out` has, and the copy is waited for before
        // the borrow ends (also where it fails: the synchronisation below comes first).
        let copied = unsafe { device_to_host(&self.stream, self.out.address(), out) };
        let waited = self.stream.synchronize();
        copied.and(waited).map_err(|error| self.failed(error))?;
        self.hits.count(count as u64, report.hits);
        Ok(())
    }

    fn gather_on_device<I: RowId>(
        &mut self,
        ids: &[I],
        width: IdWidth,
        out_bytes: usize,
    ) -> Result<GatherReport, CudaError> {
        let context = self.table.context();
        let most_insertions = self.cache.as_ref().map_or(0, |cache| cache.most_insertions(ids.len()));
        if self.insertions.bytes() < most_insertions * CacheInsertion::BYTES {
            let bytes = most_insertions * CacheInsertion::BYTES;
            self.insertions = PinnedBuffer::new(context, bytes, "what a cache takes in")?;
        }
        let count = ids.len() as u64;
        let (slot_map, cached_rows) = self.cache.as_ref().map_or((0, 0), DeviceCache::addresses);
        let id_bytes: &[u8] = bytemuck::cast_slice(ids);
        if self.ids.bytes() < id_bytes.len() {
            self.ids = DeviceBuffer::new(context, id_bytes.len(), "the ids of a gather")?;
        }
        if self.out.bytes() < out_bytes {
            self.out = DeviceBuffer::new(context, out_bytes, "the rows of a gather")?;
        }
        // Behind all that can be refused: what is taken in has to be carried out.
        let insertion = self.cache.as_mut().map(|cache| {
            let insertions = cache.take_in(ids);
            write_insertions(insertions, self.insertions.as_mut_slice());
            let count = insertions.len();
            cache.insertion(self.insertions.address(), count, self.out.address())
        });
        let arguments = GatherArguments {
            table: self.table.address(),
            rows: self.rows as u64,
            row_bytes: self.row_bytes as u64,
            ids: self.ids.address(),
            count,
            out: self.out.address(),
            report: self.report.address(),
            slot_map,
            cache: cached_rows,
        };
        // SAFETY: the buffers are this value's own and large enough, the table is pinned and held, and all that is
        // enqueued is waited for below, before `ids` is given back or anything here is touched again: also when one of
        // the steps fails, for then the stream is waited for first.
        let enqueued = unsafe {
            host_to_device(&self.stream, id_bytes, self.ids.address())
                .and_then(|()| {
                    let stamp = 1;
                    self.kernels.enqueue(&self.stream, self.kernel, width, &arguments, stamp, self.bound)
                })
                .and_then(|()| match insertion {
                    Some(insertion) => self.kernels.insert(&self.stream, &insertion, self.bound),
                    None => Ok(()),
                })
                .and_then(|()| {
                    device_to_host(&self.stream, self.report.address(), self.report_host.as_mut_slice())
                })
        };
        let waited = self.stream.synchronize();
        enqueued.and(waited)?;
        Ok(report_of(&self.report_host))
    }

    fn failed(&mut self, error: CudaError) -> GatherError {
        // The host has decided what comes in; whether the device did so is not known.
        self.cache = self.cache.take().filter(|cache| !cache.is_fifo());
        GatherError::Device { reason: error.to_string() }
    }
}

/// The report that was copied into `buffer`.
pub(super) fn report_of(buffer: &PinnedBuffer) -> GatherReport {
    let mut bytes = [0; GatherReport::BYTES];
    bytes.copy_from_slice(&buffer.as_slice()[..GatherReport::BYTES]);
    GatherReport::from_bytes(&bytes)
}

impl RowGather for CudaGather {
    fn rows(&self) -> usize {
        self.rows
    }

    fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    fn gather(&mut self, ids: &[i64], out: &mut [u8]) -> Result<(), GatherError> {
        self.gather_ids(ids, IdWidth::I64, out)
    }

    fn gather_i32(&mut self, ids: &[i32], out: &mut [u8]) -> Result<(), GatherError> {
        self.gather_ids(ids, IdWidth::I32, out)
    }

    fn hits(&self) -> Hits {
        self.hits
    }
}
