//! Rows in host memory: the place, and the sources that a loop on the CPU can address.

use uva_ops::rows::NarrowFloat;

use crate::error::GatherError;
use crate::source::{Place, RowSource, RowsRead};

/// Host memory for the rows of a batch.
#[derive(Debug)]
pub struct HostPlace<'p> {
    /// Exactly `ids.len() * row_bytes()` bytes.
    pub out: &'p mut [u8],
    /// The maximum of the source's threads that copy, at least one: for a producer that is ahead of its consumer.
    pub threads: usize,
}

impl<'p> HostPlace<'p> {
    /// Filled by all threads of a source.
    pub fn new(out: &'p mut [u8]) -> Self {
        Self { out, threads: usize::MAX }
    }
}

impl Place for HostPlace<'_> {
    type Error = GatherError;
}

/// A source of rows in host memory.
pub trait HostSource: for<'p> RowSource<HostPlace<'p>> {}

impl<S: for<'p> RowSource<HostPlace<'p>> + ?Sized> HostSource for S {}

/// A source whose rows lie in this process's memory, so that one pass finds each row and moves it.
pub trait InMemory {
    /// Bytes of a row in the table.
    fn table_row_bytes(&self) -> usize;

    /// Copies the rows, widened from `widened` where that is given.
    ///
    /// # Errors
    /// As [`RowSource::submit`].
    fn copy_to(
        &mut self,
        ids: &[i64],
        place: HostPlace<'_>,
        widened: Option<NarrowFloat>,
    ) -> Result<RowsRead, GatherError>;
}
