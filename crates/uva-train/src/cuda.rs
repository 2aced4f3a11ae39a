//! The CUDA half of libtorch, loaded at run time: one binary serves machines with and without a GPU.
//!
//! Programs link to libtorch's CPU half only. libtorch decides at the first query whether it sees a device. So a
//! process that wants one calls [`TorchCuda::load`] before any other use of libtorch. A process that trains on the CPU
//! never calls it.

#![allow(unsafe_code)]

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use uva_cuda::{Context, CudaStream};

const LIBRARY: &str = "libtorch_cuda.so";
/// Every program with this crate links to it, so its path is the folder of the libtorch in use.
const CPU_LIBRARY: &str = "libtorch_cpu.so";

/// How to get a libtorch with its CUDA half, for messages.
const MEND: &str = "`pip install torch==2.11.0`, and name it by `libtorch` or UVATRAIN_LIBTORCH";

/// Why libtorch cannot use a CUDA device. All but [`TorchCudaError::Call`] say that the machine lacks something
/// (exit code 3).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TorchCudaError {
    /// libtorch's CUDA half is missing.
    #[error("this libtorch is for the CPU only: there is no {LIBRARY} {place} ({MEND})")]
    CpuOnly {
        /// The searched places.
        place: String,
    },
    /// libtorch's CUDA half exists but cannot be loaded, mostly because one of NVIDIA's libraries is missing.
    #[error("{} cannot be loaded: {problem} ({MEND})", library.display())]
    Unloadable {
        /// The library.
        library: PathBuf,
        /// The loader's message, which names the missing library.
        problem: String,
    },
    /// libtorch's CUDA half lacks a function that this program calls.
    #[error("{LIBRARY} is not of libtorch 2.11: it has no {symbol} ({MEND})")]
    OtherVersion {
        /// The function.
        symbol: &'static str,
    },
    /// libtorch is complete but sees no device.
    #[error(
        "libtorch sees no CUDA device: {reason} (it is made for CUDA 13: `nvidia-smi` must show driver 580 or newer; \
         see also `uvatrain doctor`)"
    )]
    NoDevice {
        /// The CUDA runtime's message.
        reason: String,
    },
    /// There are devices, but not this one.
    #[error("there is no cuda:{ordinal}: libtorch sees {devices} devices, counted from 0")]
    NoSuchDevice {
        /// The requested device.
        ordinal: usize,
        /// Number of devices.
        devices: usize,
    },
    /// A call failed; libtorch has written why to standard error.
    #[error("libtorch's {call} failed on device {ordinal}")]
    Call {
        /// The function.
        call: &'static str,
        /// The device.
        ordinal: usize,
    },
}

impl TorchCudaError {
    /// Whether the machine lacks something (exit code 3), and not the run failed (exit code 1).
    pub fn is_missing(&self) -> bool {
        !matches!(self, Self::Call { .. })
    }
}

/// `aoti_torch_get_current_cuda_stream(device, &stream)`, from torch/csrc/inductor/aoti_torch/c/shim.h: 0 if it
/// succeeded.
type CurrentStream = unsafe extern "C" fn(i32, *mut *mut c_void) -> i32;

/// libtorch's CUDA half, loaded, with at least one device.
#[derive(Debug)]
pub struct TorchCuda {
    current_stream: CurrentStream,
}

