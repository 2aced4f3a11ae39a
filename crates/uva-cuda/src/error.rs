//! Errors, with the failed call, its purpose and the remedy.

use uva_options::ByteSize;

/// The oldest supported CUDA version of a driver, major and minor.
pub(crate) const MINIMUM_VERSION: (u32, u32) = (13, 0);

/// The user's remedy for an error; the program's exit code follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// A resource of the machine is missing: exit code 3.
    Missing,
    /// The request is invalid on any machine: exit code 2.
    Usage,
    /// A failure at run time: exit code 1.
    Failed,
}

/// Why there is no CUDA on this machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// The driver's library cannot be opened.
    #[error("no NVIDIA driver: libcuda.so.1 cannot be opened ({reason})")]
    NoDriver {
        /// The loader's message.
        reason: String,
    },
    /// The driver's library lacks a function that this program calls.
    #[error(
        "the NVIDIA driver is too old: its libcuda has no {symbol}; a driver for CUDA {}.{} or newer (580 or newer) is needed",
        MINIMUM_VERSION.0, MINIMUM_VERSION.1
    )]
    MissingSymbol {
        /// The function.
        symbol: &'static str,
    },
    /// The driver serves an older CUDA than this program was written for.
    #[error(
        "the NVIDIA driver is too old: it serves CUDA {}.{}, and CUDA {}.{} or newer (driver 580 or newer) is needed",
        found.0, found.1, MINIMUM_VERSION.0, MINIMUM_VERSION.1
    )]
    OldDriver {
        /// The CUDA version it serves, major and minor.
        found: (u32, u32),
    },
    /// The driver failed to initialise, or failed the first queries.
    #[error("the NVIDIA driver does not answer: {call}: {} ({code}){}", name(*code), hint(*code))]
    NotReady {
        /// The call that failed.
        call: &'static str,
        /// Its CUresult.
        code: u32,
    },
    /// The driver works but sees no device.
    #[error("the NVIDIA driver sees no device (is CUDA_VISIBLE_DEVICES empty?)")]
    NoDevice,
}

/// Why an operation that needs CUDA failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CudaError {
    /// CUDA is not available.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// A call of the driver failed.
    #[error("{call} failed while {doing}: {name} ({code}){}", hint(*code))]
    Call {
        /// The driver's function, without the suffix of its version.
        call: &'static str,
        /// Its CUresult.
        code: u32,
        /// The CUresult's name in cuda.h.
        name: &'static str,
        /// The purpose of the call, as a phrase after "while".
        doing: String,
    },
    /// The device has too little free memory for a buffer.
    #[error(
        "{call} failed while allocating {what}: CUDA_ERROR_OUT_OF_MEMORY (2): it needs {}, and {} of the device's {} are free{}",
        ByteSize::from_bytes(*bytes),
        ByteSize::from_bytes(*free),
        ByteSize::from_bytes(*total),
        hint(OUT_OF_MEMORY)
    )]
    OutOfMemory {
        /// The driver's function, without the suffix of its version.
        call: &'static str,
        /// The buffer.
        what: String,
        /// Its bytes.
        bytes: u64,
        /// Bytes of device memory that are free.
        free: u64,
        /// Total bytes of device memory.
        total: u64,
    },
    /// NVRTC, which compiles the kernels, is not on this machine or does not work.
    #[error("{reason}")]
    NoNvrtc {
        /// Where the search looked, what it found, and the remedy.
        reason: String,
    },
    /// The kernels did not compile.
    #[error("the kernels of {file} did not compile for {architecture} by NVRTC {nvrtc}: {log}")]
    Compile {
        /// The source.
        file: &'static str,
        /// What it was compiled for, such as `sm_90`.
        architecture: String,
        /// NVRTC's version.
        nvrtc: String,
        /// NVRTC's log.
        log: String,
    },
    /// The machine cannot pin this much memory; detected before anything was pinned.
    #[error("{0}")]
    Preflight(String),
    /// Refused before any call of the driver: a size, a range, an ordinal.
    #[error("{0}")]
    Refused(String),
    /// The device or the driver does not support the request.
    #[error("{0}")]
    Unsupported(String),
    /// The system refused an operation outside CUDA: a file, a mapping.
    #[error("{0}")]
    System(String),
}

