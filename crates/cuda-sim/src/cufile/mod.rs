//! A stand-in libcufile: reads of files into this simulator's device memory.
//!
//! It is in the same shared library as the driver. Programs find it under its own name only with
//! [`cufile_environment`](crate::cufile_environment).
//!
//! It is strict: the driver must be open, files must be open with `O_DIRECT`, memory must belong to the device, and
//! reads require a current context on the calling thread.

#![allow(non_snake_case, reason = "NVIDIA's names")]

mod settings;

use std::collections::HashSet;
use std::ffi::{c_int, c_uint, c_void};
use std::fs::File;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rustix::fs::OFlags;
use uva_kernels::Access;

use crate::device_memory::ranges::{Kind, around, hold};
use crate::machine::context;
use crate::machine::registry::{Registry, lock};
use settings::{Function, Settings, settings};

/// CUfileOpError, with the numbers of cufile.h.
const DRIVER_NOT_INITIALIZED: u32 = 5001;
const DRIVER_INVALID_PROPS: u32 = 5002;
const CUDA_MEMORY_TYPE_INVALID: u32 = 5013;
const CUDA_POINTER_RANGE_ERROR: u32 = 5014;
const INVALID_FILE_TYPE: u32 = 5018;
const DIO_NOT_SET: u32 = 5020;
const INVALID_VALUE: u32 = 5022;
const MEMORY_ALREADY_REGISTERED: u32 = 5023;
const MEMORY_NOT_REGISTERED: u32 = 5024;
const HANDLE_NOT_REGISTERED: u32 = 5027;
const INTERNAL_ERROR: u32 = 5030;
const INVALID_CONTEXT_ERROR: u32 = 5047;

/// `CUfileError_t`.
#[repr(C)]
pub struct Status {
    code: c_uint,
    cuda: c_uint,
}

/// `CUfileDescr_t`, of a descriptor.
#[repr(C)]
pub struct Description {
    kind: c_uint,
    /// A union with a pointer.
    file: Descriptor,
    operations: *const c_void,
}

#[repr(C, align(8))]
struct Descriptor(c_int);

/// `CUfileDrvProps_t`.
#[repr(C)]
pub struct Properties {
    major_version: c_uint,
    minor_version: c_uint,
    poll_threshold: usize,
    largest_direct: usize,
    status_flags: c_uint,
    control_flags: c_uint,
    feature_flags: c_uint,
    limits: [c_uint; 5],
}

/// The number of opens of the driver.
static OPEN: AtomicUsize = AtomicUsize::new(0);
static FILES: Registry<File> = Registry::new();
/// The addresses of registered memory.
static BUFFERS: Mutex<Option<HashSet<u64>>> = Mutex::new(None);

/// Runs a function's body, unless a fault is due.
fn call(function: Function, body: impl FnOnce(&Settings) -> Result<(), u32>) -> Status {
    let run = || {
        let settings = settings().map_err(|error| {
            eprintln!("cuda-sim: {error}");
            DRIVER_INVALID_PROPS
        })?;
        if let Some(code) = settings.fault(function) {
            return Err(code);
        }
        if function != Function::cuFileDriverOpen && OPEN.load(Ordering::SeqCst) == 0 {
            return Err(DRIVER_NOT_INITIALIZED);
        }
        body(settings)
    };
    let outcome = catch_unwind(AssertUnwindSafe(run)).unwrap_or(Err(INTERNAL_ERROR));
    Status { code: outcome.err().unwrap_or(0), cuda: 0 }
}

/// Opens the driver; opens are counted.
#[unsafe(no_mangle)]
extern "C" fn cuFileDriverOpen() -> Status {
    call(Function::cuFileDriverOpen, |_| {
        OPEN.fetch_add(1, Ordering::SeqCst);
        Ok(())
    })
}

/// Undoes one open of the driver.
#[unsafe(no_mangle)]
extern "C" fn cuFileDriverClose_v2() -> Status {
    call(Function::cuFileDriverClose_v2, |_| {
        OPEN.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    })
}

/// Returns the driver's properties: with the kernel module, unless compatibility mode is set.
///
/// # Safety
/// `properties` is null or writable.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuFileDriverGetProperties(properties: *mut Properties) -> Status {
    call(Function::cuFileDriverGetProperties, |settings| {
        if properties.is_null() {
            return Err(INVALID_VALUE);
        }
        let said = Properties {
            major_version: if settings.compatibility { 0 } else { 2 },
            minor_version: if settings.compatibility { 0 } else { 22 },
            poll_threshold: 4,
            largest_direct: 16 << 10,
            status_flags: 0,
            // CU_FILE_ALLOW_COMPAT_MODE
            control_flags: 1 << 1,
            feature_flags: 0,
            limits: [0; 5],
        };
        // SAFETY: not null, and writable by the caller's promise.
        unsafe { properties.write(said) };
        Ok(())
    })
}

