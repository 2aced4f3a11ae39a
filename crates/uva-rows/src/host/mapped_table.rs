//! A table in host memory, read by several threads.

use std::fmt;
use std::sync::Arc;

use uva_cuda::memory::TableBytes;
use uva_ops::rows::{NarrowFloat, RowAddresses, RowCopy, TableRows};

use super::mover::Mover;
use super::place::{HostPlace, HostTable, SumPlace};
use crate::error::GatherError;
use crate::source::{RowOrigin, RowSource, RowsRead, Ticket};
use crate::stack::SummedValues;

/// A table in this process's memory, such as a mapped file, read by its own pool of threads.
#[derive(Debug)]
pub struct MappedTable<'t> {
    table: Table<'t>,
    rows: usize,
    mover: Mover,
}

enum Table<'t> {
    Borrowed(&'t [u8]),
    Owned(Arc<dyn TableBytes>),
}

impl<'t> MappedTable<'t> {
    /// Creates a source of the rows of `table`, `row_bytes` bytes each (at least 1) without gaps. `threads` threads
    /// read it (0 counts as 1).
    ///
    /// # Errors
    /// [`GatherError::TableLength`] unless the table is whole rows; [`GatherError::Threads`] if no thread can be
    /// spawned.
    pub fn new(table: &'t [u8], row_bytes: usize, threads: usize) -> Result<Self, GatherError> {
        Self::over(Table::Borrowed(table), row_bytes, threads)
    }

    fn over(table: Table<'t>, row_bytes: usize, threads: usize) -> Result<Self, GatherError> {
        let length = table.bytes().len();
        if row_bytes == 0 || !length.is_multiple_of(row_bytes) {
            return Err(GatherError::TableLength { length, row_bytes });
        }
        Ok(Self { table, rows: length / row_bytes, mover: Mover::new(row_bytes, threads)? })
    }

    /// Uses this copy method from now on: for measurements and tests.
    #[must_use]
    pub fn with_copy(mut self, copy: RowCopy) -> Self {
        self.mover.copy = copy;
        self
    }

    /// The number of threads.
    pub fn threads(&self) -> usize {
        self.mover.threads()
    }

    /// The pool of threads; `None` if only the caller's thread is used.
    pub fn pool(&self) -> Option<&rayon::ThreadPool> {
        self.mover.pool()
    }

    /// The table.
    ///
    /// # Panics
    /// If the owner returns a different slice than before.
    pub fn table(&self) -> &[u8] {
        let table = self.table.bytes();
        assert_eq!(table.len(), self.rows * self.mover.row_bytes, "the table has changed its size");
        table
    }

    /// The mover of its rows.
    pub(super) fn mover(&self) -> &Mover {
        &self.mover
    }

    /// As [`Mover::copy`].
    ///
    /// # Safety
    /// `source` has the rows of this table.
    pub(super) unsafe fn copy(
        &self,
        source: impl RowAddresses + Sync,
        widened: Option<NarrowFloat>,
        ids: &[i64],
        place: &mut HostPlace<'_>,
    ) -> Result<u64, GatherError> {
        // SAFETY: by our caller's promise.
        unsafe { self.mover.copy(source, self.rows, widened, ids, place) }
    }

    /// As [`Mover::sum`].
    ///
    /// # Safety
    /// `source` has the rows of this table.
    pub(super) unsafe fn sum(
        &self,
        source: impl RowAddresses + Sync,
        values: SummedValues,
        ids: &[i64],
        place: SumPlace<'_>,
    ) -> Result<u64, GatherError> {
        // SAFETY: by our caller's promise.
        unsafe { self.mover.sum(source, self.rows, values, ids, place) }
    }
}

impl MappedTable<'static> {
    /// As [`MappedTable::new`], for a table that it keeps alive.
    ///
    /// # Errors
    /// As [`MappedTable::new`].
    pub fn owned(table: Arc<dyn TableBytes>, row_bytes: usize, threads: usize) -> Result<Self, GatherError> {
        Self::over(Table::Owned(table), row_bytes, threads)
    }
}

impl Table<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Owned(owner) => owner.bytes(),
        }
    }
}

impl fmt::Debug for Table<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} bytes", self.bytes().len())
    }
}

impl HostTable for MappedTable<'_> {
    fn table_row_bytes(&self) -> usize {
        self.mover.row_bytes
    }

    fn pool(&self) -> Option<&rayon::ThreadPool> {
        self.mover.pool()
    }

    fn copy_to(
        &mut self,
        ids: &[i64],
        mut place: HostPlace<'_>,
        widened: Option<NarrowFloat>,
    ) -> Result<RowsRead, GatherError> {
        let source = TableRows { table: self.table(), row_bytes: self.mover.row_bytes };
        // SAFETY: the source is this table.
        unsafe { self.copy(source, widened, ids, &mut place) }?;
        Ok(RowsRead::of(RowOrigin::HostTable, ids.len() as u64, self.mover.row_bytes))
    }

    fn sum_to(
        &mut self,
        ids: &[i64],
        place: SumPlace<'_>,
        values: SummedValues,
    ) -> Result<RowsRead, GatherError> {
        let source = TableRows { table: self.table(), row_bytes: self.mover.row_bytes };
        // SAFETY: the source is this table.
        unsafe { self.sum(source, values, ids, place) }?;
        Ok(RowsRead::of(RowOrigin::HostTable, ids.len() as u64, self.mover.row_bytes))
    }
}

impl RowSource<HostPlace<'_>> for MappedTable<'_> {
    fn rows(&self) -> usize {
        self.rows
    }

    fn row_bytes(&self) -> usize {
        self.mover.row_bytes
    }

    fn check(&self, ids: &[i64]) -> Result<(), GatherError> {
        self.mover.check(ids, self.rows)
    }

    fn submit(&mut self, ids: &[i64], place: HostPlace<'_>) -> Result<Ticket, GatherError> {
        Ok(Ticket::of(0, self.copy_to(ids, place, None)?))
    }

    fn wait(&mut self, ticket: Ticket) -> Result<RowsRead, GatherError> {
        Ok(ticket.read)
    }
}
