//! Several tables that kernels read, each by ids of its own.

use std::fmt;
use std::sync::Arc;

use uva_cuda::kernels::gather::{GatherKernels, GridBound, Kernel};
use uva_cuda::kernels::tables::{GatheredTable, TableCounters};
use uva_cuda::{Context, CudaStream};

use super::kernel_read::{KernelRead, KernelTable};
use crate::cuda::error::FillError;
use crate::source::RowsRead;

/// The places of one table in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TablePlace {
    /// The offset of its ids in the slot, within one of the arrays.
    pub ids_at: usize,
    /// The number of ids.
    pub count: usize,
    /// The offset of its rows in the slot.
    pub rows_at: usize,
}

/// A table of a set.
trait SetTable: fmt::Debug + Send + Sync {
    fn rows(&self) -> usize;

    fn row_bytes(&self) -> usize;

    fn reserve(&mut self, rows: usize) -> Result<(), FillError>;

    /// The rows of these ids, by their address and number, and the bound of the grid that gathers them. Enqueues the order
    /// of large gathers.
    ///
    /// # Safety
    /// As [`TableSet::enqueue`], for this table.
    unsafe fn rows_at(
        &self,
        stream: &CudaStream,
        ids: (u64, usize),
        out: u64,
        report: u64,
    ) -> Result<(GatheredTable, GridBound), FillError>;

    fn read(&self, count: usize) -> RowsRead;
}

impl<T: KernelTable + fmt::Debug + Send + Sync> SetTable for KernelRead<T> {
    fn rows(&self) -> usize {
        self.rows
    }

    fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    fn reserve(&mut self, rows: usize) -> Result<(), FillError> {
        self.reserve_visits(rows)
    }

    unsafe fn rows_at(
        &self,
        stream: &CudaStream,
        (ids, count): (u64, usize),
        out: u64,
        report: u64,
    ) -> Result<(GatheredTable, GridBound), FillError> {
        // SAFETY: passed on.
        let (order, bound) = unsafe { self.order_visits(stream, (ids, count), report) }?;
        let (table, rows, row_bytes) = (self.table.address(), self.rows as u64, self.row_bytes as u64);
        Ok((GatheredTable { table, rows, row_bytes, ids, count: count as u64, out, order, first: 0 }, bound))
    }

    fn read(&self, count: usize) -> RowsRead {
        RowsRead::of(T::ORIGIN, count as u64, self.row_bytes)
    }
}

/// Several tables whose rows one launch of a kernel gathers, each by ids of its own. A [filler](crate::cuda::SlotFiller)
/// writes them into a slot.
#[derive(Debug)]
pub struct TableSet {
    kernel: Kernel,
    tables: Vec<Box<dyn SetTable>>,
    counters: TableCounters,
}

impl TableSet {
    /// Creates the set of these tables. Their rows are read by `kernel`, in a grid with the least of their bounds.
    ///
    /// # Errors
    /// [`FillError::Cuda`].
    pub fn new<T: KernelTable + fmt::Debug + Send + Sync + 'static>(
        context: &Arc<Context>,
        kernel: Kernel,
        tables: Vec<KernelRead<T>>,
    ) -> Result<Self, FillError> {
        let counters = TableCounters::new(context, tables.len())?;
        let boxed = |table| Box::new(table) as Box<dyn SetTable>;
        Ok(Self { kernel, tables: tables.into_iter().map(boxed).collect(), counters })
    }

    /// The number of tables.
    pub fn tables(&self) -> usize {
        self.tables.len()
    }

    /// The number of rows of that table; 0 if it does not exist.
    pub(crate) fn rows_of(&self, table: usize) -> usize {
        self.tables.get(table).map_or(0, |table| table.rows())
    }

    /// Bytes of a row of each table.
    pub(crate) fn row_bytes(&self) -> impl Iterator<Item = usize> {
        self.tables.iter().map(|table| table.row_bytes())
    }

    /// Allocates memory for the order of gathers of at most `rows` rows of a table.
    ///
    /// # Errors
    /// [`FillError::Cuda`].
    pub fn reserve(&mut self, rows: usize) -> Result<(), FillError> {
        self.tables.iter_mut().try_for_each(|table| table.reserve(rows))
    }

    /// Enqueues the gather of the rows at these places of the slot at `base`: one for each table. The first bad id is
    /// recorded in the report. Returns the tables for [`finish`](Self::finish).
    ///
    /// # Safety
    /// In stream order, each place has its ids, and space for their rows without overlaps; `report` is a prepared
    /// report. Until the stream has passed the finish, they and this value stay allocated, no other code writes to them,
    /// and no other stream runs gathers of this value.
    pub(crate) unsafe fn enqueue(
        &self,
        stream: &CudaStream,
        kernels: &GatherKernels,
        (base, places): (u64, &[TablePlace]),
        report: u64,
    ) -> Result<(Vec<GatheredTable>, RowsRead), FillError> {
        let (mut rows, mut read) = (Vec::with_capacity(self.tables.len()), RowsRead::default());
        let mut least = GridBound::Device;
        for (table, place) in self.tables.iter().zip(places) {
            let (ids, out) = (base + place.ids_at as u64, base + place.rows_at as u64);
            // SAFETY: passed on.
            let (of_table, bound) = unsafe { table.rows_at(stream, (ids, place.count), out, report) }?;
            least = if rows.is_empty() { bound } else { least.min(bound) };
            rows.push(of_table);
            read = read.and(table.read(place.count));
        }
        // SAFETY: the tables are held. Ids, outputs and report are the caller's promise.
        unsafe { kernels.tables(stream, self.kernel, (&rows, &self.counters), report, least) }?;
        Ok((rows, read))
    }

    /// Enqueues the completion of the report.
    ///
    /// # Safety
    /// As [`enqueue`](Self::enqueue), which returned `rows`.
    pub(crate) unsafe fn finish(
        &self,
        stream: &CudaStream,
        kernels: &GatherKernels,
        rows: &[GatheredTable],
        report: u64,
        stamp: u64,
    ) -> Result<(), FillError> {
        // SAFETY: passed on.
        Ok(unsafe { kernels.finish_tables(stream, (rows, &self.counters), report, stamp) }?)
    }
}
