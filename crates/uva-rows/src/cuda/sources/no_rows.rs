//! No rows, for slots whose rows come from elsewhere.

use crate::cuda::error::FillError;
use crate::cuda::place::DevicePlace;
use crate::source::{RowSource, RowsRead, Ticket};

/// The source of a filler whose slots get no rows of a source: the host makes them, they are of tables on the device, or they
/// come from files without the host's memory.
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
