//! A host source whose rows are copied to the device. The CPU gathers them into pinned pieces; a copy engine transfers
//! each piece while the next one is gathered.

use std::sync::Arc;

use uva_cuda::memory::{PinnedBuffer, host_to_device};
use uva_cuda::{Context, CudaError, CudaEvent, CudaStream};

use crate::cuda::error::FillError;
use crate::cuda::place::DevicePlace;
use crate::host::{HostPlace, HostSource};
use crate::source::{RowOrigin, RowSource, RowsRead, Ticket};

/// The approximate size of a piece in bytes. A copy engine reaches its full rate well below this, and a piece still
/// fits in a CPU's last-level cache.
const PIECE_BYTES: usize = 4 << 20;

/// The number of pieces. With two, a copy and a gather already overlap; two more absorb unevenness.
const PIECES: usize = 4;

/// A host source whose rows are copied to the device (DMA). The CPU's part of a fill is done when `submit` returns; it
/// waits for the GPU only if all pieces are still being read.
#[derive(Debug)]
pub struct StagingSource<S> {
    source: S,
    pieces: Vec<Piece>,
    next: usize,
    piece_rows: usize,
    row_bytes: usize,
    /// The stream of copies.
    pub stream: CudaStream,
    /// Orders the copies after the place's stream. Created with the first place, in the context of its stream: all
    /// places of a source are on streams of one context.
    before: Option<CudaEvent>,
    /// Orders the place's stream after the copies. Each wait refers to the last record of its event.
    behind: CudaEvent,
    context: Arc<Context>,
}

#[derive(Debug)]
struct Piece {
    buffer: PinnedBuffer,
    /// Recorded after the last copy from `buffer`.
    read: CudaEvent,
}

impl<S: HostSource> StagingSource<S> {
    /// Creates a source of the rows of `source`, with its own pieces and stream.
    ///
    /// # Errors
    /// [`FillError::Cuda`].
    pub fn new(context: &Arc<Context>, source: S) -> Result<Self, FillError> {
        let row_bytes = source.row_bytes();
        let piece_rows = (PIECE_BYTES / row_bytes).max(1);
        let pieces = (0..PIECES)
            .map(|_| {
                let buffer = PinnedBuffer::new(context, piece_rows * row_bytes, "rows to copy to the GPU")?;
                Ok(Piece { buffer, read: CudaEvent::local(context)? })
            })
            .collect::<Result<Vec<_>, CudaError>>()?;
        Ok(Self {
            source,
            pieces,
            next: 0,
            piece_rows,
            row_bytes,
            stream: CudaStream::new(context)?,
            before: None,
            behind: CudaEvent::local(context)?,
            context: Arc::clone(context),
        })
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(crate) fn reads(&self, rows: usize) -> RowsRead {
        RowsRead::of(RowOrigin::Dma, rows as u64, self.row_bytes)
    }

    /// Gathers the rows of `ids`, which the source has [checked](RowSource::check), and enqueues their copies to the
    /// device address `to`.
    ///
    /// # Errors
    /// [`CudaError`].
    ///
    /// # Safety
    /// `to` is device memory for as many rows. No other code uses it until the stream has passed this, and this value
    /// is not dropped until then.
    pub unsafe fn enqueue(&mut self, ids: &[i64], to: u64) -> Result<(), CudaError> {
        let mut to = to;
        for ids in ids.chunks(self.piece_rows) {
            let piece = &mut self.pieces[self.next];
            self.next = (self.next + 1) % PIECES;
            // True for an event that was never recorded.
            if !piece.read.query()? {
                piece.read.synchronize()?;
            }
            let bytes = ids.len() * self.row_bytes;
            let rows = &mut piece.buffer.as_mut_slice()[..bytes];
            // The ids have been checked, so an error here is a bug. Copies may already be in flight.
            self.source
                .fill(ids, HostPlace::new(&mut *rows))
                .map_err(|error| CudaError::System(error.to_string()))?;
            // SAFETY: the target is the caller's promise; the piece isn't written again before `read` has been reached.
            unsafe { host_to_device(&self.stream, rows, to)? };
            piece.read.record(&self.stream)?;
            to += bytes as u64;
        }
        Ok(())
    }
}

impl<S: HostSource> RowSource<DevicePlace<'_>> for StagingSource<S> {
    fn rows(&self) -> usize {
        self.source.rows()
    }

    fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    fn check(&self, ids: &[i64]) -> Result<(), FillError> {
        Ok(self.source.check(ids)?)
    }

    fn submit(&mut self, ids: &[i64], place: DevicePlace<'_>) -> Result<Ticket, FillError> {
        if !ids.is_empty() {
            place.note_beginning()?;
            let before = match &mut self.before {
                Some(before) => before,
                before => before.insert(CudaEvent::local(place.stream.made_in())?),
            };
            before.record(place.stream)?;
            self.stream.wait(before)?;
            // SAFETY: the place's rows, by the promise of `DevicePlace::new`, ordered after its stream by the wait.
            unsafe { self.enqueue(ids, place.out)? };
            self.behind.record(&self.stream)?;
            place.stream.wait(&self.behind)?;
        }
        Ok(Ticket::of(place.lane, self.reads(ids.len())))
    }

    fn wait(&mut self, ticket: Ticket) -> Result<RowsRead, FillError> {
        Ok(ticket.read)
    }
}

impl<S> Drop for StagingSource<S> {
    fn drop(&mut self) {
        // A copy may still read a piece. If waiting fails, the context and the copy are gone.
        let _ = self.stream.synchronize();
    }
}
