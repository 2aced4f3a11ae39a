//! Sums of listed rows, computed while the rows are read.

use super::place::{HostPlace, HostSource, HostTable, SumPlace, SumSource};
use crate::error::GatherError;
use crate::source::{RowSource, RowsRead, Ticket};
use crate::stack::{SummedValues, SummingSource};

impl<S: HostTable + HostSource> SummingSource<S> {
    /// Creates a source of sums over rows with these values.
    ///
    /// # Errors
    /// [`GatherError::NotValues`] unless a row is a whole number of such values.
    pub fn new(source: S, values: SummedValues) -> Result<Self, GatherError> {
        let (row_bytes, value_bytes) = (source.table_row_bytes(), values.bytes());
        if !row_bytes.is_multiple_of(value_bytes) {
            return Err(GatherError::NotValues { row_bytes, value_bytes });
        }
        Ok(Self { source, values })
    }
}

/// `row_bytes` is the size of a sum. Each id counts once in the statistics, even if it is in several lists.
impl<S: HostTable + HostSource> RowSource<SumPlace<'_>> for SummingSource<S> {
    fn rows(&self) -> usize {
        self.source.rows()
    }

    fn row_bytes(&self) -> usize {
        self.source.table_row_bytes() / self.values.bytes() * size_of::<f32>()
    }

    fn check(&self, ids: &[i64]) -> Result<(), GatherError> {
        self.source.check(ids)
    }

    fn expect(&mut self, coming: &[&[i64]]) {
        self.source.expect(coming);
    }

    fn submit(&mut self, ids: &[i64], place: SumPlace<'_>) -> Result<Ticket, GatherError> {
        Ok(Ticket::of(0, self.source.sum_to(ids, place, self.values)?))
    }

    fn wait(&mut self, ticket: Ticket) -> Result<RowsRead, GatherError> {
        Ok(ticket.read)
    }
}

impl<S: HostTable + HostSource> SumSource for SummingSource<S> {
    fn pool(&self) -> Option<&rayon::ThreadPool> {
        self.source.pool()
    }

    fn fill_rows(&mut self, ids: &[i64], place: HostPlace<'_>) -> Result<RowsRead, GatherError> {
        self.source.copy_to(ids, place, self.values.own())
    }
}