impl CudaError {
    /// The user's remedy.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unavailable(_) | Self::NoNvrtc { .. } | Self::Preflight(_) | Self::Unsupported(_) => {
                ErrorKind::Missing
            }
            Self::Call { code, .. } if matches!(*code, INSUFFICIENT_DRIVER | NO_DEVICE | NOT_SUPPORTED) => {
                ErrorKind::Missing
            }
            Self::Refused(_) => ErrorKind::Usage,
            Self::Call { .. } | Self::OutOfMemory { .. } | Self::Compile { .. } | Self::System(_) => {
                ErrorKind::Failed
            }
        }
    }

    /// Whether an alternative may succeed: the failure is neither a lack of memory nor a lost context.
    pub fn leaves_another_way(&self) -> bool {
        match self {
            Self::Call { code, .. } => *code != OUT_OF_MEMORY && !loses_the_context(*code),
            Self::Unsupported(_) | Self::System(_) => true,
            Self::Unavailable(_)
            | Self::OutOfMemory { .. }
            | Self::NoNvrtc { .. }
            | Self::Compile { .. }
            | Self::Preflight(_)
            | Self::Refused(_) => false,
        }
    }

    /// The CUresult, if a call of the driver failed.
    pub fn code(&self) -> Option<u32> {
        match self {
            Self::Call { code, .. } | Self::Unavailable(Unavailable::NotReady { code, .. }) => Some(*code),
            _ => None,
        }
    }
}

/// CUDA_SUCCESS.
pub(crate) const SUCCESS: u32 = 0;
/// CUDA_ERROR_OUT_OF_MEMORY.
pub(crate) const OUT_OF_MEMORY: u32 = 2;
/// CUDA_ERROR_STUB_LIBRARY: the libcuda of a toolkit, for linking only.
pub(crate) const STUB_LIBRARY: u32 = 34;
/// CUDA_ERROR_INSUFFICIENT_DRIVER.
pub(crate) const INSUFFICIENT_DRIVER: u32 = 35;
/// CUDA_ERROR_NO_DEVICE.
pub(crate) const NO_DEVICE: u32 = 100;
/// CUDA_ERROR_NOT_READY: not an error but a result of the queries.
pub(crate) const NOT_READY: u32 = 600;
/// CUDA_ERROR_NOT_SUPPORTED.
pub(crate) const NOT_SUPPORTED: u32 = 801;

/// Turns a CUresult into a result. `symbol` is the function's name in libcuda; `doing` is called only for an error.
pub(crate) fn check(
    symbol: &'static str,
    code: u32,
    doing: impl FnOnce() -> String,
) -> Result<(), CudaError> {
    if code == SUCCESS {
        return Ok(());
    }
    Err(CudaError::Call { call: documented_name(symbol), code, name: name(code), doing: doing() })
}

/// As [`check`], for the queries: whether the event or the work in question is complete.
pub(crate) fn check_query(
    symbol: &'static str,
    code: u32,
    doing: impl FnOnce() -> String,
) -> Result<bool, CudaError> {
    if code == NOT_READY {
        return Ok(false);
    }
    check(symbol, code, doing).map(|()| true)
}

/// A function's name in NVIDIA's documentation: the exported one without its `_v2`.
pub(crate) fn documented_name(symbol: &'static str) -> &'static str {
    match symbol.rsplit_once("_v") {
        Some((name, version)) if !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit()) => {
            name
        }
        _ => symbol,
    }
}

/// The loader's message when it could not open a library: libloading's own text says only that it failed.
pub(crate) fn loader_said(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), |source| source.to_string())
}

/// Whether a context is unusable after this CUresult.
fn loses_the_context(code: u32) -> bool {
    matches!(code, 214 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=719 | 810 | 911)
}

/// The remedy for an error code, beginning with `; `, or an empty string.
fn hint(code: u32) -> &'static str {
    match code {
        OUT_OF_MEMORY => {
            "; fewer `slots`, a smaller `batch_size`, smaller `fanouts` or a smaller `gpu_cache` need less device memory"
        }
        STUB_LIBRARY => {
            "; the libcuda found is a toolkit's stub: remove its folder (…/lib64/stubs) from LD_LIBRARY_PATH"
        }
        46 => "; another process holds the device in exclusive mode",
        209 => "; the kernels' image is for another device: clear the kernel cache",
        304 => "; `ulimit -l` may be too low, or the file system cannot be pinned",
        700 | 715..=719 => {
            "; the device's context is lost: every process of the run that uses this GPU must end and start again"
        }
        801 => "; this device or driver cannot do it",
        802 => "; the system is not ready (on machines with NVSwitch: is the fabric manager running?)",
        803 => {
            "; the kernel module and libcuda are of different versions: a reboot after a driver update mends it"
        }
        804 => "; the compatibility libcuda found does not serve this device",
        805..=809 => {
            "; the MPS daemon does not serve this process: `uvatrain mps status` shows details, `mps=off` runs without MPS"
        }
        810 => "; MPS ended this process's work on the GPU",
        _ => "",
    }
}

