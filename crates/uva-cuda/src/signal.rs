//! Signals between streams: an event, or a stamp in memory.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::devices::context::Context;
use crate::devices::device::Feature;
use crate::error::CudaError;
use crate::event::CudaEvent;
use crate::memory::{SharedBuffer, fill};
use crate::stream::CudaStream;

/// A point in one stream that other streams wait for.
pub trait Signal: fmt::Debug {
    /// Gives the signal when all earlier work of the stream has run.
    ///
    /// # Errors
    /// [`CudaError::Call`].
    fn record(&self, stream: &CudaStream) -> Result<(), CudaError>;

    /// Makes later work on the stream wait for the signal. No host thread waits.
    ///
    /// # Errors
    /// [`CudaError::Call`].
    fn wait(&self, stream: &CudaStream) -> Result<(), CudaError>;
}

impl Signal for CudaEvent {
    fn record(&self, stream: &CudaStream) -> Result<(), CudaError> {
        Self::record(self, stream)
    }

    fn wait(&self, stream: &CudaStream) -> Result<(), CudaError> {
        stream.wait(self)
    }
}

/// A value in a word of shared memory: a signal between processes that cannot share events.
///
/// Only one side writes a word, with increasing values. A wait ends with its value or a higher one. If the writer died,
/// another process may so end the wait: see [`StampSignal::write_now`].
#[derive(Clone, Copy)]
pub struct StampSignal<'b> {
    buffer: &'b SharedBuffer,
    at: usize,
    value: u64,
}

impl<'b> StampSignal<'b> {
    /// Bytes of a word.
    pub const BYTES: usize = size_of::<u64>();

    /// Creates a signal with this value in the word at byte `at` of the buffer. The caller keeps the buffer until the
    /// streams have passed the enqueued work.
    ///
    /// # Errors
    /// [`CudaError::Refused`] if there is no whole, aligned word at `at`.
    pub fn new(buffer: &'b SharedBuffer, at: usize, value: u64) -> Result<Self, CudaError> {
        buffer.slice(at..at.saturating_add(Self::BYTES))?;
        if !at.is_multiple_of(Self::BYTES) {
            return Err(CudaError::Refused(format!("a stamp at byte {at}, which is not a multiple of 8")));
        }
        Ok(Self { buffer, at, value })
    }

    /// Tests a word of the buffer: a stream writes it, waits for it, and clears it again.
    ///
    /// # Errors
    /// [`CudaError::Unsupported`] when the device has no such operations; [`CudaError::Call`].
    pub fn check(context: &Arc<Context>, buffer: &'b SharedBuffer, at: usize) -> Result<(), CudaError> {
        let device = context.device();
        if !device.supports(Feature::StreamMemoryOperations)? {
            return Err(CudaError::Unsupported(format!(
                "device {} ({}) has no stream memory operations of 64 bits, which stamps need",
                device.ordinal(),
                device.name()
            )));
        }
        let (stream, one) = (CudaStream::new(context)?, Self::new(buffer, at, 1)?);
        one.record(&stream)?;
        one.wait(&stream)?;
        Self::new(buffer, at, 0)?.record(&stream)?;
        stream.synchronize()
    }

    fn address(&self) -> u64 {
        self.buffer.address() + self.at as u64
    }

    /// Writes the value from the host, bypassing all queues, and waits for it. Ends waits for a writer that has died.
    ///
    /// # Errors
    /// [`CudaError::Call`].
    pub fn write_now(&self) -> Result<(), CudaError> {
        let stream = CudaStream::new(self.buffer.context())?;
        self.record(&stream)?;
        stream.synchronize()
    }
}

/// Clears words of an unused buffer.
///
/// # Errors
/// [`CudaError::Refused`] if they are out of range; [`CudaError::Call`].
pub fn clear_stamps(buffer: &SharedBuffer, words: Range<usize>) -> Result<(), CudaError> {
    let bytes = buffer.slice(words)?;
    let stream = CudaStream::new(buffer.context())?;
    // SAFETY: within the buffer, which is not used yet; it exists until the stream has been waited for.
    unsafe { fill(&stream, bytes.address(), 0, bytes.bytes()) }?;
    stream.synchronize()
}

impl fmt::Debug for StampSignal<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("StampSignal")
            .field("at", &self.at)
            .field("value", &self.value)
            .finish_non_exhaustive()
    }
}

impl Signal for StampSignal<'_> {
    /// The write is ordered after all earlier writes of the stream, for every reader of the device: the driver fences
    /// it by default.
    fn record(&self, stream: &CudaStream) -> Result<(), CudaError> {
        stream.context().bind()?;
        // SAFETY: an aligned word of device memory that is mapped in this context, and the stream's context is of the
        // same device. Flags are the default.
        unsafe {
            driver_call!(
                cuStreamWriteValue64_v2(stream.handle(), self.address(), self.value, 0),
                "making a stream write a stamp"
            )
        }
    }

    fn wait(&self, stream: &CudaStream) -> Result<(), CudaError> {
        stream.context().bind()?;
        // SAFETY: as above. The default flag waits for this value or a higher one.
        unsafe {
            driver_call!(
                cuStreamWaitValue64_v2(stream.handle(), self.address(), self.value, 0),
                "making a stream wait for a stamp"
            )
        }
    }
}
