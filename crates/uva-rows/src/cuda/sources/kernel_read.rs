//! Rows read by kernels: over the link from pinned host memory, or from device memory.

use std::sync::Arc;

use uva_cuda::kernels::cache::CacheInsertion;
use uva_cuda::kernels::gather::{GatherArguments, GatherKernels, GridBound, IdWidth, Kernel};
use uva_cuda::kernels::order::VisitOrder;
use uva_cuda::memory::{PinnedBuffer, PinnedTable};
use uva_cuda::{Context, CudaError, CudaStream};

use crate::cuda::error::FillError;
use crate::cuda::place::DevicePlace;
use crate::cuda::store::cache::{DeviceCache, write_insertions};
use crate::cuda::store::table::DeviceTable;
use crate::error::GatherError;
use crate::source::{RowOrigin, RowSource, RowsRead, Ticket};
use crate::stack::Cached;

/// The minimum number of rows of a gather for which reads are ordered. An H200 reads 4,096 rows of 512 bytes out of 4
/// GiB at 25.6 GB/s by region, launches included, and at 21.7 in the batch's order; 2,048 rows at 18.3 and 19.4
/// (docs/results/gpu/rows-h200.json).
const LEAST_ORDERED: usize = 4096;

/// The maximum number of multiprocessors that read by region. With fewer reads in flight, the reads are closer
/// together: 262,144 rows of 512 bytes come out of 16 GiB at 30.3 GB/s by eight of an H200's multiprocessors, and at
/// 25.3 by all (docs/results/gpu/rows-h200.json).
const READING_BY_REGION: u32 = 8;

/// A table that kernels can address.
pub trait KernelTable {
    /// The origin of its rows in statistics.
    const ORIGIN: RowOrigin;

    /// The size in bytes above which tables are read region by region.
    const REACH: usize;

    /// The address of the first row, for a kernel.
    fn address(&self) -> u64;

    /// Bytes of the table.
    fn length(&self) -> usize;
}

impl KernelTable for PinnedTable {
    const ORIGIN: RowOrigin = RowOrigin::ZeroCopy;

    /// An H100 reads random rows of 128 bytes from 512 MiB of host memory at the rate of the link, and from 1 GiB at
    /// 0.29 of it: its address translation does not cover more (docs/results/gpu/translation-h100.json).
    const REACH: usize = 512 << 20;

    fn address(&self) -> u64 {
        self.address()
    }

    fn length(&self) -> usize {
        self.bytes()
    }
}

impl KernelTable for DeviceTable {
    const ORIGIN: RowOrigin = RowOrigin::DeviceTable;

    /// Device memory is translated by larger pages. The gain of an order has not been measured there.
    const REACH: usize = usize::MAX;

    fn address(&self) -> u64 {
        self.address()
    }

    fn length(&self) -> usize {
        self.bytes()
    }
}

/// A source of rows read by a kernel. The kernel detects bad ids and writes them to the report.
#[derive(Debug)]
pub struct KernelRead<T> {
    kernels: GatherKernels,
    kernel: Kernel,
    bound: GridBound,
    pub(super) table: Arc<T>,
    pub(super) rows: usize,
    pub(super) row_bytes: usize,
    /// The minimum number of rows of a gather that is read region by region.
    least_ordered: usize,
    /// Allocated with the first reservation, if reads are ordered.
    visits: Option<VisitOrder>,
}

/// Rows of a pinned table, read over the link (zero-copy).
pub type Pinned = KernelRead<PinnedTable>;

/// Rows of a table on the device.
pub type DeviceRows = KernelRead<DeviceTable>;

impl<T: KernelTable> KernelRead<T> {
    /// Creates a source of the rows of `table`, `row_bytes` bytes each (at least 1), read by this kernel in a grid
    /// bounded by `bound`.
    ///
    /// # Errors
    /// [`FillError::Rows`] unless the table is whole rows.
    pub fn new(
        kernels: GatherKernels,
        table: Arc<T>,
        row_bytes: usize,
        kernel: Kernel,
        bound: GridBound,
    ) -> Result<Self, FillError> {
        let length = table.length();
        if row_bytes == 0 || !length.is_multiple_of(row_bytes) {
            return Err(GatherError::TableLength { length, row_bytes }.into());
        }
        let least_ordered = if length > T::REACH { LEAST_ORDERED } else { usize::MAX };
        let rows = length / row_bytes;
        Ok(Self { kernels, kernel, bound, rows, row_bytes, table, least_ordered, visits: None })
    }

    /// Sets whether rows are read region by region of the table, or in the batch's order. By default, large batches
    /// from tables beyond the reach of the GPU's address translation are read by region.
    #[must_use]
    pub fn by_region(self, by_region: bool) -> Self {
        Self { least_ordered: if by_region { 1 } else { usize::MAX }, ..self }
    }

    /// Allocates memory for the order of reads. Fills in flight share it, since they use one stream.
    pub(super) fn reserve_visits(&mut self, rows: usize) -> Result<(), FillError> {
        if self.least_ordered <= rows {
            match &mut self.visits {
                Some(visits) => visits.reserve(rows)?,
                None => {
                    let context = self.kernels.context();
                    self.visits = Some(VisitOrder::new(context, self.rows, self.row_bytes, rows)?);
                }
            }
        }
        Ok(())
    }

