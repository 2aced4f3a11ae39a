//! The driver's structures as this library reads and writes them. Enumerations come from C code and are plain numbers
//! here, since a value out of range would be undefined behaviour in a Rust enum. The tests below compare the layouts
//! with cudarc's.

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

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use cudarc::driver::sys;

    use super::*;
    use crate::machine::codes::Code;

    #[test]
    fn structures_have_the_layout_of_the_drivers_header() {
        assert_eq!(size_of::<MemAllocationProp>(), size_of::<sys::CUmemAllocationProp>());
        assert_eq!(
            offset_of!(MemAllocationProp, requested_handle_types),
            offset_of!(sys::CUmemAllocationProp, requestedHandleTypes)
        );
        assert_eq!(offset_of!(MemAllocationProp, location), offset_of!(sys::CUmemAllocationProp, location));
        assert_eq!(
            offset_of!(MemAllocationProp, alloc_flags),
            offset_of!(sys::CUmemAllocationProp, allocFlags)
        );
        assert_eq!(size_of::<MemLocation>(), size_of::<sys::CUmemLocation>());
        assert_eq!(offset_of!(MemLocation, id), offset_of!(sys::CUmemLocation, id));
        assert_eq!(size_of::<MemAccessDesc>(), size_of::<sys::CUmemAccessDesc>());
        assert_eq!(offset_of!(MemAccessDesc, flags), offset_of!(sys::CUmemAccessDesc, flags));
        assert_eq!(size_of::<IpcHandle>(), size_of::<sys::CUipcMemHandle>());
        assert_eq!(size_of::<IpcHandle>(), size_of::<sys::CUipcEventHandle>());
        assert_eq!(size_of::<Uuid>(), size_of::<sys::CUuuid>());
        assert_eq!(size_of::<DevResource>(), size_of::<sys::CUdevResource>());
        assert_eq!(offset_of!(DevResource, sm), offset_of!(sys::CUdevResource, __bindgen_anon_1));
        assert_eq!(size_of::<SmResource>(), size_of::<sys::CUdevSmResource>());
        assert_eq!(
            offset_of!(SmResource, sm_coscheduled_alignment),
            offset_of!(sys::CUdevSmResource, smCoscheduledAlignment)
        );
    }

    #[test]
    fn codes_are_the_headers() {
        use sys::CUresult as Header;
        for (ours, header) in [
            (Code::INVALID_VALUE, Header::CUDA_ERROR_INVALID_VALUE),
            (Code::OUT_OF_MEMORY, Header::CUDA_ERROR_OUT_OF_MEMORY),
            (Code::NOT_INITIALIZED, Header::CUDA_ERROR_NOT_INITIALIZED),
            (Code::INVALID_CONTEXT, Header::CUDA_ERROR_INVALID_CONTEXT),
            (Code::MAP_FAILED, Header::CUDA_ERROR_MAP_FAILED),
            (Code::INVALID_HANDLE, Header::CUDA_ERROR_INVALID_HANDLE),
            (Code::NOT_READY, Header::CUDA_ERROR_NOT_READY),
            (Code::ILLEGAL_ADDRESS, Header::CUDA_ERROR_ILLEGAL_ADDRESS),
            (Code::CONTEXT_IS_DESTROYED, Header::CUDA_ERROR_CONTEXT_IS_DESTROYED),
            (Code::HOST_MEMORY_ALREADY_REGISTERED, Header::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED),
            (Code::LAUNCH_FAILED, Header::CUDA_ERROR_LAUNCH_FAILED),
            (Code(810), Header::CUDA_ERROR_MPS_CLIENT_TERMINATED),
            (Code::INVALID_RESOURCE_CONFIGURATION, Header::CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION),
            (Code::UNKNOWN, Header::CUDA_ERROR_UNKNOWN),
        ] {
            assert_eq!(ours.0, header as u32);
            assert_eq!(ours.name().unwrap().to_str().unwrap(), format!("{header:?}"));
        }
        assert_eq!(Code::parse("MPS_CLIENT_TERMINATED"), Some(Code(810)));
        assert!(Code(700).is_sticky() && !Code(2).is_sticky());
    }
}
