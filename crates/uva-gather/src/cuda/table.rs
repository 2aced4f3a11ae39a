//! What a gather for a GPU reads: a table in host memory, pinned or not, or a copy of it on the device.

use std::sync::Arc;

use uva_cuda::memory::{DeviceBuffer, PinnedBuffer, PinnedTable, TableBytes, host_to_device};
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
    /// In pinned host memory, for the device and the CPU to read.
    Pinned(Arc<PinnedTable>),
    /// In host memory that is not pinned, for the CPU alone.
    Host(Arc<dyn TableBytes>),
    /// On the device.
    Device(Arc<DeviceTable>),
}

impl GatherTable {
    /// Where the device finds the first row, if it can read it.
    pub(super) fn address(&self) -> Option<u64> {
        match self {
            Self::Pinned(table) => Some(table.address()),
            Self::Host(_) => None,
            Self::Device(table) => Some(table.buffer.address()),
        }
    }

    /// The rows, if the CPU can read them. They stay in place while the table is held.
    pub(super) fn host(&self) -> Option<&[u8]> {
        match self {
            Self::Pinned(table) => Some(table.host()),
            Self::Host(table) => Some(table.bytes()),
            Self::Device(_) => None,
        }
    }

    /// Bytes of the table.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Pinned(table) => table.bytes(),
            Self::Host(table) => table.bytes().len(),
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
