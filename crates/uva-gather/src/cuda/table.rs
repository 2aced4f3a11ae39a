//! What a gather on a GPU reads: a table pinned in host memory, or a copy of it on the device.

use std::sync::Arc;

use uva_cuda::memory::{DeviceBuffer, PinnedBuffer, PinnedTable, host_to_device};
use uva_cuda::{Context, CudaError, Event, Stream};

/// Bytes that go over at a time, from a buffer that is pinned for that: a file's pages need not be.
const PIECE: usize = 16 << 20;

/// A whole table in device memory: for one that fits there, and to know what a gather over the link costs more.
#[derive(Debug)]
pub struct DeviceTable {
    buffer: DeviceBuffer,
}

impl DeviceTable {
    /// Copies a table to the device. `what` names it in messages.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`] when the device has not so much free; [`CudaError::Call`].
    pub fn new(context: &Arc<Context>, bytes: &[u8], what: &str) -> Result<Self, CudaError> {
        let buffer = DeviceBuffer::new(context, bytes.len(), what)?;
        let stream = Stream::new(context)?;
        let mut pieces = [Piece::new(context)?, Piece::new(context)?];
        for (number, from) in bytes.chunks(PIECE).enumerate() {
            let Piece { staging, sent } = &mut pieces[number % 2];
            // The piece before the last has to be over before its buffer is written again. An event that was never
            // recorded is.
            sent.synchronize()?;
            staging.as_mut_slice()[..from.len()].copy_from_slice(from);
            let to = buffer.address() + (number * PIECE) as u64;
            // SAFETY: `to` is `from.len()` bytes of our own buffer that nobody else knows yet. The staging buffer lives and
            // stays as it is until `sent`, recorded behind the copy, has been waited for: above, or below at the end.
            unsafe { host_to_device(&stream, &staging.as_slice()[..from.len()], to) }?;
            sent.record(&stream)?;
        }
        stream.synchronize()?;
        Ok(Self { buffer })
    }
}

struct Piece {
    staging: PinnedBuffer,
    sent: Event,
}

impl Piece {
    fn new(context: &Arc<Context>) -> Result<Self, CudaError> {
        let staging = PinnedBuffer::new(context, PIECE, "a piece of a table on its way to the device")?;
        Ok(Self { staging, sent: Event::local(context)? })
    }
}

/// Where the rows are.
#[derive(Clone)]
pub enum GatherTable {
    /// In pinned host memory.
    Pinned(Arc<PinnedTable>),
    /// On the device.
    Device(Arc<DeviceTable>),
}

impl GatherTable {
    /// Where the device finds the first row.
    pub fn address(&self) -> u64 {
        match self {
            Self::Pinned(table) => table.address(),
            Self::Device(table) => table.buffer.address(),
        }
    }

    /// Bytes of the table.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Pinned(table) => table.bytes(),
            Self::Device(table) => table.buffer.bytes(),
        }
    }
}

impl From<Arc<PinnedTable>> for GatherTable {
    fn from(table: Arc<PinnedTable>) -> Self {
        Self::Pinned(table)
    }
}

impl From<Arc<DeviceTable>> for GatherTable {
    fn from(table: Arc<DeviceTable>) -> Self {
        Self::Device(table)
    }
}
