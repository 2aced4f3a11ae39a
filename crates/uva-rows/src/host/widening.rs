//! Rows of narrow floating-point values as float32.

use uva_ops::rows::NarrowFloat;

use super::place::{HostPlace, HostSource, HostTable};
use crate::error::GatherError;
use crate::source::{RowSource, RowsRead, Ticket};
use crate::stack::WideningSource;

impl<S: HostTable + HostSource> WideningSource<S> {
    /// Creates a source that widens rows of type `from`.
    ///
    /// # Errors
    /// [`GatherError::NotHalves`] unless a row is a whole number of such values.
    pub fn new(source: S, from: NarrowFloat) -> Result<Self, GatherError> {
        let row_bytes = source.table_row_bytes();
        if !row_bytes.is_multiple_of(from.bytes()) {
            return Err(GatherError::NotHalves { row_bytes });
        }
        Ok(Self { source, from })
    }
}

impl<S: HostTable + HostSource> RowSource<HostPlace<'_>> for WideningSource<S> {
    fn rows(&self) -> usize {
        self.source.rows()
    }

    fn row_bytes(&self) -> usize {
        self.source.table_row_bytes() / self.from.bytes() * NarrowFloat::WIDENED_BYTES
    }

    fn check(&self, ids: &[i64]) -> Result<(), GatherError> {
        self.source.check(ids)
    }

    fn expect(&mut self, coming: &[&[i64]]) {
        self.source.expect(coming);
    }

    fn submit(&mut self, ids: &[i64], place: HostPlace<'_>) -> Result<Ticket, GatherError> {
        Ok(Ticket::of(0, self.source.copy_to(ids, place, Some(self.from))?))
    }

    fn wait(&mut self, ticket: Ticket) -> Result<RowsRead, GatherError> {
        Ok(ticket.read)
    }
}
