//! Memory of several GPUs at one range of addresses: each process gives some of its own device's, and maps all of it.

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
    /// Allocates at least `bytes` bytes, uninitialised; how many, follows from `bytes` alone on devices of a kind. `what` names
    /// the memory in messages.
    ///
    /// # Errors
    /// [`CudaError::Unsupported`] where the device cannot share memory by descriptor; [`CudaError::OutOfMemory`], with the free
    /// bytes; [`CudaError::Call`].
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

    /// The bytes allocated: those asked for, rounded up to the driver's granularity (2 MiB).
    pub fn bytes(&self) -> usize {
        self.memory.bytes()
    }
}

/// The shares of several devices, one behind the other at one range of addresses. This process's device reads and writes all
/// of it: its own share in its memory, the others over NVLink or PCIe.
///
/// Each process sees the memory at an address of its own. A share outlives the process that made it, as long as another
/// one maps it.
#[derive(Debug)]
pub struct JoinedMemory {
    mapping: Mapping,
}

impl JoinedMemory {
    /// Maps this process's share at place `at`, and the others in their order around it. All shares have as many bytes.
    ///
    /// # Errors
    /// [`CudaError::Call`], where the device cannot reach another's memory for example.
    ///
    /// # Panics
    /// When `at` is larger than the number of the others.
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