impl TorchCuda {
    /// Loads libtorch's CUDA half, once for the life of the process; later calls return the first result.
    ///
    /// It is searched next to the libtorch of this program, as only that one fits. If that path is unknown, the dynamic
    /// loader searches (run path, LD_LIBRARY_PATH). With the CPU-only simulator of the driver nothing is loaded: its
    /// device memory is used as host memory.
    ///
    /// # Errors
    /// The missing part, with the command that installs it.
    pub fn load() -> Result<&'static Self, TorchCudaError> {
        static LOADED: OnceLock<Result<TorchCuda, TorchCudaError>> = OnceLock::new();
        LOADED.get_or_init(|| Self::open(cpu_library_folder().as_deref())).as_ref().map_err(Clone::clone)
    }

    fn open(folder: Option<&Path>) -> Result<Self, TorchCudaError> {
        let library = open_library(folder)?;
        const CURRENT_STREAM: &str = "aoti_torch_get_current_cuda_stream";
        // SAFETY: the type is the declaration's in the header of libtorch 2.11, a plain C function.
        let current_stream = unsafe { library.get::<CurrentStream>(CURRENT_STREAM) };
        let current_stream =
            *current_stream.map_err(|_| TorchCudaError::OtherVersion { symbol: CURRENT_STREAM })?;
        // Never closed: libtorch keeps tables of what its CUDA half registered, and the function must stay.
        std::mem::forget(library);
        if !tch::Cuda::is_available() {
            return Err(TorchCudaError::NoDevice { reason: no_device_reason() });
        }
        Ok(Self { current_stream })
    }

    /// Refuses a device that libtorch does not see.
    ///
    /// # Errors
    /// [`TorchCudaError::NoSuchDevice`].
    pub fn check_device(&self, ordinal: usize) -> Result<(), TorchCudaError> {
        let devices = usize::try_from(tch::Cuda::device_count()).unwrap_or(0);
        if ordinal < devices { Ok(()) } else { Err(TorchCudaError::NoSuchDevice { ordinal, devices }) }
    }

    /// The stream on which libtorch enqueues this thread's work on the context's device: its default stream unless
    /// another was set. A training thread queries it once and keeps it.
    ///
    /// # Errors
    /// [`TorchCudaError::Call`].
    pub fn current_stream(&self, context: &Arc<Context>) -> Result<CudaStream, TorchCudaError> {
        let ordinal = context.device().ordinal();
        let failed = TorchCudaError::Call { call: "aoti_torch_get_current_cuda_stream", ordinal };
        let Ok(number) = i32::try_from(ordinal) else { return Err(failed) };
        let mut raw = std::ptr::null_mut();
        // SAFETY: writes one pointer; an exception inside is turned into the result.
        if unsafe { (self.current_stream)(number, &mut raw) } != 0 {
            return Err(failed);
        }
        // SAFETY: libtorch's streams belong to the device's primary context, and so does every `Context`. The streams
        // come from a pool that is never emptied, and null is the default stream.
        Ok(unsafe { CudaStream::foreign(context, raw) })
    }
}

/// Opens the library next to libtorch's CPU half in `folder`, or by its name alone.
fn open_library(folder: Option<&Path>) -> Result<Library, TorchCudaError> {
    let (path, place) = match folder {
        Some(folder) => {
            let path = folder.join(LIBRARY);
            if !path.is_file() {
                let place = format!("in {}", folder.display());
                return Err(TorchCudaError::CpuOnly { place });
            }
            (path, String::new())
        }
        None => (PathBuf::from(LIBRARY), "where the loader looks".to_owned()),
    };
    // SAFETY: opening runs the library's initialisers. They register its operations with the CPU half that is already
    // loaded, as designed, and touch no state of this program. Its symbols are global, as the CPU half and the
    // libraries it opens later resolve some of them.
    let opened = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_GLOBAL) };
    opened.map_err(|error| {
        // The loader's message is the source of libloading's error.
        let problem =
            std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        // The loader names the library that is missing: this one, or one that it needs.
        if folder.is_none() && problem.starts_with(LIBRARY) && problem.contains("cannot open shared object") {
            TorchCudaError::CpuOnly { place }
        } else {
            TorchCudaError::Unloadable { library: path, problem }
        }
    })
}

/// The folder of the libtorch that this process runs with.
fn cpu_library_folder() -> Option<PathBuf> {
    let maps = uva_mem::files::read_kernel_text("/proc/self/maps").ok()?;
    let paths = maps.lines().filter_map(|line| line.find('/').map(|start| Path::new(&line[start..])));
    let library = paths.into_iter().find(|path| path.file_name().is_some_and(|name| name == CPU_LIBRARY))?;
    library.parent().map(Path::to_owned)
}

