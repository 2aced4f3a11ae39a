//! Device memory by handle, as created by cuMemCreate, and its mappings.

use std::ffi::c_void;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use cudarc::driver::sys::{
    self, CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationGranularity_flags, CUmemAllocationHandleType,
    CUmemAllocationProp, CUmemAllocationType, CUmemLocation, CUmemLocationType,
};

use crate::devices::context::Context;
use crate::error::CudaError;
use crate::memory::lack::explain_lack;

/// Memory of a device that has no address yet. It is freed with its last handle, mapping and descriptor in any process.
#[derive(Debug)]
pub(super) struct Physical {
    /// The calls do not need a current context, but a driver with a context.
    context: Arc<Context>,
    handle: sys::CUmemGenericAllocationHandle,
    bytes: usize,
}

impl Physical {
    /// Allocates at least `bytes` exportable bytes on the context's device, rounded up to the driver's granularity.
    /// `direct` requests memory that other devices may write to. `what` names it in messages.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`] with the free bytes; [`CudaError::Refused`] for more than can be addressed;
    /// [`CudaError::Call`].
    pub fn create(context: &Arc<Context>, bytes: usize, what: &str, direct: bool) -> Result<Self, CudaError> {
        context.bind()?;
        let properties = properties(context, direct);
        let mut granularity = 0;
        // SAFETY: writes one size; the properties are complete.
        unsafe {
            driver_call!(
                cuMemGetAllocationGranularity(
                    &mut granularity,
                    &properties,
                    CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM
                ),
                "asking in which steps shared memory for {what} is made"
            )
        }?;
        let allocated = bytes.max(1).checked_next_multiple_of(granularity.max(1)).ok_or_else(|| {
            CudaError::Refused(format!("{what}: {bytes} bytes are more than can be addressed"))
        })?;
        let mut handle = 0;
        // SAFETY: writes one handle; the size is a multiple of the granularity, the flags must be 0.
        unsafe {
            driver_call!(
                cuMemCreate(&mut handle, allocated, &properties, 0),
                "making {allocated} bytes of shared device memory for {what}"
            )
        }
        .map_err(|error| explain_lack(context, what, allocated as u64, error))?;
        Ok(Self { context: Arc::clone(context), handle, bytes: allocated })
    }

    /// Memory of `bytes` bytes that another process exported, on any device that this one reads.
    ///
    /// # Errors
    /// [`CudaError::Call`].
    pub fn import(context: &Arc<Context>, fd: OwnedFd, bytes: usize, what: &str) -> Result<Self, CudaError> {
        context.bind()?;
        let mut handle = 0;
        // SAFETY: writes one handle. For this handle type the "pointer" is the descriptor's number, and any open
        // descriptor may be passed. The driver keeps its own reference, so ours is closed below.
        unsafe {
            driver_call!(
                cuMemImportFromShareableHandle(
                    &mut handle,
                    fd.as_raw_fd() as usize as *mut c_void,
                    CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
                ),
                "opening {what} from another process"
            )
        }?;
        drop(fd);
        Ok(Self { context: Arc::clone(context), handle, bytes })
    }

    /// A descriptor with which another process imports the memory. It can be exported any number of times.
    ///
    /// # Errors
    /// [`CudaError::Call`]; [`CudaError::System`] when the descriptor can't be marked to be closed on exec.
    pub fn export(&self, what: &str) -> Result<OwnedFd, CudaError> {
        let mut fd: i32 = -1;
        // SAFETY: for this handle type the driver writes one int, a new descriptor.
        unsafe {
            driver_call!(
                cuMemExportToShareableHandle(
                    (&raw mut fd).cast::<c_void>(),
                    self.handle,
                    CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                    0
                ),
                "exporting {what} to another process"
            )
        }?;
        // SAFETY: the call has succeeded, so the descriptor is open, and only we close it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // The driver doesn't promise close-on-exec, and a child that inherits the descriptor would keep the memory alive.
        rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC).map_err(|error| {
            CudaError::System(format!("marking the descriptor of {what} to be closed on exec: {error}"))
        })?;
        Ok(fd)
    }

    /// Its bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Physical {
    fn drop(&mut self) {
        // An error has no remedy: the memory stays until the process ends.
        if self.context.bind().is_ok() {
            // SAFETY: created or imported once, released once. What is still mapped stays until it is unmapped.
            let _ = unsafe { driver_call!(cuMemRelease(self.handle), "releasing shared memory") };
        }
    }
}

