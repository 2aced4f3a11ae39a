//! An empty source, for slots whose rows have another origin.

use crate::cuda::error::FillError;
use crate::cuda::place::DevicePlace;
use crate::source::{RowSource, RowsRead, Ticket};

/// A source for fillers that do not use one: the host makes the rows, they belong to tables on the device, or they are
/// read from files bypassing host memory.
#[derive(Clone, Copy, Debug)]
pub struct NoRows;

impl RowSource<DevicePlace<'_>> for NoRows {
    fn rows(&self) -> usize {
        0
    }

    fn row_bytes(&self) -> usize {
        0
    }

    fn submit(&mut self, _: &[i64], place: DevicePlace<'_>) -> Result<Ticket, FillError> {
        Err(FillError::Layout(format!("{} rows of a source that has none", place.count)))
    }

    fn wait(&mut self, _: Ticket) -> Result<RowsRead, FillError> {
        Ok(RowsRead::default())
    }
}