/// The CUDA runtime's answer to a query for devices.
fn no_device_reason() -> String {
    type DeviceCount = unsafe extern "C" fn(*mut c_int) -> c_int;
    type ErrorString = unsafe extern "C" fn(c_int) -> *const c_char;
    let runtime = Library::this();
    // SAFETY: both types are the declarations' in cuda_runtime_api.h, which CUDA 13 has not changed.
    let functions = unsafe {
        (runtime.get::<DeviceCount>("cudaGetDeviceCount"), runtime.get::<ErrorString>("cudaGetErrorString"))
    };
    let (Ok(device_count), Ok(error_string)) = functions else {
        return "there is no CUDA runtime to ask why".to_owned();
    };
    let mut devices = 0;
    // SAFETY: writes one integer.
    let code = unsafe { device_count(&mut devices) };
    if code == 0 {
        return format!("the CUDA runtime sees {devices}");
    }
    // SAFETY: takes any number, and returns a string that is never freed, or null.
    let text = unsafe { error_string(code) };
    if text.is_null() {
        return format!("the CUDA runtime answers {code}");
    }
    // SAFETY: not null, ends with a zero byte, and lives as long as the runtime, which is not unloaded.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    format!("the CUDA runtime answers {code}, {text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_libtorch_without_cuda_is_distinguished_from_one_lacking_a_library() {
        let folder = tempfile::tempdir().unwrap();
        let error = TorchCuda::open(Some(folder.path())).unwrap_err();
        assert!(matches!(&error, TorchCudaError::CpuOnly { .. }) && error.is_missing(), "{error}");
        let text = error.to_string();
        assert!(text.contains(&folder.path().display().to_string()), "{text}");
        assert!(text.contains("torch==2.11.0"), "{text}");

        let library = folder.path().join(LIBRARY);
        std::fs::write(&library, b"no library").unwrap();
        let error = TorchCuda::open(Some(folder.path())).unwrap_err();
        assert!(matches!(&error, TorchCudaError::Unloadable { library: l, .. } if *l == library), "{error}");
        assert!(error.to_string().contains("torch==2.11.0"), "{error}");
    }

    #[test]
    fn a_library_without_the_stream_functions_is_of_another_version() {
        let folder = tempfile::tempdir().unwrap();
        let cpu = cpu_library_folder().unwrap();
        std::os::unix::fs::symlink(cpu.join("libc10.so"), folder.path().join(LIBRARY)).unwrap();
        let error = TorchCuda::open(Some(folder.path())).unwrap_err();
        assert!(matches!(&error, TorchCudaError::OtherVersion { .. }), "{error}");
        assert!(error.to_string().contains("aoti_torch_get_current_cuda_stream"), "{error}");
    }

    #[test]
    fn the_libtorch_in_use_is_found() {
        assert!(cpu_library_folder().unwrap().join(CPU_LIBRARY).is_file());
    }

    /// The machine determines which error it is; the message of each is checked.
    #[test]
    fn loading_here_gives_a_device_or_says_what_is_missing() {
        if let Err(error) = TorchCuda::load() {
            eprintln!("{error}");
        }
        match TorchCuda::load() {
            Ok(loaded) => {
                loaded.check_device(0).unwrap();
                let error = loaded.check_device(1 << 20).unwrap_err();
                assert!(error.to_string().contains("there is no cuda:1048576"), "{error}");
            }
            Err(TorchCudaError::Unloadable { library, problem }) => {
                assert!(library.is_file(), "{library:?}");
                assert!(problem.contains(".so"), "the missing library is not named: {problem}");
            }
            Err(error) => {
                assert!(error.is_missing(), "{error}");
                assert!(!tch::Cuda::is_available());
            }
        }
        assert_eq!(TorchCuda::load().err(), TorchCuda::load().err());
    }
}
