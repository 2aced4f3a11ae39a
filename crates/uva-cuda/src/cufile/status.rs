//! Results of the library's functions.

use cudarc::cufile::sys::CUfileOpError::{self, *};

/// `CUfileError_t`, as plain numbers: a library newer than cudarc may return some that its enums lack.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CufileStatus {
    /// A `CUfileOpError`.
    pub code: u32,
    /// A CUresult, if the driver of the GPU failed.
    pub cuda: u32,
}

const _: () = assert!(size_of::<CufileStatus>() == size_of::<cudarc::cufile::sys::CUfileError_t>());

/// `CU_FILE_CUDA_DRIVER_ERROR`: see the CUresult.
const CUDA_DRIVER_ERROR: u32 = CU_FILE_CUDA_DRIVER_ERROR as u32;

impl CufileStatus {
    /// Why `function` failed, if it did.
    pub fn check(self, function: &str) -> Result<(), String> {
        match self.code {
            0 => Ok(()),
            CUDA_DRIVER_ERROR => {
                let (code, cuda) = (describe(self.code), crate::error::name(self.cuda));
                Err(format!("{function} failed: {code}: {cuda} ({})", self.cuda))
            }
            code => Err(format!("{function} failed: {}", describe(code))),
        }
    }
}

/// Formats a code with its name in cufile.h, and an explanation for users if known.
pub(super) fn describe(code: u32) -> String {
    let known = KNOWN.iter().find(|known| **known as u32 == code);
    let name = known.map_or_else(|| "an unknown code".to_owned(), |known| format!("{known:?}"));
    let hint = match known {
        Some(CU_FILE_DRIVER_NOT_INITIALIZED | CU_FILE_NVFS_SETUP_ERROR | CU_FILE_NVFS_DRIVER_ERROR) => {
            "; is the kernel module nvidia-fs loaded, or the compatibility mode allowed (allow_compat_mode in cufile.json)?"
        }
        Some(CU_FILE_IO_NOT_SUPPORTED | CU_FILE_INVALID_FILE_TYPE) => {
            "; this file system has no GPUDirect Storage"
        }
        _ => "",
    };
    format!("{name} ({code}){hint}")
}

/// The codes of cufile.h.
const KNOWN: [CUfileOpError; 48] = [
    CU_FILE_DRIVER_NOT_INITIALIZED,
    CU_FILE_DRIVER_INVALID_PROPS,
    CU_FILE_DRIVER_UNSUPPORTED_LIMIT,
    CU_FILE_DRIVER_VERSION_MISMATCH,
    CU_FILE_DRIVER_VERSION_READ_ERROR,
    CU_FILE_DRIVER_CLOSING,
    CU_FILE_PLATFORM_NOT_SUPPORTED,
    CU_FILE_IO_NOT_SUPPORTED,
    CU_FILE_DEVICE_NOT_SUPPORTED,
    CU_FILE_NVFS_DRIVER_ERROR,
    CU_FILE_CUDA_DRIVER_ERROR,
    CU_FILE_CUDA_POINTER_INVALID,
    CU_FILE_CUDA_MEMORY_TYPE_INVALID,
    CU_FILE_CUDA_POINTER_RANGE_ERROR,
    CU_FILE_CUDA_CONTEXT_MISMATCH,
    CU_FILE_INVALID_MAPPING_SIZE,
    CU_FILE_INVALID_MAPPING_RANGE,
    CU_FILE_INVALID_FILE_TYPE,
    CU_FILE_INVALID_FILE_OPEN_FLAG,
    CU_FILE_DIO_NOT_SET,
    CU_FILE_INVALID_VALUE,
    CU_FILE_MEMORY_ALREADY_REGISTERED,
    CU_FILE_MEMORY_NOT_REGISTERED,
    CU_FILE_PERMISSION_DENIED,
    CU_FILE_DRIVER_ALREADY_OPEN,
    CU_FILE_HANDLE_NOT_REGISTERED,
    CU_FILE_HANDLE_ALREADY_REGISTERED,
    CU_FILE_DEVICE_NOT_FOUND,
    CU_FILE_INTERNAL_ERROR,
    CU_FILE_GETNEWFD_FAILED,
    CU_FILE_NVFS_SETUP_ERROR,
    CU_FILE_IO_DISABLED,
    CU_FILE_BATCH_SUBMIT_FAILED,
    CU_FILE_GPU_MEMORY_PINNING_FAILED,
    CU_FILE_BATCH_FULL,
    CU_FILE_ASYNC_NOT_SUPPORTED,
    CU_FILE_INTERNAL_BATCH_SETUP_ERROR,
    CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR,
    CU_FILE_INTERNAL_BATCH_GETSTATUS_ERROR,
    CU_FILE_INTERNAL_BATCH_CANCEL_ERROR,
    CU_FILE_NOMEM_ERROR,
    CU_FILE_IO_ERROR,
    CU_FILE_INTERNAL_BUF_REGISTER_ERROR,
    CU_FILE_HASH_OPR_ERROR,
    CU_FILE_INVALID_CONTEXT_ERROR,
    CU_FILE_NVFS_INTERNAL_DRIVER_ERROR,
    CU_FILE_BATCH_NOCOMPAT_ERROR,
    CU_FILE_IO_MAX_ERROR,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_code_is_shown_by_its_name_and_an_unknown_one_by_its_number() {
        let failed = |code, cuda| CufileStatus { code, cuda }.check("cuFileDriverOpen").unwrap_err();
        assert_eq!(CufileStatus { code: 0, cuda: 0 }.check("cuFileDriverOpen"), Ok(()));
        let text = failed(5001, 0);
        assert!(text.starts_with("cuFileDriverOpen failed: CU_FILE_DRIVER_NOT_INITIALIZED (5001)"), "{text}");
        assert!(text.contains("nvidia-fs"), "{text}");
        let text = failed(5011, 2);
        assert!(text.ends_with("CU_FILE_CUDA_DRIVER_ERROR (5011): CUDA_ERROR_OUT_OF_MEMORY (2)"), "{text}");
        assert!(failed(5999, 0).ends_with("an unknown code (5999)"));
    }
}