    /// Enqueues the order in which a gather of `count` rows visits them, if reads are ordered. Returns its address, 0
    /// for the batch's order, and the bound of the gather's grid.
    ///
    /// # Safety
    /// As [`VisitOrder::enqueue`] requires.
    pub(super) unsafe fn order_visits(
        &self,
        stream: &CudaStream,
        ids: (u64, usize),
        report: u64,
    ) -> Result<(u64, GridBound), CudaError> {
        // A source without a reservation reads in the batch's order.
        let visits = self.visits.as_ref();
        let visits = visits.filter(|visits| (self.least_ordered..=visits.most()).contains(&ids.1));
        let Some(visits) = visits else { return Ok((0, self.bound)) };
        let bound = self.bound.at_most(READING_BY_REGION);
        // SAFETY: passed on.
        Ok((unsafe { visits.enqueue(stream, &self.kernels, ids, report, bound)? }, bound))
    }

    /// Enqueues the kernel over the place's rows, with the slot map and rows of a cache (0 without one).
    fn enqueue(&self, place: DevicePlace<'_>, cache: (u64, u64)) -> Result<RowsRead, FillError> {
        let count = place.count;
        if count > 0 {
            // SAFETY: ids and report are the place's. Its stream is that of all fills of this source.
            let (order, bound) =
                unsafe { self.order_visits(place.stream, (place.ids, count), place.report)? };
            let arguments = GatherArguments {
                table: self.table.address(),
                rows: self.rows as u64,
                row_bytes: self.row_bytes as u64,
                ids: place.ids,
                count: count as u64,
                out: place.out,
                report: place.report,
                slot_map: cache.0,
                cache: cache.1,
                order,
            };
            // SAFETY: the table is held, at an address that kernels can read. Ids, output and report are the place's,
            // by the promise of `DevicePlace::new`. The cache is for this table (`Cached::on_device`) and held.
            unsafe { self.kernels.rows(place.stream, self.kernel, IdWidth::I64, &arguments, bound)? };
        }
        Ok(RowsRead::of(T::ORIGIN, count as u64, self.row_bytes))
    }
}

impl<T: KernelTable> RowSource<DevicePlace<'_>> for KernelRead<T> {
    fn rows(&self) -> usize {
        self.rows
    }

    fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    fn reserve(&mut self, _: usize, rows: usize) -> Result<(), FillError> {
        self.reserve_visits(rows)
    }

    fn reads_ids(&self) -> bool {
        false
    }

    fn submit(&mut self, _: &[i64], place: DevicePlace<'_>) -> Result<Ticket, FillError> {
        Ok(Ticket::of(place.lane, self.enqueue(place, (0, 0))?))
    }

    fn wait(&mut self, ticket: Ticket) -> Result<RowsRead, FillError> {
        Ok(ticket.read)
    }
}

/// A cache on the device, and page-locked memory for the changes of each fill in flight.
#[derive(Debug)]
pub struct LanedCache {
    cache: DeviceCache,
    insertions: Vec<PinnedBuffer>,
    context: Arc<Context>,
}

impl Cached<Pinned, LanedCache> {
    /// Reads cached rows from the device instead of over the link. After each fill, a dynamic cache inserts the misses
    /// from the filled place.
    ///
    /// # Errors
    /// [`FillError::Rows`] for a cache that was made for another table, or on another device.
    pub fn on_device(source: Pinned, cache: DeviceCache) -> Result<Self, FillError> {
        let context = Arc::clone(source.table.context());
        cache.check(&context, source.rows, source.row_bytes)?;
        Ok(Self { source, cache: LanedCache { cache, insertions: Vec::new(), context } })
    }
}

impl RowSource<DevicePlace<'_>> for Cached<Pinned, LanedCache> {
    fn rows(&self) -> usize {
        self.source.rows
    }

    fn row_bytes(&self) -> usize {
        self.source.row_bytes
    }

    fn reserve(&mut self, lanes: usize, rows: usize) -> Result<(), FillError> {
        self.source.reserve_visits(rows)?;
        let LanedCache { cache, insertions, context } = &mut self.cache;
        let bytes = cache.most_insertions(rows) * CacheInsertion::BYTES;
        if insertions.len() < lanes || insertions.iter().any(|buffer| buffer.bytes() < bytes) {
            // The old buffers are freed first, since all together may exceed the limit of locked memory.
            insertions.clear();
            for _ in 0..lanes {
                insertions.push(PinnedBuffer::new(context, bytes, "the insertions of a cache")?);
            }
        }
        Ok(())
    }

    /// Only an evicting cache reads ids.
    fn reads_ids(&self) -> bool {
        self.cache.cache.is_dynamic()
    }

    fn submit(&mut self, ids: &[i64], place: DevicePlace<'_>) -> Result<Ticket, FillError> {
        let LanedCache { cache, insertions, .. } = &mut self.cache;
        let most = cache.most_insertions(place.count) * CacheInsertion::BYTES;
        let Some(room) = insertions.get_mut(place.lane).filter(|room| room.bytes() >= most) else {
            return Err(FillError::Layout(format!(
                "no room was reserved for a fill of {} rows",
                place.count
            )));
        };
        let changes = cache.take_in(ids);
        write_insertions(changes, room.as_mut_slice());
        let count = changes.len();
        let read = self.source.enqueue(place, cache.addresses())?;
        let insertion = cache.insertion(room.address(), count, place.out);
        // SAFETY: the insertions stay in the lane's buffer until its fill has passed. The cache's own `take_in` decided
        // them, and all its batches are executed in this stream's order. So slots and rows belong to the cache and are
        // distinct. The positions refer to rows that were just gathered.
        unsafe { self.source.kernels.insert(place.stream, &insertion, self.source.bound)? };
        Ok(Ticket::of(place.lane, read))
    }

    fn wait(&mut self, ticket: Ticket) -> Result<RowsRead, FillError> {
        // The hits are in the report, which belongs to the place.
        Ok(ticket.read)
    }
}
