//! Host pages registered with the driver in chunks, and their release.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::sys::{CU_MEMHOSTREGISTER_READ_ONLY, CUdevice_attribute};

use crate::devices::context::Context;
use crate::error::CudaError;
use crate::memory::bytes::ByteCount;

/// The system's page size, to which every registration is aligned.
pub(super) fn page_bytes() -> usize {
    rustix::param::page_size()
}

/// Makes the kernel read a file's pages ahead of single accesses: a mapping with random-access advice is otherwise read
/// page by page, which takes hours from disk. It is only advice, and has no effect on memory without a file.
pub(super) fn read_ahead(bytes: &[u8]) {
    let page = page_bytes();
    let lead = bytes.as_ptr() as usize % page;
    let from = bytes.as_ptr().wrapping_sub(lead).cast_mut();
    // SAFETY: whole mapped pages (each holds a byte of the slice), and this advice changes nothing that a program sees.
    let _ = unsafe { rustix::mm::madvise(from.cast(), lead + bytes.len(), rustix::mm::Advice::WillNeed) };
}

/// Host pages registered with the driver, chunk by chunk. Dropping it unregisters them in reverse, also after a partial
/// registration.
pub(super) struct RegisteredPages {
    context: Arc<Context>,
    /// The first page on the host.
    host: *mut u8,
    /// The device address of the same page.
    address: u64,
    /// Length of each chunk, in order of registration; they are contiguous.
    chunks: Vec<usize>,
}

// SAFETY: the pointer is a number here: an address to unregister, never read through.
unsafe impl Send for RegisteredPages {}
// SAFETY: as above.
unsafe impl Sync for RegisteredPages {}

impl RegisteredPages {
    pub(super) fn none(context: &Arc<Context>) -> Self {
        Self { context: Arc::clone(context), host: std::ptr::null_mut(), address: 0, chunks: Vec::new() }
    }

    /// Registers `bytes` bytes from `host` on in chunks of `chunk` bytes, and finds their device address.
    ///
    /// # Safety
    /// `host` begins a page, `bytes` is whole pages, all mapped, and they stay mapped while the value lives.
    pub(super) unsafe fn new(
        context: &Arc<Context>,
        host: *mut u8,
        bytes: usize,
        chunk: usize,
        flags: u32,
        what: &str,
    ) -> Result<Self, CudaError> {
        let page = page_bytes();
        let chunk = (chunk / page * page).max(page);
        let count = bytes.div_ceil(chunk);
        context.bind()?;
        // From here on, `registered` undoes on an error what was done.
        let mut registered = Self::none(context);
        registered.host = host;
        for part in 0..count {
            let offset = part * chunk;
            let length = chunk.min(bytes - offset);
            let start = host.wrapping_add(offset);
            // SAFETY: mapped pages, by the caller's promise.
            read_ahead(unsafe { std::slice::from_raw_parts(start, length) });
            // SAFETY: mapped pages that stay so until they're unregistered, by the caller's promise.
            unsafe {
                driver_call!(
                    cuMemHostRegister_v2(start.cast::<c_void>(), length, flags),
                    "pinning {what}, part {} of {count} ({}{})",
                    part + 1,
                    ByteCount(length as u64),
                    if flags & CU_MEMHOSTREGISTER_READ_ONLY == 0 { "" } else { ", read-only" }
                )
            }?;
            registered.chunks.push(length);
        }
        registered.address = registered.device_address(chunk, what)?;
        Ok(registered)
    }

    /// The device address of the first page, if all the others follow it contiguously.
    fn device_address(&self, chunk: usize, what: &str) -> Result<u64, CudaError> {
        let mut first = 0;
        for part in 0..self.chunks.len() {
            let mut address = 0;
            let start = self.host.wrapping_add(part * chunk);
            // SAFETY: writes one address; the pointer begins a registration.
            unsafe {
                driver_call!(
                    cuMemHostGetDevicePointer_v2(&mut address, start.cast::<c_void>(), 0),
                    "asking where the device sees part {} of {what}",
                    part + 1
                )
            }?;
            if part == 0 {
                first = address;
            }
            if address != first + (part * chunk) as u64 {
                return self.host_address(what);
            }
        }
        Ok(first)
    }

    /// The host's own address, which is contiguous by nature. A device may use it instead of the other (cuda.h) if it
    /// has the attribute queried here. It's only used if the other fails, never both.
    fn host_address(&self, what: &str) -> Result<u64, CudaError> {
        let device = self.context.device();
        let attribute = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM;
        if device.attribute(attribute)? != 0 {
            return Ok(self.host as u64);
        }
        Err(CudaError::Unsupported(format!(
            "device {} ({}) sees the {} parts in which {what} was pinned at addresses that don't join; hide other devices \
             with CUDA_VISIBLE_DEVICES, or gather on the CPU with `gather=cpu`",
            device.ordinal(),
            device.name(),
            self.chunks.len()
        )))
    }

    pub(super) fn bytes(&self) -> usize {
        self.chunks.iter().sum()
    }

    /// The number of chunks.
    pub(super) fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// The device address of the first page.
    pub(super) fn address(&self) -> u64 {
        self.address
    }

    /// The context of the registrations.
    pub(super) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// The device address of the first of `bytes`, which lie within the registered range.
    pub(super) fn address_of(&self, bytes: &[u8]) -> u64 {
        self.address + (bytes.as_ptr() as u64 - self.host as u64)
    }
}

impl Drop for RegisteredPages {
    fn drop(&mut self) {
        // Without the context there are no registrations left; errors are ignored.
        if self.chunks.is_empty() || self.context.bind().is_err() {
            return;
        }
        let mut end = self.bytes();
        for &length in self.chunks.iter().rev() {
            end -= length;
            // SAFETY: the start of a registration of ours, undone once. The owner promises that no kernel reads it any
            // more.
            let _ = unsafe {
                driver_call!(
                    cuMemHostUnregister(self.host.wrapping_add(end).cast::<c_void>()),
                    "unpinning a table"
                )
            };
        }
    }
}
