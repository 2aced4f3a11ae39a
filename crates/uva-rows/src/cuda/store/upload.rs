//! Copies host memory to the device, in pieces, through pinned buffers. The source need not be pinned.

use std::sync::Arc;

use uva_cuda::memory::{PinnedBuffer, host_to_device};
use uva_cuda::{Context, CudaError, CudaEvent, CudaStream};

/// The approximate size of a piece in bytes.
pub(crate) const PIECE: usize = 16 << 20;

/// Two alternating pieces: one is written while the other is sent.
pub(crate) struct Upload {
    pieces: [Piece; 2],
    next: usize,
    /// Declared last and waited for in `drop`: the pieces are in use until then.
    stream: CudaStream,
}

struct Piece {
    staging: PinnedBuffer,
    sent: CudaEvent,
}

impl Upload {
    /// Creates an upload with pieces of at most `bytes` bytes.
    pub fn new(context: &Arc<Context>, bytes: usize) -> Result<Self, CudaError> {
        let piece = || {
            let staging = PinnedBuffer::new(context, bytes, "a piece of a table to copy to the device")?;
            Ok::<_, CudaError>(Piece { staging, sent: CudaEvent::local(context)? })
        };
        Ok(Self { pieces: [piece()?, piece()?], next: 0, stream: CudaStream::new(context)? })
    }

    /// Sends one piece of `bytes` bytes, which `write` writes, to the device address `to`. It has arrived after
    /// [`Upload::finish`].
    ///
    /// # Errors
    /// The error of `write`, with nothing sent; [`CudaError`].
    ///
    /// # Panics
    /// If the piece is larger than the size passed to [`Upload::new`].
    ///
    /// # Safety
    /// `to` is `bytes` bytes of device memory that no other code uses until then.
    pub unsafe fn send<E: From<CudaError>>(
        &mut self,
        to: u64,
        bytes: usize,
        write: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Piece { staging, sent } = &mut self.pieces[self.next];
        self.next = 1 - self.next;
        // The buffer's previous copy must have completed. An event that was never recorded counts as completed.
        sent.synchronize()?;
        let piece = &mut staging.as_mut_slice()[..bytes];
        write(piece)?;
        // SAFETY: the target is the caller's promise. The staging buffer is neither freed nor changed until `sent`,
        // recorded after the copy, has been waited for: above, or in `drop`.
        unsafe { host_to_device(&self.stream, piece, to) }?;
        sent.record(&self.stream)?;
        Ok(())
    }

    /// Sends `bytes` in as many pieces as required.
    ///
    /// # Errors
    /// [`CudaError`].
    ///
    /// # Safety
    /// As [`Upload::send`], for all pieces.
    pub unsafe fn send_all(&mut self, to: u64, bytes: &[u8]) -> Result<(), CudaError> {
        let piece = self.pieces[0].staging.bytes().max(1);
        for (number, from) in bytes.chunks(piece).enumerate() {
            let write = |piece: &mut [u8]| {
                piece.copy_from_slice(from);
                Ok::<_, CudaError>(())
            };
            // SAFETY: covered by the caller's promise.
            unsafe { self.send(to + (number * piece) as u64, from.len(), write) }?;
        }
        Ok(())
    }

    /// Waits until all pieces have arrived.
    ///
    /// # Errors
    /// [`CudaError`].
    pub fn finish(self) -> Result<(), CudaError> {
        self.stream.synchronize()
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        // After an error a copy may still be reading a piece. If waiting fails, the context and the copy are gone.
        let _ = self.stream.synchronize();
    }
}
