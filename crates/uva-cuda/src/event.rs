//! Events, which order streams and processes.

use std::ffi::c_char;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUevent_flags};

use crate::devices::context::Context;
use crate::error::{CudaError, check_query};
use crate::stream::CudaStream;

/// The size of an interprocess event's handle in bytes.
pub const EVENT_HANDLE_BYTES: usize = 64;

/// An event. Each [`CudaEvent::record`] replaces the previous record.
///
/// It must be recorded on streams of the context in which it was created: see [`CudaStream::made_in`]. Streams of any
/// context may wait for it.
///
/// An event shared with another process is in memory of both. The process that created it must outlive the peer's use
/// of it. After a peer's death, its events must not be used, not even destroyed: see [`CudaEvent::forget`].
#[derive(Debug)]
pub struct CudaEvent {
    context: Arc<Context>,
    raw: sys::CUevent,
}

// SAFETY: a CUevent is a handle that any thread may use while its context lives; the Arc keeps it alive.
unsafe impl Send for CudaEvent {}
// SAFETY: as above; the driver orders records and queries.
unsafe impl Sync for CudaEvent {}

impl CudaEvent {
    /// An event for ordering only, within this process: cheaper than one with timing.
    ///
    /// # Errors
    /// [`CudaError::Call`].
    pub fn local(context: &Arc<Context>) -> Result<Self, CudaError> {
        Self::new(context, CUevent_flags::CU_EVENT_DISABLE_TIMING as u32, "an event")
    }

    /// An event that records the time when it is reached.
    ///
    /// # Errors
    /// [`CudaError::Call`].
    pub fn timing(context: &Arc<Context>) -> Result<Self, CudaError> {
        Self::new(context, CUevent_flags::CU_EVENT_DEFAULT as u32, "an event that takes the time")
    }

    /// An event that another process can open. The driver requires it to be made without timing.
    ///
    /// # Errors
    /// [`CudaError::Call`].
    pub fn interprocess(context: &Arc<Context>) -> Result<Self, CudaError> {
        let flags =
            CUevent_flags::CU_EVENT_INTERPROCESS as u32 | CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        Self::new(context, flags, "an event that processes share")
    }

    fn new(context: &Arc<Context>, flags: u32, what: &str) -> Result<Self, CudaError> {
        context.bind()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: writes one handle; the context is current.
        unsafe {
            driver_call!(
                cuEventCreate(&mut raw, flags),
                "making {what} on device {}",
                context.device().ordinal()
            )
        }?;
        Ok(Self { context: Arc::clone(context), raw })
    }

    /// Records all work on the stream so far. The stream must belong to the event's context ([`CudaStream::made_in`]).
    /// Waits enqueued before this call refer to the previous record.
    ///
    /// # Errors
    /// [`CudaError::Call`]: a driver may refuse a stream of another context, a green one of the same device included.
    pub fn record(&self, stream: &CudaStream) -> Result<(), CudaError> {
        self.context.bind()?;
        // SAFETY: both handles live.
        unsafe { driver_call!(cuEventRecord(self.raw, stream.handle()), "recording an event") }
    }

    /// Whether all work captured by the last record has run. True for an event that was never recorded.
    ///
    /// # Errors
    /// [`CudaError::Call`], which may also report an error of earlier work.
    pub fn query(&self) -> Result<bool, CudaError> {
        self.context.bind()?;
        // SAFETY: the handle lives.
        let code = unsafe { (crate::devices::driver::loaded().cuEventQuery)(self.raw) };
        check_query("cuEventQuery", code, || "asking whether an event has been reached".to_owned())
    }

