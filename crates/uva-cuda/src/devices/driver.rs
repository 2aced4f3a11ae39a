//! The driver's library: found, checked and opened once for the process.

use std::sync::OnceLock;

use cudarc::driver::sys;

use crate::error::{self, MINIMUM_VERSION, Unavailable};

/// The library's name for the loader. Not `libcuda.so`, which may be a toolkit's stub for linking.
const LIBRARY: &str = "libcuda.so.1";

/// Declares the table of the driver's functions: the only list of all functions that this program calls.
///
/// A CUresult is stored as a plain number. cudarc's own entry points return it as a Rust enum. A driver newer than
/// cudarc may return a number that the enum lacks, which would be undefined behaviour. cudarc also panics if the
/// library or a function is missing. The line marked "same type" makes the compiler compare each signature here with
/// cudarc's, which is generated from cuda.h, so none can be mistyped.
macro_rules! functions {
    ($($function:ident($($argument:ty),*);)*) => {
        /// The driver's functions, by the names under which libcuda exports them.
        #[allow(non_snake_case, reason = "NVIDIA's names")]
        pub(crate) struct DriverFunctions {
            $(pub(crate) $function: unsafe extern "C" fn($($argument),*) -> u32,)*
        }

        impl DriverFunctions {
            /// Every function's name.
            pub(crate) const NAMES: &'static [&'static str] = &[$(stringify!($function)),*];

            fn find(library: &libloading::Library) -> Result<Self, &'static str> {
                Ok(Self {
                    // SAFETY: the type is the function's own: see "same type"; a CUresult is a C enum of non-negative
                    // values, which the ABI passes as a u32. The pointer is used only while the library is open, and
                    // `Driver` never closes it.
                    $($function: *unsafe { library.get(concat!(stringify!($function), "\0")) }
                        .map_err(|_| stringify!($function))?,)*
                })
            }
        }

        // Same type, except for the result.
        $(const _: unsafe fn($($argument),*) -> sys::CUresult = sys::$function;)*
    };
}

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};
use sys::*;

functions! {
    cuInit(c_uint);
    cuDriverGetVersion(*mut c_int);
    cuDeviceGetCount(*mut c_int);
    cuDeviceGet(*mut CUdevice, c_int);
    cuDeviceGetName(*mut c_char, c_int, CUdevice);
    cuDeviceGetAttribute(*mut c_int, CUdevice_attribute, CUdevice);
    cuDeviceTotalMem_v2(*mut usize, CUdevice);
    cuDeviceGetPCIBusId(*mut c_char, c_int, CUdevice);
    cuDeviceGetUuid_v2(*mut CUuuid, CUdevice);
    cuDeviceCanAccessPeer(*mut c_int, CUdevice, CUdevice);
    cuDevicePrimaryCtxRetain(*mut CUcontext, CUdevice);
    cuDevicePrimaryCtxRelease_v2(CUdevice);
    cuCtxSetCurrent(CUcontext);
    cuCtxSynchronize();
    cuStreamCreateWithPriority(*mut CUstream, c_uint, c_int);
    cuStreamDestroy_v2(CUstream);
    cuStreamSynchronize(CUstream);
    cuStreamQuery(CUstream);
    cuStreamWaitEvent(CUstream, CUevent, c_uint);
    cuStreamWriteValue64_v2(CUstream, CUdeviceptr, cuuint64_t, c_uint);
    cuStreamWaitValue64_v2(CUstream, CUdeviceptr, cuuint64_t, c_uint);
    cuEventCreate(*mut CUevent, c_uint);
    cuEventRecord(CUevent, CUstream);
    cuEventQuery(CUevent);
    cuEventSynchronize(CUevent);
    cuEventElapsedTime_v2(*mut f32, CUevent, CUevent);
    cuEventDestroy_v2(CUevent);
    cuIpcGetEventHandle(*mut CUipcEventHandle, CUevent);
    cuIpcOpenEventHandle(*mut CUevent, CUipcEventHandle);
    cuMemAlloc_v2(*mut CUdeviceptr, usize);
    cuMemFree_v2(CUdeviceptr);
    cuMemHostAlloc(*mut *mut c_void, usize, c_uint);
    cuMemFreeHost(*mut c_void);
    cuMemHostRegister_v2(*mut c_void, usize, c_uint);
    cuMemHostUnregister(*mut c_void);
    cuMemHostGetDevicePointer_v2(*mut CUdeviceptr, *mut c_void, c_uint);
    cuMemcpyHtoDAsync_v2(CUdeviceptr, *const c_void, usize, CUstream);
    cuMemcpyDtoHAsync_v2(*mut c_void, CUdeviceptr, usize, CUstream);
    cuMemcpyDtoDAsync_v2(CUdeviceptr, CUdeviceptr, usize, CUstream);
    cuMemsetD8Async(CUdeviceptr, u8, usize, CUstream);
    cuMemGetInfo_v2(*mut usize, *mut usize);
    cuIpcGetMemHandle(*mut CUipcMemHandle, CUdeviceptr);
    cuIpcOpenMemHandle_v2(*mut CUdeviceptr, CUipcMemHandle, c_uint);
    cuIpcCloseMemHandle(CUdeviceptr);
    cuMemGetAllocationGranularity(*mut usize, *const CUmemAllocationProp, CUmemAllocationGranularity_flags);
    cuMemCreate(*mut CUmemGenericAllocationHandle, usize, *const CUmemAllocationProp, c_ulonglong);
    cuMemRelease(CUmemGenericAllocationHandle);
    cuMemAddressReserve(*mut CUdeviceptr, usize, usize, CUdeviceptr, c_ulonglong);
    cuMemAddressFree(CUdeviceptr, usize);
    cuMemMap(CUdeviceptr, usize, usize, CUmemGenericAllocationHandle, c_ulonglong);
    cuMemUnmap(CUdeviceptr, usize);
    cuMemSetAccess(CUdeviceptr, usize, *const CUmemAccessDesc, usize);
    cuMemExportToShareableHandle(*mut c_void, CUmemGenericAllocationHandle, CUmemAllocationHandleType, c_ulonglong);
    cuMemImportFromShareableHandle(*mut CUmemGenericAllocationHandle, *mut c_void, CUmemAllocationHandleType);
    cuModuleLoadDataEx(*mut CUmodule, *const c_void, c_uint, *mut CUjit_option, *mut *mut c_void);
    cuModuleUnload(CUmodule);
    cuModuleGetFunction(*mut CUfunction, CUmodule, *const c_char);
    cuFuncGetAttribute(*mut c_int, CUfunction_attribute, CUfunction);
    cuOccupancyMaxActiveBlocksPerMultiprocessor(*mut c_int, CUfunction, c_int, usize);
    cuLaunchKernel(
        CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream, *mut *mut c_void, *mut *mut c_void
    );
    cuDeviceGetDevResource(CUdevice, *mut CUdevResource, CUdevResourceType);
    cuDevSmResourceSplitByCount(*mut CUdevResource, *mut c_uint, *const CUdevResource, *mut CUdevResource, c_uint, c_uint);
    cuDevResourceGenerateDesc(*mut CUdevResourceDesc, *mut CUdevResource, c_uint);
    cuGreenCtxCreate(*mut CUgreenCtx, CUdevResourceDesc, CUdevice, c_uint);
    cuGreenCtxStreamCreate(*mut CUstream, CUgreenCtx, c_uint, c_int);
    cuCtxFromGreenCtx(*mut CUcontext, CUgreenCtx);
    cuGreenCtxDestroy(CUgreenCtx);
}

