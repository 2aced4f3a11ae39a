//! The context that owns all objects on a device.

use std::sync::Arc;

use cudarc::driver::sys;

use crate::device::Device;
use crate::error::CudaError;

/// A device's primary context, held while the value lives. libtorch uses the same one, so addresses, streams and events
/// of either side are valid on the other.
///
/// CUDA keeps a current context per thread. Every call of every object here first makes its own context current, and
/// leaves it current. Code that has another context current on the thread, such as libtorch for another device, must
/// set its own again.
#[derive(Debug)]
pub struct Context {
    device: Device,
    raw: sys::CUcontext,
}

// SAFETY: a CUcontext is a handle that any thread may make current; the driver locks what it shares.
unsafe impl Send for Context {}
// SAFETY: as above; nothing here is mutated.
unsafe impl Sync for Context {}

impl Context {
    /// Retains the primary context of a device, creating it if nobody had it, and makes it current on this thread.
    ///
    /// # Errors
    /// As [`Device::new`]; [`CudaError::Call`], for instance when the device is held by another process, or MPS
    /// refuses.
    pub fn primary(ordinal: usize) -> Result<Arc<Self>, CudaError> {
        let device = Device::new(ordinal)?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: writes one handle; the device is the driver's own.
        unsafe {
            driver_call!(
                cuDevicePrimaryCtxRetain(&mut raw, device.handle()),
                "making the context of device {ordinal} ({})",
                device.name()
            )
        }?;
        let context = Arc::new(Self { device, raw });
        context.bind()?;
        Ok(context)
    }

    /// Makes it current on this thread.
    ///
    /// # Errors
    /// [`CudaError::Call`].
    pub fn bind(&self) -> Result<(), CudaError> {
        // SAFETY: the context is retained while `self` lives.
        unsafe {
            driver_call!(
                cuCtxSetCurrent(self.raw),
                "making the context of device {} current on a thread",
                self.device.ordinal()
            )
        }
    }

    /// Waits for all work enqueued in this context, by anyone in this process.
    ///
    /// # Errors
    /// [`CudaError::Call`], which may also report an error of earlier work.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        self.bind()?;
        // SAFETY: acts on the current context, just set.
        unsafe {
            driver_call!(cuCtxSynchronize(), "waiting for all work on device {}", self.device.ordinal())
        }
    }

    /// The device it is on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Free and total bytes of the device's memory, as this process may use it.
    ///
    /// # Errors
    /// [`CudaError::Call`].
    pub fn memory(&self) -> Result<(u64, u64), CudaError> {
        self.bind()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: writes two sizes; the context is current.
        unsafe {
            driver_call!(
                cuMemGetInfo_v2(&mut free, &mut total),
                "asking the free memory of device {}",
                self.device.ordinal()
            )
        }?;
        Ok((free as u64, total as u64))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: retained once in `primary`, released once here. All objects in the context hold an Arc of it.
        // An error is ignored: the process ends or the context is already lost, and nobody could recover from either.
        let _ = unsafe {
            driver_call!(cuDevicePrimaryCtxRelease_v2(self.device.handle()), "releasing a context")
        };
    }
}
