//! Rows of a device source in host memory: gathered into a slot on the device, and copied back.

use std::sync::Arc;

use uva_cuda::kernels::gather::{GatherKernels, GatherReport};
use uva_cuda::memory::{IpcKind, SharedBuffer, device_to_host};
use uva_cuda::{Context, CudaEvent, CudaStream};

use super::filler::{SlotFiller, SlotPlace};
use super::slot::SlotShape;
use crate::cuda::error::FillError;
use crate::cuda::place::DeviceSource;
use crate::error::GatherError;
use crate::host::HostPlace;
use crate::source::{RowSource, RowsRead, Ticket};

/// The alignment of rows.
const ALIGNMENT: usize = 128;

/// The offset of the ids: after the report, and before the rows.
const IDS_AT: usize = GatherReport::BYTES;

/// The offset of the rows in a slot for `rows` rows.
fn features_at(rows: usize) -> usize {
    (IDS_AT + rows * size_of::<i64>()).next_multiple_of(ALIGNMENT)
}

/// A [`SlotFiller`] of one slot whose rows are copied back to the host. It waits for each fill. For programs that need
/// rows of a GPU's caches in host memory, and for the conformance checks, which so test the filler of a run.
pub struct ReadBack<S: DeviceSource> {
    /// `None` after a failure to grow the slot.
    filler: Option<SlotFiller<S>>,
    kernels: GatherKernels,
    buffer: Arc<SharedBuffer>,
    stream: CudaStream,
    ready: CudaEvent,
    /// The capacity of the slot in rows.
    room: usize,
    fills: u64,
    /// The number of rows of the table, and bytes per row.
    shape: (usize, usize),
}

impl<S: DeviceSource> ReadBack<S> {
    /// Reads rows of `source` on the GPU of `context`.
    ///
    /// # Errors
    /// [`FillError::Cuda`].
    pub fn new(context: &Arc<Context>, kernels: GatherKernels, source: S) -> Result<Self, FillError> {
        let shape = (source.rows(), source.row_bytes());
        let (filler, buffer) = slot(context, &kernels, source, 1)?;
        Ok(Self {
            filler: Some(filler),
            kernels,
            buffer,
            stream: CudaStream::new(context)?,
            ready: CudaEvent::local(context)?,
            room: 1,
            fills: 0,
            shape,
        })
    }

    fn gather(&mut self, ids: &[i64], out: &mut [u8]) -> Result<RowsRead, FillError> {
        let row_bytes = self.shape.1;
        if ids.len() > self.room {
            let context = Arc::clone(self.buffer.context());
            let Some(filler) = self.filler.take() else { return Err(gone()) };
            let room = ids.len().next_power_of_two();
            let (filler, buffer) = slot(&context, &self.kernels, filler.into_source()?, room)?;
            (self.filler, self.buffer, self.room) = (Some(filler), buffer, room);
        }
        let Some(filler) = &mut self.filler else { return Err(gone()) };
        self.fills += 1;
        let features_at = features_at(self.room);
        let read = filler.fill(
            ids,
            SlotPlace {
                slot: 0,
                arrays: &[(IDS_AT, bytemuck::cast_slice(ids))],
                on_device: None,
                ids_at: IDS_AT,
                features_at,
                sums: None,
                made: None,
                brought: None,
                tables_at: None,
                of_set: None,
                begun: None,
                stamp: self.fills,
                after: None,
                ready: &self.ready,
            },
        )?;
        debug_assert_eq!(out.len(), ids.len() * row_bytes);
        // SAFETY: the fill was waited for, and its rows are as many bytes as `out` has. The copy is waited for before
        // the borrow ends, even if enqueueing failed.
        let copied = unsafe { device_to_host(&self.stream, self.buffer.address() + features_at as u64, out) };
        let waited = self.stream.synchronize();
        copied.and(waited)?;
        Ok(read)
    }
}

fn gone() -> FillError {
    FillError::Broken("the slot could not be enlarged".to_owned())
}

/// Creates a slot for the given number of rows, and its filler.
fn slot<S: DeviceSource>(
    context: &Arc<Context>,
    kernels: &GatherKernels,
    source: S,
    rows: usize,
) -> Result<(SlotFiller<S>, Arc<SharedBuffer>), FillError> {
    let stride = (features_at(rows) + rows * source.row_bytes()).next_multiple_of(ALIGNMENT);
    let buffer = Arc::new(SharedBuffer::create(context, stride, IpcKind::Auto, "the rows of a gather")?);
    let shape = SlotShape { slots: 1, stride };
    let stream = CudaStream::new(context)?;
    let mut filler = SlotFiller::new(stream, kernels.clone(), source, Arc::clone(&buffer), shape)?;
    filler.reserve_room(features_at(rows), rows)?;
    Ok((filler, buffer))
}

impl<S: DeviceSource> RowSource<HostPlace<'_>> for ReadBack<S> {
    fn rows(&self) -> usize {
        self.shape.0
    }

    fn row_bytes(&self) -> usize {
        self.shape.1
    }

    fn submit(&mut self, ids: &[i64], place: HostPlace<'_>) -> Result<Ticket, GatherError> {
        let (length, row_bytes) = (place.out.len(), self.shape.1);
        if ids.len().checked_mul(row_bytes) != Some(length) {
            return Err(GatherError::OutputLength { ids: ids.len(), row_bytes, length });
        }
        let read = self.gather(ids, place.out).map_err(|error| match error {
            FillError::Rows(error) => error,
            error => GatherError::Device { reason: error.to_string() },
        })?;
        Ok(Ticket::of(0, read))
    }

    fn wait(&mut self, ticket: Ticket) -> Result<RowsRead, GatherError> {
        Ok(ticket.read)
    }
}