/// Registers an open file.
///
/// # Safety
/// `handle` is null or writable, `description` null or readable; its descriptor is open.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuFileHandleRegister(
    handle: *mut *mut c_void,
    description: *const Description,
) -> Status {
    call(Function::cuFileHandleRegister, |_| {
        if handle.is_null() || description.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: not null, and readable by the caller's promise.
        let Description { kind, file: Descriptor(number), .. } = unsafe { description.read() };
        // CU_FILE_HANDLE_TYPE_OPAQUE_FD
        if kind != 1 || number < 0 {
            return Err(INVALID_FILE_TYPE);
        }
        // SAFETY: open by the caller's promise, during the call.
        let file = unsafe { BorrowedFd::borrow_raw(number) };
        let flags = rustix::fs::fcntl_getfl(file).map_err(|_| INVALID_FILE_TYPE)?;
        if !flags.contains(OFlags::DIRECT) {
            return Err(DIO_NOT_SET);
        }
        // The same inode, opened without the flag, so that reads need not be aligned.
        let file = File::open(format!("/proc/self/fd/{number}")).map_err(|_| INVALID_FILE_TYPE)?;
        let entered = FILES.insert(Arc::new(file));
        // SAFETY: not null, and writable by the caller's promise.
        unsafe { handle.write(entered as usize as *mut c_void) };
        Ok(())
    })
}

/// Deregisters a file.
#[unsafe(no_mangle)]
extern "C" fn cuFileHandleDeregister(handle: *mut c_void) {
    // The function returns nothing, even for invalid handles.
    let _ = FILES.remove(handle as usize as u64);
}

/// Registers memory of the device.
#[unsafe(no_mangle)]
extern "C" fn cuFileBufRegister(memory: *const c_void, bytes: usize, _flags: c_int) -> Status {
    call(Function::cuFileBufRegister, |_| {
        let start = memory as usize as u64;
        if !around(start).is_some_and(|(_, kind): (u64, Kind)| kind.is_device()) {
            return Err(CUDA_MEMORY_TYPE_INVALID);
        }
        hold(start, bytes as u64, Access::Write, true).ok_or(CUDA_POINTER_RANGE_ERROR)?;
        let is_new = lock(&BUFFERS).get_or_insert_default().insert(start);
        if is_new { Ok(()) } else { Err(MEMORY_ALREADY_REGISTERED) }
    })
}

/// Deregisters memory of the device.
#[unsafe(no_mangle)]
extern "C" fn cuFileBufDeregister(memory: *const c_void) -> Status {
    call(Function::cuFileBufDeregister, |_| {
        let was_there = lock(&BUFFERS).get_or_insert_default().remove(&(memory as usize as u64));
        if was_there { Ok(()) } else { Err(MEMORY_NOT_REGISTERED) }
    })
}

/// Reads from a file to memory of the device: bytes, -1 with `errno`, or a negative CUfileOpError.
#[unsafe(no_mangle)]
extern "C" fn cuFileRead(
    handle: *mut c_void,
    memory: *mut c_void,
    bytes: usize,
    file_offset: i64,
    memory_offset: i64,
) -> isize {
    let mut read = 0;
    let status = call(Function::cuFileRead, |settings| {
        let file = FILES.get(handle as usize as u64).map_err(|_| HANDLE_NOT_REGISTERED)?;
        context::current().map_err(|_| INVALID_CONTEXT_ERROR)?;
        let (Ok(from), Ok(at)) = (u64::try_from(file_offset), u64::try_from(memory_offset)) else {
            return Err(INVALID_VALUE);
        };
        let to = (memory as usize as u64).checked_add(at).ok_or(INVALID_VALUE)?;
        let bytes = if settings.short { bytes.min(bytes / 2 + 1) } else { bytes };
        let _held = hold(to, bytes as u64, Access::Write, true).ok_or(CUDA_POINTER_RANGE_ERROR)?;
        let mut found = vec![0; bytes];
        read = file.read_at(&mut found, from).map_err(|error| errno_of(&error))?;
        // SAFETY: memory of the device, which is host memory here and is held; `read` is at most `bytes`. The caller
        // ensures that no other code uses it.
        unsafe { (to as usize as *mut u8).copy_from_nonoverlapping(found.as_ptr(), read) };
        Ok(())
    });
    match status.code {
        0 => read as isize,
        // Smaller numbers are the system's.
        errno @ 1..5000 => {
            // SAFETY: the calling thread's own word.
            unsafe { __errno_location().write(errno as c_int) };
            -1
        }
        code => -(code as isize),
    }
}

unsafe extern "C" {
    /// The C library's function for the address of the calling thread's `errno`.
    fn __errno_location() -> *mut c_int;
}

fn errno_of(error: &std::io::Error) -> u32 {
    error.raw_os_error().and_then(|errno| u32::try_from(errno).ok()).unwrap_or(INTERNAL_ERROR)
}