/// The names of CUresult, from cuda.h 13.0. This table is our own, since without a driver cuGetErrorName cannot be
/// called.
pub(crate) fn name(code: u32) -> &'static str {
    match NAMES.binary_search_by_key(&code, |(known, _)| *known) {
        Ok(found) => NAMES[found].1,
        Err(_) => "a CUresult that CUDA 13.0 does not know",
    }
}

/// Ascending, for the search above.
const NAMES: &[(u32, &str)] = &[
    (0, "CUDA_SUCCESS"),
    (1, "CUDA_ERROR_INVALID_VALUE"),
    (2, "CUDA_ERROR_OUT_OF_MEMORY"),
    (3, "CUDA_ERROR_NOT_INITIALIZED"),
    (4, "CUDA_ERROR_DEINITIALIZED"),
    (5, "CUDA_ERROR_PROFILER_DISABLED"),
    (6, "CUDA_ERROR_PROFILER_NOT_INITIALIZED"),
    (7, "CUDA_ERROR_PROFILER_ALREADY_STARTED"),
    (8, "CUDA_ERROR_PROFILER_ALREADY_STOPPED"),
    (34, "CUDA_ERROR_STUB_LIBRARY"),
    (36, "CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER"),
    (46, "CUDA_ERROR_DEVICE_UNAVAILABLE"),
    (100, "CUDA_ERROR_NO_DEVICE"),
    (101, "CUDA_ERROR_INVALID_DEVICE"),
    (102, "CUDA_ERROR_DEVICE_NOT_LICENSED"),
    (200, "CUDA_ERROR_INVALID_IMAGE"),
    (201, "CUDA_ERROR_INVALID_CONTEXT"),
    (202, "CUDA_ERROR_CONTEXT_ALREADY_CURRENT"),
    (205, "CUDA_ERROR_MAP_FAILED"),
    (206, "CUDA_ERROR_UNMAP_FAILED"),
    (207, "CUDA_ERROR_ARRAY_IS_MAPPED"),
    (208, "CUDA_ERROR_ALREADY_MAPPED"),
    (209, "CUDA_ERROR_NO_BINARY_FOR_GPU"),
    (210, "CUDA_ERROR_ALREADY_ACQUIRED"),
    (211, "CUDA_ERROR_NOT_MAPPED"),
    (212, "CUDA_ERROR_NOT_MAPPED_AS_ARRAY"),
    (213, "CUDA_ERROR_NOT_MAPPED_AS_POINTER"),
    (214, "CUDA_ERROR_ECC_UNCORRECTABLE"),
    (215, "CUDA_ERROR_UNSUPPORTED_LIMIT"),
    (216, "CUDA_ERROR_CONTEXT_ALREADY_IN_USE"),
    (217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED"),
    (218, "CUDA_ERROR_INVALID_PTX"),
    (219, "CUDA_ERROR_INVALID_GRAPHICS_CONTEXT"),
    (220, "CUDA_ERROR_NVLINK_UNCORRECTABLE"),
    (221, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND"),
    (222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"),
    (223, "CUDA_ERROR_JIT_COMPILATION_DISABLED"),
    (224, "CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY"),
    (225, "CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC"),
    (226, "CUDA_ERROR_CONTAINED"),
    (300, "CUDA_ERROR_INVALID_SOURCE"),
    (301, "CUDA_ERROR_FILE_NOT_FOUND"),
    (302, "CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND"),
    (303, "CUDA_ERROR_SHARED_OBJECT_INIT_FAILED"),
    (304, "CUDA_ERROR_OPERATING_SYSTEM"),
    (400, "CUDA_ERROR_INVALID_HANDLE"),
    (401, "CUDA_ERROR_ILLEGAL_STATE"),
    (402, "CUDA_ERROR_LOSSY_QUERY"),
    (500, "CUDA_ERROR_NOT_FOUND"),
    (600, "CUDA_ERROR_NOT_READY"),
    (700, "CUDA_ERROR_ILLEGAL_ADDRESS"),
    (701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"),
    (702, "CUDA_ERROR_LAUNCH_TIMEOUT"),
    (703, "CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING"),
    (704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED"),
    (705, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED"),
    (708, "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE"),
    (709, "CUDA_ERROR_CONTEXT_IS_DESTROYED"),
    (710, "CUDA_ERROR_ASSERT"),
    (711, "CUDA_ERROR_TOO_MANY_PEERS"),
    (712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"),
    (713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"),
    (714, "CUDA_ERROR_HARDWARE_STACK_ERROR"),
    (715, "CUDA_ERROR_ILLEGAL_INSTRUCTION"),
    (716, "CUDA_ERROR_MISALIGNED_ADDRESS"),
    (717, "CUDA_ERROR_INVALID_ADDRESS_SPACE"),
    (718, "CUDA_ERROR_INVALID_PC"),
    (719, "CUDA_ERROR_LAUNCH_FAILED"),
    (720, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE"),
    (721, "CUDA_ERROR_TENSOR_MEMORY_LEAK"),
    (800, "CUDA_ERROR_NOT_PERMITTED"),
    (801, "CUDA_ERROR_NOT_SUPPORTED"),
    (802, "CUDA_ERROR_SYSTEM_NOT_READY"),
    (803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
    (804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"),
    (805, "CUDA_ERROR_MPS_CONNECTION_FAILED"),
    (806, "CUDA_ERROR_MPS_RPC_FAILURE"),
    (807, "CUDA_ERROR_MPS_SERVER_NOT_READY"),
    (808, "CUDA_ERROR_MPS_MAX_CLIENTS_REACHED"),
    (809, "CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED"),
    (810, "CUDA_ERROR_MPS_CLIENT_TERMINATED"),
    (811, "CUDA_ERROR_CDP_NOT_SUPPORTED"),
    (812, "CUDA_ERROR_CDP_VERSION_MISMATCH"),
    (900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"),
    (901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"),
    (902, "CUDA_ERROR_STREAM_CAPTURE_MERGE"),
    (903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED"),
    (904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"),
    (905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION"),
    (906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"),
    (907, "CUDA_ERROR_CAPTURED_EVENT"),
    (908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD"),
    (909, "CUDA_ERROR_TIMEOUT"),
    (910, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE"),
    (911, "CUDA_ERROR_EXTERNAL_DEVICE"),
    (912, "CUDA_ERROR_INVALID_CLUSTER_SIZE"),
    (913, "CUDA_ERROR_FUNCTION_NOT_LOADED"),
    (914, "CUDA_ERROR_INVALID_RESOURCE_TYPE"),
    (915, "CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION"),
    (916, "CUDA_ERROR_KEY_ROTATION"),
    (999, "CUDA_ERROR_UNKNOWN"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_call_names_itself_what_it_was_for_and_its_code() {
        let error = check("cuMemAlloc_v2", 2, || "allocating feature slots".to_owned()).unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with(
                "cuMemAlloc failed while allocating feature slots: CUDA_ERROR_OUT_OF_MEMORY (2)"
            ),
            "{text}"
        );
        assert!(text.contains("`slots`"), "{text}");
        assert_eq!(error.code(), Some(2));
        assert_eq!(error.kind(), ErrorKind::Failed);
    }

    #[test]
    fn what_a_call_was_for_is_asked_only_when_it_failed() {
        assert_eq!(check("cuInit", 0, || unreachable!()), Ok(()));
        assert_eq!(check_query("cuEventQuery", 0, || unreachable!()), Ok(true));
        assert_eq!(check_query("cuEventQuery", 600, || unreachable!()), Ok(false));
        assert!(check_query("cuEventQuery", 700, || "asking".to_owned()).is_err());
    }

    #[test]
    fn an_unknown_code_has_a_text_too() {
        let text = check("cuInit", 4321, || "starting".to_owned()).unwrap_err().to_string();
        assert!(text.contains("(4321)"), "{text}");
    }

    #[test]
    fn the_names_are_in_the_order_of_their_codes() {
        assert!(NAMES.is_sorted_by(|one, next| one.0 < next.0));
        assert_eq!(name(0), "CUDA_SUCCESS");
        assert_eq!(name(810), "CUDA_ERROR_MPS_CLIENT_TERMINATED");
        assert_eq!(name(999), "CUDA_ERROR_UNKNOWN");
    }

    #[test]
    fn another_way_is_tried_unless_memory_or_the_context_is_missing() {
        let failed = |code| check("cuIpcOpenEventHandle", code, || "opening".to_owned()).unwrap_err();
        for code in [1, 201, 205, 400, 800, 801, 999] {
            assert!(failed(code).leaves_another_way(), "{code}");
        }
        for code in [2, 700, 719, 810] {
            assert!(!failed(code).leaves_another_way(), "{code}");
        }
    }

    #[test]
    fn a_function_is_called_as_its_documentation_calls_it() {
        assert_eq!(documented_name("cuMemAlloc_v2"), "cuMemAlloc");
        assert_eq!(documented_name("cuDevicePrimaryCtxRelease_v2"), "cuDevicePrimaryCtxRelease");
        assert_eq!(documented_name("cuInit"), "cuInit");
        assert_eq!(documented_name("cuFoo_vBar"), "cuFoo_vBar");
    }
}
