//! A queue of work for the device, which runs in order.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::sys;

use crate::devices::context::Context;
use crate::error::{CudaError, check_query};

/// A stream. Its work runs in order; only events order different streams.
#[derive(Debug)]
pub struct CudaStream {
    /// The primary context.
    context: Arc<Context>,
    /// The primary context or a green one, which lives as long as the stream.
    made_in: Arc<Context>,
    raw: sys::CUstream,
    ownership: Ownership,
}

#[derive(Debug)]
enum Ownership {
    /// Destroyed with the value.
    Own,
    /// Borrowed: never destroyed here.
    Foreign,
}

// SAFETY: a CUstream is a handle that any thread may use while its context lives; the Arc keeps it alive.
unsafe impl Send for CudaStream {}
// SAFETY: as above; the driver locks a stream's queue.
unsafe impl Sync for CudaStream {}

impl CudaStream {
    /// A new stream. It is not synchronised with the legacy default stream.
    ///
    /// # Errors
    /// [`CudaError::Call`].
    pub fn new(context: &Arc<Context>) -> Result<Self, CudaError> {
        context.bind()?;
        let mut raw = std::ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: writes one handle; the context is current. Priority 0 is the default of every device.
        unsafe {
            driver_call!(
                cuStreamCreateWithPriority(&mut raw, flags, 0),
                "making a stream on device {}",
                context.device().ordinal()
            )
        }?;
        let context = Arc::clone(context);
        Ok(Self { made_in: Arc::clone(&context), context, raw, ownership: Ownership::Own })
    }

    /// Takes over a stream of a green context, which is kept until the stream is destroyed.
    ///
    /// # Safety
    /// `raw` is a stream of that context that is not destroyed by other code.
    pub(crate) unsafe fn of_green(green: &Arc<Context>, raw: sys::CUstream) -> Self {
        let (context, made_in) = (Arc::clone(green.primary_of()), Arc::clone(green));
        Self { context, made_in, raw, ownership: Ownership::Own }
    }

    /// A borrowed stream of this process, such as libtorch's; null is the legacy default stream. It is not destroyed
    /// with the value.
    ///
    /// # Safety
    /// `raw` is null or a stream of this context, and stays one while the value lives.
    pub unsafe fn foreign(context: &Arc<Context>, raw: *mut c_void) -> Self {
        let context = Arc::clone(context);
        Self { made_in: Arc::clone(&context), context, raw: raw.cast(), ownership: Ownership::Foreign }
    }

    /// Waits until all enqueued work has run.
    ///
    /// # Errors
    /// [`CudaError::Call`], which may also report an error of earlier work.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        self.context.bind()?;
        // SAFETY: the handle lives.
        unsafe { driver_call!(cuStreamSynchronize(self.raw), "waiting for a stream") }
    }

    /// Under the simulator, waits for all enqueued work: the host then computes immediately what a device would compute
    /// in stream order. No effect with a driver, so no wait on a GPU.
    ///
    /// # Errors
    /// [`CudaError::Call`] for a fault of earlier work.
    pub fn follow(&self) -> Result<(), CudaError> {
        let Some(follow) = crate::devices::driver::Driver::load()?.follow() else { return Ok(()) };
        self.context.bind()?;
        // SAFETY: the handle lives; the simulator's function takes a stream of the current context.
        let code = unsafe { follow(self.raw) };
        crate::error::check("cudaSimFollow", code, || "following a stream of the simulator".to_owned())
    }

    /// Whether all enqueued work has run.
    ///
    /// # Errors
    /// [`CudaError::Call`], which may also report an error of earlier work.
    pub fn query(&self) -> Result<bool, CudaError> {
        self.context.bind()?;
        // SAFETY: the handle lives.
        let code = unsafe { (crate::devices::driver::loaded().cuStreamQuery)(self.raw) };
        check_query("cuStreamQuery", code, || "asking whether a stream has finished".to_owned())
    }

    /// The primary context of its device.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// The context in which events recorded on this stream are created: its green context, or the primary one.
    pub fn made_in(&self) -> &Arc<Context> {
        &self.made_in
    }

    /// The CUstream, for callers that enqueue by other means; this value still owns it.
    pub fn raw(&self) -> *mut c_void {
        self.raw.cast()
    }

    /// The CUstream as the driver's functions take it.
    pub(crate) fn handle(&self) -> sys::CUstream {
        self.raw
    }
}

impl Drop for CudaStream {
    fn drop(&mut self) {
        if matches!(self.ownership, Ownership::Foreign) {
            return;
        }
        // Destroying needs the context current. Without it the stream is destroyed with the context, so errors are
        // ignored.
        if self.context.bind().is_ok() {
            // SAFETY: made by us, destroyed once. Enqueued work still runs; the driver frees the queue after it.
            let _ = unsafe { driver_call!(cuStreamDestroy_v2(self.raw), "destroying a stream") };
        }
    }
}
