//! The driver's structures as this library reads and writes them. Enumerations come from C code and are plain numbers
//! here, since one out of range would be undefined behaviour in a Rust enum. `tests/types.rs` compares the layouts with
//! cudarc's.

use std::ffi::c_void;

/// CUmemLocation.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct MemLocation {
    pub kind: u32,
    pub id: i32,
}

/// CUmemAllocationProp.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct MemAllocationProp {
    pub kind: u32,
    pub requested_handle_types: u32,
    pub location: MemLocation,
    pub win32_handle_meta_data: *mut c_void,
    /// compressionType, gpuDirectRDMACapable, usage, reserved.
    pub alloc_flags: [u8; 8],
}

/// CUmemAccessDesc.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct MemAccessDesc {
    pub location: MemLocation,
    pub flags: u32,
}

/// CUipcMemHandle and CUipcEventHandle.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct IpcHandle {
    pub reserved: [u8; 64],
}

/// CUuuid.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Uuid {
    pub bytes: [u8; 16],
}

/// CUdevResource, as of CUDA 13.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DevResource {
    pub kind: u32,
    pub internal_padding: [u8; 92],
    pub sm: SmResource,
    pub oversize: [u8; 36],
}

/// CUdevSmResource, as of CUDA 13.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SmResource {
    pub sm_count: u32,
    pub min_sm_partition_size: u32,
    pub sm_coscheduled_alignment: u32,
}

/// CUhostFn.
pub type HostFunction = Option<unsafe extern "C" fn(*mut c_void)>;

pub const LOCATION_DEVICE: u32 = 1;
pub const ALLOCATION_PINNED: u32 = 1;
pub const HANDLE_POSIX_FD: u32 = 1;
pub const RESOURCE_SM: u32 = 1;

/// The kernels' parameters: what `kernels/gather.cuh` declares.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct GatherArguments {
    pub table: u64,
    pub rows: u64,
    pub row_bytes: u64,
    pub ids: u64,
    pub count: u64,
    pub out: u64,
    pub report: u64,
    pub slot_map: u64,
    pub cache: u64,
}

/// Bytes of the kernels' GatherReport.
pub const GATHER_REPORT_BYTES: u64 = 64;
