//! The library's functions: found and opened once for the process.

use std::ffi::{c_int, c_void};
use std::path::PathBuf;
use std::sync::OnceLock;

use cudarc::cufile::sys::{self, CUfileDescr_t, CUfileDrvProps_t, CUfileError_t, CUfileHandle_t, off_t};

use super::status::CufileStatus;
use crate::code::toolkit;
use crate::error;

/// The library's name for the loader. Not `libcufile.so`, which is only in development packages.
const LIBRARY: &str = "libcufile.so.0";

/// Declares the table of the library's functions: the only list of all that this program calls.
///
/// A `CUfileError_t` is returned as two plain numbers, which the ABI passes as it does cudarc's struct of two enums: a
/// newer library may return a number that those lack. The line marked "same type" makes the compiler compare the arguments
/// with cudarc's, which are generated from cufile.h.
macro_rules! functions {
    ($($function:ident($($argument:ty),*) -> $result:ty as $declared:ty;)*) => {
        /// The library's functions, by the names under which it exports them.
        #[allow(non_snake_case, reason = "NVIDIA's names")]
        pub(super) struct CufileFunctions {
            $(pub $function: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl CufileFunctions {
            fn find(library: &libloading::Library) -> Result<Self, &'static str> {
                Ok(Self {
                    // SAFETY: the type is the function's own: see "same type". The pointer is used only while the
                    // library is open, and `open` never closes it.
                    $($function: *unsafe { library.get(concat!(stringify!($function), "\0")) }
                        .map_err(|_| stringify!($function))?,)*
                })
            }
        }

        // Same type, except for the struct of two enums.
        $(const _: unsafe fn($($argument),*) -> $declared = sys::$function;)*
    };
}

functions! {
    cuFileDriverOpen() -> CufileStatus as CUfileError_t;
    // The first form closes the driver for everyone in the process, however often it was opened.
    cuFileDriverClose_v2() -> CufileStatus as CUfileError_t;
    cuFileDriverGetProperties(*mut CUfileDrvProps_t) -> CufileStatus as CUfileError_t;
    cuFileHandleRegister(*mut CUfileHandle_t, *mut CUfileDescr_t) -> CufileStatus as CUfileError_t;
    cuFileHandleDeregister(CUfileHandle_t) -> () as ();
    cuFileBufRegister(*const c_void, usize, c_int) -> CufileStatus as CUfileError_t;
    cuFileBufDeregister(*const c_void) -> CufileStatus as CUfileError_t;
    cuFileRead(CUfileHandle_t, *mut c_void, usize, off_t, off_t) -> isize as isize;
}

static LOADED: OnceLock<Result<CufileFunctions, String>> = OnceLock::new();

/// The library's functions. Opens it the first time; later calls give the same result.
///
/// # Errors
/// The reason why the library cannot be opened, or the missing function.
pub(super) fn functions() -> Result<&'static CufileFunctions, String> {
    LOADED.get_or_init(open).as_ref().map_err(Clone::clone)
}

/// Opens the library from the loader's search path, or else from a toolkit.
fn open() -> Result<CufileFunctions, String> {
    let toolkits = toolkit::folders().into_iter();
    let in_toolkits = toolkits.map(|folder| folder.join("lib64").join(LIBRARY)).filter(|file| file.is_file());
    let mut refused = None;
    for place in std::iter::once(PathBuf::from(LIBRARY)).chain(in_toolkits) {
        // SAFETY: the library's initialisers are NVIDIA's (or the simulator's) and may run at any time.
        match unsafe { libloading::Library::new(&place) } {
            Ok(library) => {
                // Never closed: its threads run in it, and we keep its functions' addresses.
                let library: &'static libloading::Library = Box::leak(Box::new(library));
                return CufileFunctions::find(library).map_err(|symbol| {
                    format!("{} has no {symbol}: cuFile 1.0 or newer is required", place.display())
                });
            }
            // The error of the loader's own search is reported.
            Err(error) => {
                refused.get_or_insert_with(|| {
                    format!("{LIBRARY} cannot be opened ({})", error::loader_said(&error))
                });
            }
        }
    }
    Err(refused.unwrap_or_else(|| format!("{LIBRARY} cannot be opened")))
}
