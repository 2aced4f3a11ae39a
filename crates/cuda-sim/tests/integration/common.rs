//! Shared code of the tests: driver calls that panic with the failure, and objects made by them.

use std::ffi::{CString, c_void};
use std::time::{Duration, Instant};

pub use cudarc::driver::sys::{self, CUcontext, CUdeviceptr, CUevent, CUresult, CUstream};

/// Calls the driver, and panics with the call if it fails.
#[macro_export]
macro_rules! ok {
    ($name:ident ( $($argument:expr),* $(,)? )) => {
        assert_eq!($crate::code!($name($($argument),*)), $crate::common::CUresult::CUDA_SUCCESS, stringify!($name))
    };
}

/// Calls the driver, and returns its result.
#[macro_export]
macro_rules! code {
    ($name:ident ( $($argument:expr),* $(,)? )) => {
        // SAFETY: the test makes the arguments so that every pointer among them is null or valid.
        unsafe { $crate::common::sys::$name($($argument),*) }
    };
}

pub const NON_BLOCKING: u32 = 1;
pub const TIMING: u32 = 0;
pub const INTERPROCESS: u32 = 6;

/// Initialises the driver and makes the primary context of device 0 current.
pub fn start() -> CUcontext {
    ok!(cuInit(0));
    let mut context = std::ptr::null_mut();
    ok!(cuDevicePrimaryCtxRetain(&mut context, 0));
    ok!(cuCtxSetCurrent(context));
    context
}

pub fn stream() -> CUstream {
    let mut stream = std::ptr::null_mut();
    ok!(cuStreamCreateWithPriority(&mut stream, NON_BLOCKING, 0));
    stream
}

pub fn event(flags: u32) -> CUevent {
    let mut event = std::ptr::null_mut();
    ok!(cuEventCreate(&mut event, flags));
    event
}

pub fn device_memory(bytes: usize) -> CUdeviceptr {
    let mut address = 0;
    ok!(cuMemAlloc_v2(&mut address, bytes));
    address
}

/// Pinned memory for the rest of the process.
pub fn pinned(bytes: usize) -> &'static mut [u8] {
    let mut place = std::ptr::null_mut();
    ok!(cuMemHostAlloc(&mut place, bytes, 0));
    // SAFETY: just allocated, of that length, and never freed.
    unsafe { std::slice::from_raw_parts_mut(place.cast(), bytes) }
}

pub fn read(address: CUdeviceptr, bytes: usize) -> Vec<u8> {
    let mut copy = vec![0_u8; bytes];
    ok!(cuMemcpyDtoHAsync_v2(copy.as_mut_ptr().cast(), address, bytes, std::ptr::null_mut()));
    ok!(cuStreamSynchronize(std::ptr::null_mut()));
    copy
}

/// Holds a stream until it is released.
pub struct Gate(&'static mut [u8]);

impl Gate {
    pub fn close(stream: CUstream) -> Self {
        let flag = pinned(4);
        flag.fill(0);
        let mut parameter = flag.as_mut_ptr();
        let mut parameters = [(&raw mut parameter).cast::<c_void>()];
        let spin = function("spin_until");
        ok!(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, parameters.as_mut_ptr(), std::ptr::null_mut()));
        Self(flag)
    }

    pub fn open(self) {
        // SAFETY: the flag is the test's own word, which the kernel only reads.
        unsafe { self.0.as_mut_ptr().cast::<u32>().write_volatile(1) };
    }
}

pub fn function(name: &str) -> sys::CUfunction {
    let image = CString::new("uva-kernel-sim").unwrap();
    let mut module = std::ptr::null_mut();
    ok!(cuModuleLoadDataEx(
        &mut module,
        image.as_ptr().cast(),
        0,
        std::ptr::null_mut(),
        std::ptr::null_mut()
    ));
    let name = CString::new(name).unwrap();
    let mut function = std::ptr::null_mut();
    ok!(cuModuleGetFunction(&mut function, module, name.as_ptr()));
    function
}

/// Polls until the condition holds. Fails after a time that no correct run needs.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < patience, "{what}");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}
