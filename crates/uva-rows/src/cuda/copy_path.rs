//! The way by copies: rows gathered by the CPU into pinned pieces, each copied to the device while the next is
//! gathered.

use std::sync::Arc;

use uva_cuda::memory::{PinnedBuffer, host_to_device};
use uva_cuda::{Context, CudaError, Event, Stream};

use crate::cuda::{FillError, GatherTable};
use crate::{GatherError, HostGather, RowGather};

/// Bytes of a piece, about: a copy engine is at its full rate well below this, and a piece still fits in a CPU's last
/// cache on its way.
const PIECE_BYTES: usize = 4 << 20;

/// Pieces. With two, a copy and a gather already overlap; two more absorb unevenness.
const PIECES: usize = 4;

/// The way by copies: its threads, its pieces and its stream.
pub struct CopyPath {
    /// Reads `table`: the field below.
    host: HostGather<'static>,
    pieces: Vec<Piece>,
    next: usize,
    piece_rows: usize,
    row_bytes: usize,
    /// Where the copies are enqueued.
    pub stream: Stream,
    /// Keeps alive what `host` reads; declared after it, so dropped after it.
    _table: GatherTable,
}

struct Piece {
    buffer: PinnedBuffer,
    /// Recorded behind the last copy from `buffer`.
    read: Event,
}

impl CopyPath {
    /// A way for rows of `row_bytes` bytes (at least 1) of `table`, gathered by `threads` threads.
    ///
    /// # Errors
    /// [`FillError::Layout`] for a table that the CPU cannot read; [`FillError::Rows`] when there are no threads;
    /// [`FillError::Cuda`].
    pub fn new(
        context: &Arc<Context>,
        table: &GatherTable,
        row_bytes: usize,
        threads: usize,
    ) -> Result<Self, FillError> {
        let Some(bytes) = table.host() else {
            return Err(FillError::Layout("rows of a table on the device are not the CPU's to copy".into()));
        };
        let bytes: *const [u8] = bytes;
        // SAFETY: the bytes stay in place and unchanged while the table is held, which `_table` does for longer than
        // `host`, the only one that has them.
        let bytes: &'static [u8] = unsafe { &*bytes };
        // Whole rows: what is left behind them is nobody's.
        let bytes = &bytes[..bytes.len() - bytes.len() % row_bytes.max(1)];
        let host = HostGather::new(bytes, row_bytes, threads)?;
        let piece_rows = (PIECE_BYTES / row_bytes).max(1);
        let pieces = (0..PIECES)
            .map(|_| {
                let buffer =
                    PinnedBuffer::new(context, piece_rows * row_bytes, "rows on their way to the GPU")?;
                Ok(Piece { buffer, read: Event::local(context)? })
            })
            .collect::<Result<Vec<_>, CudaError>>()?;
        let stream = Stream::new(context)?;
        Ok(Self { host, pieces, next: 0, piece_rows, row_bytes, stream, _table: table.clone() })
    }

    /// The first of `ids` that is no row of the table, as an error.
    ///
    /// # Errors
    /// [`FillError::Rows`].
    pub fn check(&self, ids: &[i64]) -> Result<(), FillError> {
        let rows = self.host.rows();
        // A negative id becomes a number above any number of rows.
        match ids.iter().position(|&id| id as u64 >= rows as u64) {
            Some(position) => Err(GatherError::IdOutOfRange { position, id: ids[position], rows }.into()),
            None => Ok(()),
        }
    }

    /// Gathers the rows of `ids`, which have been [checked](CopyPath::check), and enqueues their copies to the device
    /// address `to`. The CPU's part is done when it returns; it waits for the GPU only where all pieces are still being
    /// read.
    ///
    /// # Errors
    /// [`CudaError`].
    ///
    /// # Safety
    /// `to` is device memory for as many rows, which nobody else uses until the stream has passed this; the pieces live
    /// until then.
    pub unsafe fn enqueue(&mut self, ids: &[i64], to: u64) -> Result<(), CudaError> {
        let mut to = to;
        for ids in ids.chunks(self.piece_rows) {
            let piece = &mut self.pieces[self.next];
            self.next = (self.next + 1) % PIECES;
            // True at once for an event that was never recorded.
            if !piece.read.query()? {
                piece.read.synchronize()?;
            }
            let bytes = ids.len() * self.row_bytes;
            let rows = &mut piece.buffer.as_mut_slice()[..bytes];
            // The ids have been checked, so this is an error of ours if it is one; copies may be under way already.
            self.host.gather(ids, rows).map_err(|error| CudaError::System(error.to_string()))?;
            // SAFETY: the target is the caller's promise; the piece isn't written again before `read` has been reached.
            unsafe { host_to_device(&self.stream, rows, to)? };
            piece.read.record(&self.stream)?;
            to += bytes as u64;
        }
        Ok(())
    }
}
