//! Memory of several GPUs at one range of addresses: each process contributes memory of its own device, and maps all of
//! it.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::mapping::{Mapping, Physical};
use crate::devices::context::Context;
use crate::devices::device::Feature;
use crate::error::CudaError;

/// One device's share of memory that several processes map. It has no address until [`JoinedMemory`] maps it.
#[derive(Debug)]
pub struct Share {
    context: Arc<Context>,
    memory: Physical,
    what: String,
}

impl Share {
    /// Allocates at least `bytes` uninitialised bytes. The actual size depends on `bytes` only, for devices of the same
    /// kind. `what` names the memory in messages.
    ///
    /// # Errors
    /// [`CudaError::Unsupported`] if the device cannot share memory by descriptor; [`CudaError::OutOfMemory`], with the
    /// free bytes; [`CudaError::Call`].
    pub fn new(context: &Arc<Context>, bytes: usize, what: &str) -> Result<Self, CudaError> {
        let device = context.device();
        if !device.supports(Feature::SharedByFd)? {
            return Err(CudaError::Unsupported(format!(
                "device {} ({}) cannot share memory by file descriptor, and {what} would be shared so",
                device.ordinal(),
                device.name()
            )));
        }
        let memory = Physical::create(context, bytes, what, false)?;
        Ok(Self { context: Arc::clone(context), memory, what: what.to_owned() })
    }

    /// A descriptor for another process, to be sent over a socket.
    ///
    /// # Errors
    /// [`CudaError::Call`]; [`CudaError::System`].
    pub fn export(&self) -> Result<OwnedFd, CudaError> {
        self.memory.export(&self.what)
    }

    /// The allocated bytes: the requested bytes, rounded up to the driver's granularity (2 MiB).
    pub fn bytes(&self) -> usize {
        self.memory.bytes()
    }
}

/// The shares of several devices, one after another in one range of addresses. This process's device reads and writes
/// all of it: its own share in its memory, the others over NVLink or PCIe.
///
/// Each process has the memory at a different address. A share outlives the process that created it while another
/// process maps it.
#[derive(Debug)]
pub struct JoinedMemory {
    mapping: Mapping,
}

impl JoinedMemory {
    /// Maps this process's share at place `at`, and the others in order around it. All shares have the same size.
    ///
    /// # Errors
    /// [`CudaError::Call`], for example if the device cannot access another's memory.
    ///
    /// # Panics
    /// If `at` exceeds the number of other shares.
    pub fn new(own: Share, at: usize, others: Vec<OwnedFd>) -> Result<Self, CudaError> {
        let Share { context, memory, what } = own;
        let bytes = memory.bytes();
        let opened = others.into_iter().map(|fd| Physical::import(&context, fd, bytes, &what));
        let mut parts: Vec<Physical> = opened.collect::<Result<_, _>>()?;
        parts.insert(at, memory);
        Ok(Self { mapping: Mapping::new(&context, parts, &what)? })
    }

    /// Its first address in this process.
    pub fn address(&self) -> u64 {
        self.mapping.address()
    }

    /// The bytes of all shares.
    pub fn bytes(&self) -> usize {
        self.mapping.bytes()
    }
}