/// The NVIDIA driver: loaded, initialised, and checked for its version. One per process, never closed.
pub struct Driver {
    functions: DriverFunctions,
    finish_loading: Option<FinishLoading>,
    version: (u32, u32),
    devices: u32,
    memory_is_host_memory: bool,
    simulates_device_draws: bool,
    follow: Option<FollowFunction>,
}

/// The simulator's cudaSimFollow: see [`CudaStream::follow`](crate::CudaStream::follow).
pub(crate) type FollowFunction = unsafe extern "C" fn(CUstream) -> u32;

/// cuFuncLoad: loads a kernel that the driver would otherwise load at its first launch. Every supported driver has it.
/// A stand-in need not, since only a real driver loads lazily.
pub(crate) type FinishLoading = unsafe extern "C" fn(CUfunction) -> u32;
const _: unsafe fn(CUfunction) -> CUresult = sys::cuFuncLoad;

static DRIVER: OnceLock<Result<Driver, Unavailable>> = OnceLock::new();

/// The loaded driver's functions.
///
/// # Panics
/// If no driver is loaded. Devices, contexts and everything made from them exist only with a loaded driver.
pub(crate) fn loaded() -> &'static DriverFunctions {
    match DRIVER.get() {
        Some(Ok(driver)) => &driver.functions,
        _ => unreachable!("an object of CUDA exists only once Driver::load has succeeded"),
    }
}

impl Driver {
    /// Whether this process has opened a driver.
    pub fn is_loaded() -> bool {
        matches!(DRIVER.get(), Some(Ok(_)))
    }