/// Contiguous mappings in one range of addresses, which the context's device reads and writes. Dropping it undoes each
/// completed step in reverse, also after a partly failed mapping.
#[derive(Debug)]
pub(super) struct Mapping {
    /// The mapping calls do not need a current context, but a driver with a context.
    _context: Arc<Context>,
    address: u64,
    bytes: usize,
    reserved: bool,
    /// How many of `parts` are mapped.
    mapped: usize,
    /// Kept, because exports are made from their handles. Declared last: released when nothing is mapped any more.
    parts: Vec<Physical>,
}

impl Mapping {
    /// Maps these parts, of which there is at least one, one after another.
    ///
    /// # Errors
    /// [`CudaError::Call`], for example if this device cannot access the memory of another.
    pub fn new(context: &Arc<Context>, parts: Vec<Physical>, what: &str) -> Result<Self, CudaError> {
        let bytes = parts.iter().map(Physical::bytes).sum();
        let mut mapping =
            Self { _context: Arc::clone(context), address: 0, bytes, reserved: false, mapped: 0, parts };
        // SAFETY: writes one address; alignment 0 is the default, address 0 lets the driver choose, flags must be 0.
        unsafe {
            driver_call!(
                cuMemAddressReserve(&mut mapping.address, bytes, 0, 0, 0),
                "reserving {bytes} bytes of addresses for {what}"
            )
        }?;
        mapping.reserved = true;
        let mut at = mapping.address;
        for part in &mapping.parts {
            // SAFETY: the range was just reserved, and the parts add up to it: no memory is mapped in this part's
            // range. The allocation has the same size (the driver refuses a smaller one). Offset and flags must be 0.
            unsafe { driver_call!(cuMemMap(at, part.bytes, 0, part.handle, 0), "mapping {what}") }?;
            at += part.bytes as u64;
            mapping.mapped += 1;
        }
        let access = CUmemAccessDesc {
            location: location(context),
            flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: the whole range is mapped; one description is passed and counted.
        unsafe {
            driver_call!(
                cuMemSetAccess(mapping.address, bytes, &access, 1),
                "giving the device access to {what}"
            )
        }?;
        Ok(mapping)
    }

    /// The first address.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Bytes of all parts.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The parts, in the order of their addresses.
    pub fn parts(&self) -> &[Physical] {
        &self.parts
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // An error has no remedy here: the addresses or the memory stay until the process ends.
        let mut at = self.address;
        for part in &self.parts[..self.mapped] {
            // SAFETY: exactly the range that was mapped, whole, once.
            let _ = unsafe { driver_call!(cuMemUnmap(at, part.bytes), "unmapping shared memory") };
            at += part.bytes as u64;
        }
        if self.reserved {
            // SAFETY: exactly the range that was reserved, no longer mapped, once.
            let _ = unsafe { driver_call!(cuMemAddressFree(self.address, self.bytes), "freeing addresses") };
        }
    }
}

fn location(context: &Context) -> CUmemLocation {
    CUmemLocation {
        type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
        // The driver's handle of a device is its ordinal, which this call expects.
        id: context.device().handle(),
    }
}

/// The properties of an allocation. `direct` requests memory that other devices may write to.
fn properties(context: &Context, direct: bool) -> CUmemAllocationProp {
    CUmemAllocationProp {
        type_: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        // Must be requested at creation: an allocation without it can't be exported.
        requestedHandleTypes: CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        location: location(context),
        win32HandleMetaData: std::ptr::null_mut(),
        allocFlags: sys::CUmemAllocationProp_st__bindgen_ty_1 {
            compressionType: 0,
            gpuDirectRDMACapable: u8::from(direct),
            usage: 0,
            reserved: [0; 4],
        },
    }
}