    /// Waits for all work captured by the last record. The driver's wait cannot be interrupted: if a peer dies during
    /// the wait, it may never return. So poll a peer's event with [`CudaEvent::query`], and check the peer's liveness
    /// as well.
    ///
    /// # Errors
    /// [`CudaError::Call`], which may also report an error of earlier work.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        self.context.bind()?;
        // SAFETY: the handle lives.
        unsafe { driver_call!(cuEventSynchronize(self.raw), "waiting for an event") }
    }

    /// Milliseconds between two events made by [`CudaEvent::timing`], both recorded and reached. The resolution is about
    /// half a microsecond.
    ///
    /// # Errors
    /// [`CudaError::Call`]: for instance CUDA_ERROR_NOT_READY if one has not been reached, CUDA_ERROR_INVALID_HANDLE if
    /// one has no timing or was never recorded.
    pub fn elapsed_ms(start: &Self, end: &Self) -> Result<f32, CudaError> {
        start.context.bind()?;
        let mut milliseconds = 0.0;
        // SAFETY: writes one float; both handles live.
        unsafe {
            driver_call!(
                cuEventElapsedTime_v2(&mut milliseconds, start.raw, end.raw),
                "reading the time between two events"
            )
        }?;
        Ok(milliseconds)
    }

    /// The bytes a peer needs to open this event, which was made by [`CudaEvent::interprocess`]. Valid while this value
    /// lives.
    ///
    /// # Errors
    /// [`CudaError::Call`].
    pub fn export(&self) -> Result<[u8; EVENT_HANDLE_BYTES], CudaError> {
        self.context.bind()?;
        let mut handle = sys::CUipcEventHandle { reserved: [0; EVENT_HANDLE_BYTES] };
        // SAFETY: writes one handle; the event lives.
        unsafe {
            driver_call!(cuIpcGetEventHandle(&mut handle, self.raw), "exporting an event to another process")
        }?;
        Ok(handle.reserved.map(|byte| byte as u8))
    }

    /// Opens an event of another process, made by [`CudaEvent::interprocess`]. CUDA does not promise that a process can
    /// open its own.
    ///
    /// # Errors
    /// [`CudaError::Call`].
    pub fn import(context: &Arc<Context>, handle: [u8; EVENT_HANDLE_BYTES]) -> Result<Self, CudaError> {
        context.bind()?;
        let handle = sys::CUipcEventHandle { reserved: handle.map(|byte| byte as c_char) };
        let mut raw = std::ptr::null_mut();
        // SAFETY: writes one handle; any 64 bytes may be passed, and the driver refuses invalid ones.
        unsafe {
            driver_call!(cuIpcOpenEventHandle(&mut raw, handle), "opening an event of another process")
        }?;
        Ok(Self { context: Arc::clone(context), raw })
    }

    /// Drops the event without a call to the driver. For events shared with a process that has died, whose destruction
    /// is undefined. Its few bytes are freed when this process ends.
    pub fn forget(self) {
        let event = std::mem::ManuallyDrop::new(self);
        // The context is ours and may still be released.
        // SAFETY: the value is never used or dropped again, so its Arc is read out exactly once.
        drop(unsafe { std::ptr::read(&event.context) });
    }
}

impl CudaStream {
    /// Makes later work on this stream wait for the work captured by the event's *last record before this call*. An
    /// event that was never recorded causes no wait. No host thread waits.
    ///
    /// # Errors
    /// [`CudaError::Call`].
    pub fn wait(&self, event: &CudaEvent) -> Result<(), CudaError> {
        self.context().bind()?;
        // SAFETY: both handles live; flags are the default.
        unsafe {
            driver_call!(cuStreamWaitEvent(self.handle(), event.raw, 0), "making a stream wait for an event")
        }
    }
}

impl Drop for CudaEvent {
    fn drop(&mut self) {
        // Without the context the event is already gone, so errors are ignored.
        if self.context.bind().is_ok() {
            // SAFETY: made or opened by us, destroyed once; waits already enqueued on it stay valid (cuda.h).
            let _ = unsafe { driver_call!(cuEventDestroy_v2(self.raw), "destroying an event") };
        }
    }
}
