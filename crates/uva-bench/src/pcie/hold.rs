//! Streams held until all timed work has been enqueued: nvbandwidth's method.
//!
//! The timed work then runs without gaps or the cost of enqueueing. While a stream is held, the host must not wait for
//! anything on the stream: no copy from or to unpinned memory, no allocation, no free.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use uva_cuda::kernels::gather::GatherKernels;
use uva_cuda::memory::PinnedBuffer;
use uva_cuda::{Context, CudaError, CudaStream};

/// A word that held streams wait for.
pub(super) struct Hold {
    flag: PinnedBuffer,
}

impl Hold {
    pub(super) fn new(context: &Arc<Context>) -> Result<Self, CudaError> {
        Ok(Self { flag: PinnedBuffer::new(context, 4, "the word that holds streams")? })
    }

    /// From now on, streams that reach [`Closed::enqueue`] wait until the returned value is dropped. The caller must
    /// have synchronised all streams that waited since the last close, or they may wait again. It must synchronise all
    /// of them before this value is dropped.
    pub(super) fn close(&self) -> Closed<'_> {
        let closed = Closed { hold: self };
        closed.set(0);
        closed
    }
}

/// A closed [`Hold`].
pub(super) struct Closed<'h> {
    hold: &'h Hold,
}

impl Closed<'_> {
    /// Enqueues the wait.
    pub(super) fn enqueue(&self, kernels: &GatherKernels, stream: &CudaStream) -> Result<(), CudaError> {
        // SAFETY: four aligned bytes of pinned memory. The code that closed the hold keeps them until the stream has
        // been waited for. They are set when this value is dropped, and the drop waits for no stream.
        unsafe { kernels.spin_until(stream, self.hold.flag.address()) }
    }

    fn set(&self, value: u32) {
        let word = self.hold.flag.as_ptr().cast::<u32>().cast_mut();
        // SAFETY: four aligned bytes that live as long as the hold. Only atomics read and write them, and a kernel that
        // reads them as a volatile word.
        unsafe { AtomicU32::from_ptr(word) }.store(value, Ordering::Release);
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.set(1);
    }
}