    /// Opens and initialises the driver the first time. Later calls return the same result, refusals included: after
    /// cuInit has failed, only a new process can see a repaired driver.
    ///
    /// Checks in this order: the library exists, it has every function that this program calls, it initialises, it
    /// serves CUDA 13.0 or newer, it has a device.
    ///
    /// # Errors
    /// [`Unavailable`], for the first check that failed.
    pub fn load() -> Result<&'static Self, Unavailable> {
        DRIVER.get_or_init(Self::open).as_ref().map_err(Clone::clone)
    }

    fn open() -> Result<Self, Unavailable> {
        // SAFETY: the library's initialisers are NVIDIA's (or the simulator's) and may run at any time.
        let library = unsafe { libloading::Library::new(LIBRARY) }
            .map_err(|error| Unavailable::NoDriver { reason: error::loader_said(&error) })?;
        // Never closed: the driver's threads run in it, and we keep its functions' addresses.
        let library: &'static libloading::Library = Box::leak(Box::new(library));
        let functions = DriverFunctions::find(library).map_err(|symbol| {
            // If the version is known, it is reported instead of the name of a function.
            match version_of(library) {
                Some(found) if found < MINIMUM_VERSION => Unavailable::OldDriver { found },
                _ => Unavailable::MissingSymbol { symbol },
            }
        })?;
        let ready = |symbol, code| match code {
            error::SUCCESS => Ok(()),
            error::NO_DEVICE => Err(Unavailable::NoDevice),
            code => Err(Unavailable::NotReady { call: error::documented_name(symbol), code }),
        };
        // SAFETY: the only flags that exist are none.
        ready("cuInit", unsafe { (functions.cuInit)(0) })?;
        let mut version = 0;
        // SAFETY: writes one int.
        ready("cuDriverGetVersion", unsafe { (functions.cuDriverGetVersion)(&mut version) })?;
        let version = split_version(version);
        if version < MINIMUM_VERSION {
            return Err(Unavailable::OldDriver { found: version });
        }
        let mut devices = 0;
        // SAFETY: writes one int; cuInit has succeeded.
        ready("cuDeviceGetCount", unsafe { (functions.cuDeviceGetCount)(&mut devices) })?;
        let devices = u32::try_from(devices).unwrap_or(0);
        if devices == 0 {
            return Err(Unavailable::NoDevice);
        }
        // SAFETY: the type is the function's own, as above; the library stays open.
        let finish_loading = unsafe { library.get::<FinishLoading>("cuFuncLoad\0") }.ok().map(|found| *found);
        let memory_is_host_memory = simulator_says(library, "cudaSimDeviceMemoryIsHostMemory\0");
        let simulates_device_draws = simulator_says(library, "cudaSimDrawsAsADevice\0");
        // SAFETY: the function's type in crates/cuda-sim; the library stays open.
        let follow = unsafe { library.get::<FollowFunction>("cudaSimFollow\0") }.ok().map(|found| *found);
        Ok(Self {
            functions,
            finish_loading,
            version,
            devices,
            memory_is_host_memory,
            simulates_device_draws,
            follow,
        })
    }

    /// The driver's functions that this program calls, by their names in libcuda. A stand-in must have them all, and a
    /// sweep of injected errors iterates over them.
    pub fn functions() -> &'static [&'static str] {
        DriverFunctions::NAMES
    }

    /// The CUDA version that the driver serves, major and minor.
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// The number of devices that this process sees, at least 1.
    pub fn device_count(&self) -> u32 {
        self.devices
    }

    pub(crate) fn finish_loading(&self) -> Option<FinishLoading> {
        self.finish_loading
    }

    pub(crate) fn follow(&self) -> Option<FollowFunction> {
        self.follow
    }

    /// Whether this is the simulator. Its device addresses are host addresses, so the CPU may read its memory.
    pub fn device_memory_is_host_memory(&self) -> bool {
        self.memory_is_host_memory
    }

    /// Whether this is the simulator with dropout configured to differ from the CPU's, as it does on a GPU.
    pub fn simulates_device_draws(&self) -> bool {
        self.simulates_device_draws
    }
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Driver")
            .field("version", &self.version)
            .field("devices", &self.devices)
            .field("memory_is_host_memory", &self.memory_is_host_memory)
            .finish_non_exhaustive()
    }
}

/// cuda.h: 1000 × major + 10 × minor.
fn split_version(version: c_int) -> (u32, u32) {
    let version = u32::try_from(version).unwrap_or(0);
    (version / 1000, version % 1000 / 10)
}

/// The version that an incomplete library reports; may be called before cuInit.
fn version_of(library: &libloading::Library) -> Option<(u32, u32)> {
    // SAFETY: the function's type in every cuda.h since the first.
    let ask =
        unsafe { library.get::<unsafe extern "C" fn(*mut c_int) -> u32>("cuDriverGetVersion\0") }.ok()?;
    let mut version = 0;
    // SAFETY: writes one int.
    (unsafe { ask(&mut version) } == error::SUCCESS).then(|| split_version(version))
}

/// A query of the simulator: NVIDIA drivers do not have these functions.
fn simulator_says(library: &libloading::Library, question: &str) -> bool {
    // SAFETY: the type of each of these functions in crates/cuda-sim.
    match unsafe { library.get::<unsafe extern "C" fn() -> c_int>(question) } {
        // SAFETY: it takes nothing and returns a constant.
        Ok(ask) => unsafe { ask() == 1 },
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_split_as_cuda_h_packs_it() {
        assert_eq!(split_version(13000), (13, 0));
        assert_eq!(split_version(12080), (12, 8));
        assert_eq!(split_version(13010), (13, 1));
        assert_eq!(split_version(-1), (0, 0));
    }

    #[test]
    fn the_driver_gives_the_same_answer_twice() {
        let first = Driver::load().map(std::ptr::from_ref);
        assert_eq!(first, Driver::load().map(std::ptr::from_ref));
    }

    #[test]
    fn no_function_is_listed_twice() {
        let mut names = DriverFunctions::NAMES.to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), DriverFunctions::NAMES.len());
    }
}
