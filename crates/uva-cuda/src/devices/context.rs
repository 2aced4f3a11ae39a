//! The context that owns all objects on a device.

use std::sync::Arc;

use cudarc::driver::sys;

use crate::devices::device::Device;
use crate::error::CudaError;

/// A device's primary context, retained for the lifetime of the value. libtorch uses the same one, so addresses,
/// streams and events of either side are valid on the other.
///
/// Or a green context of it ([`GreenPartition`](crate::partition::GreenPartition)): the same, with some of the
/// multiprocessors. The driver requires that an event is created in the context whose streams record it
/// ([`CudaStream::made_in`](crate::CudaStream::made_in)). Everything else is made in the primary context.
///
/// CUDA keeps a current context per thread. Every call of every object here first makes its own context current, and
/// leaves it current. Code that has another context current on the thread, such as libtorch for another device, must
/// set its own again.
#[derive(Debug)]
pub struct Context {
    device: Device,
    raw: sys::CUcontext,
    hold: Hold,
}

/// The resource that is released with the value.
#[derive(Debug)]
enum Hold {
    /// A count of the device's primary context.
    Primary,
    /// A green context, and the primary one that it depends on.
    Green { green: sys::CUgreenCtx, primary: Arc<Context> },
}

// SAFETY: a CUcontext is a handle that any thread may make current; the driver locks what it shares.
unsafe impl Send for Context {}
// SAFETY: as above; nothing here is mutated.
unsafe impl Sync for Context {}

impl Context {
    /// Retains the primary context of a device, creating it if needed, and makes it current on this thread.
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
        let context = Arc::new(Self { device, raw, hold: Hold::Primary });
        context.bind()?;
        Ok(context)
    }

    /// Takes over a green context: it is destroyed with the value, or if this fails.
    ///
    /// # Errors
    /// [`CudaError::Call`].
    ///
    /// # Safety
    /// `green` was made on the device of `primary`, and is not destroyed by other code.
    pub(crate) unsafe fn of_green(
        primary: &Arc<Self>,
        green: sys::CUgreenCtx,
    ) -> Result<Arc<Self>, CudaError> {
        let (device, primary) = (primary.device.clone(), Arc::clone(primary));
        let mut context = Self { device, raw: std::ptr::null_mut(), hold: Hold::Green { green, primary } };
        // SAFETY: writes one handle; the green context lives.
        unsafe {
            driver_call!(
                cuCtxFromGreenCtx(&mut context.raw, green),
                "making a green context of device {} usable for events",
                context.device.ordinal()
            )
        }?;
        Ok(Arc::new(context))
    }

    /// The device's primary context: this one, unless it is green.
    pub fn primary_of(self: &Arc<Self>) -> &Arc<Self> {
        match &self.hold {
            Hold::Primary => self,
            Hold::Green { primary, .. } => primary,
        }
    }

    /// The green context as the driver's functions take it.
    pub(crate) fn green(&self) -> Option<sys::CUgreenCtx> {
        match &self.hold {
            Hold::Primary => None,
            Hold::Green { green, .. } => Some(*green),
        }
    }

    /// Makes the context current on this thread.
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

    /// Waits for all work enqueued in this context, by any code of this process.
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

    /// The device of the context.
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
        // An error is ignored: the process ends or the context is already lost, and recovery is not possible.
        let _ = match &self.hold {
            // SAFETY: retained once in `primary`, released once here. All objects in the context hold an Arc of it.
            Hold::Primary => unsafe {
                driver_call!(cuDevicePrimaryCtxRelease_v2(self.device.handle()), "releasing a context")
            },
            // SAFETY: ours alone, destroyed once. Its streams and events hold an Arc of this value, so none is left, and
            // the driver requires this order.
            Hold::Green { green, .. } => unsafe {
                driver_call!(cuGreenCtxDestroy(*green), "destroying a green context")
            },
        };
    }
}
