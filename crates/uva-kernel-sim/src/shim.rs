//! Rust wrappers of the C++ side's two functions.

use std::ffi::{CStr, c_char, c_void};
use std::ops::Range;
use std::sync::OnceLock;

const LANES: usize = 32;
/// CUDA's limit of threads of a block.
const THREADS_OF_A_BLOCK: u64 = 1024;

/// Why a kernel was not run, or not completed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// There is no entry point of that name.
    #[error("no kernel named `{0}`")]
    Unknown(String),
    /// A grid or block of no thread, or more than 1024 threads in a block.
    #[error("kernel `{name}`: a grid of {grid:?} blocks of {block:?} threads cannot be launched")]
    Shape {
        /// The entry point.
        name: String,
        /// Blocks in each dimension.
        grid: [u32; 3],
        /// Threads of a block in each dimension.
        block: [u32; 3],
    },
    /// Dynamic shared memory, which no kernel here has.
    #[error("kernel `{name}`: {bytes} bytes of dynamic shared memory were requested, but it has none")]
    SharedMemory {
        /// The entry point.
        name: String,
        /// Requested bytes.
        bytes: u32,
    },
    /// The kernel did something that the shim rejects. This is a bug of the kernel; the launch ended there.
    #[error("kernel `{name}`: {reason}")]
    Kernel {
        /// The entry point.
        name: String,
        /// The rejected operation.
        reason: &'static str,
    },
}

/// The read of one lane in one warp instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneAccess {
    /// The lane, 0…31.
    pub lane: u8,
    /// The host address of the first byte.
    pub address: u64,
    /// The number of bytes.
    pub bytes: u32,
}

/// One warp instruction: the lanes that read from the watched range, in ascending order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WarpAccess {
    /// At least one.
    pub lanes: Vec<LaneAccess>,
}

/// The loads of table memory that touched a range of host addresses, in order. Blocks run one after the other, and so
/// do the warps of a block unless they wait for each other.
#[derive(Debug, Clone)]
pub struct AccessLog {
    watched: Range<u64>,
    /// The logged instructions; launches append.
    pub instructions: Vec<WarpAccess>,
}

impl AccessLog {
    /// A log of reads at the addresses `watched`.
    pub fn new(watched: Range<u64>) -> AccessLog {
        AccessLog { watched, instructions: Vec::new() }
    }

    /// The addresses watched.
    pub fn watched(&self) -> &Range<u64> {
        &self.watched
    }
}

/// `WarpAccess` of shim/launch.h.
#[repr(C)]
struct ShimAccess {
    count: u32,
    bytes: u32,
    address: [u64; LANES],
    lane: [u8; LANES],
}

/// `AccessSink` of shim/launch.h.
#[repr(C)]
struct ShimSink {
    begin: u64,
    end: u64,
    owner: *mut c_void,
    take: unsafe extern "C" fn(*mut c_void, *const ShimAccess),
}

unsafe extern "C" {
    fn uva_shim_entry(index: usize) -> *const c_char;
    fn uva_shim_launch(
        index: usize,
        grid: *const u32,
        block: *const u32,
        arguments: *const *mut c_void,
        sink: *mut ShimSink,
    ) -> *const c_char;
}

/// Appends an access to the log.
///
/// # Safety
/// `owner` is the log that `launch_logged` borrows mutably for the launch, `access` an access of the shim.
unsafe extern "C" fn take(owner: *mut c_void, access: *const ShimAccess) {
    // SAFETY: the shim calls this on the launching thread, between blocks, with the two pointers it was given: no other
    // code uses the log in the meantime, and the access outlives the call.
    let (log, access) = unsafe { (&mut *owner.cast::<AccessLog>(), &*access) };
    let read = access.address.iter().zip(&access.lane).take(access.count as usize);
    let lanes = read.map(|(&address, &lane)| LaneAccess { lane, address, bytes: access.bytes }).collect();
    log.instructions.push(WarpAccess { lanes });
}

/// The names of entry points for [`launch`].
pub fn entry_points() -> &'static [&'static str] {
    static NAMES: OnceLock<Vec<&'static str>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let name = |index| {
            // SAFETY: any index is valid; the result is null or a literal.
            let name = unsafe { uva_shim_entry(index) };
            // SAFETY: not null, so a literal of the C++ side: NUL-terminated and static.
            (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) })
        };
        (0..).map_while(name).map(|name| name.to_str().expect("kernel names are ASCII")).collect()
    })
}

/// Runs the entry point `name` on this thread, to its end. Concurrent launches on several threads are supported: they
/// only share the memory of their arguments, where atomics are atomic.
///
/// `arguments` is what `cuLaunchKernel` takes as `kernelParams`: a pointer to a pointer for each parameter.
///
/// # Errors
/// [`LaunchError`]. The effects of a kernel before an error remain.
///
/// # Safety
/// `arguments` has a pointer for each parameter of the entry point, to a value of its type. The addresses in those
/// values are valid in this process for what the kernel reads and writes. Other code uses that memory during the launch
/// through atomics only.
pub unsafe fn launch(
    name: &str,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    arguments: *const *mut c_void,
) -> Result<(), LaunchError> {
    // SAFETY: passed on.
    unsafe { launch_with(name, grid, block, shared_bytes, arguments, std::ptr::null_mut()) }
}

/// As [`launch`], and appends to `log` what each warp instruction reads of the watched addresses.
///
/// # Errors
/// As [`launch`].
///
/// # Safety
/// As [`launch`].
pub unsafe fn launch_logged(
    name: &str,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    arguments: *const *mut c_void,
    log: &mut AccessLog,
) -> Result<(), LaunchError> {
    let Range { start: begin, end } = log.watched;
    let mut sink = ShimSink { begin, end, owner: std::ptr::from_mut(log).cast(), take };
    // SAFETY: passed on; `sink` lives until the launch has returned, as the log it names does.
    unsafe { launch_with(name, grid, block, shared_bytes, arguments, &raw mut sink) }
}

/// Runs the entry point, with an optional sink.
///
/// # Safety
/// As [`launch`]; `sink` is null or a sink whose owner `take` may use during the call.
unsafe fn launch_with(
    name: &str,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    arguments: *const *mut c_void,
    sink: *mut ShimSink,
) -> Result<(), LaunchError> {
    let index = entry_points().iter().position(|known| *known == name);
    let index = index.ok_or_else(|| LaunchError::Unknown(name.to_owned()))?;
    let threads = block.iter().try_fold(1_u64, |product, &size| product.checked_mul(size.into()));
    let threads = threads.filter(|threads| (1..=THREADS_OF_A_BLOCK).contains(threads));
    if threads.is_none() || grid.contains(&0) {
        return Err(LaunchError::Shape { name: name.to_owned(), grid, block });
    }
    if shared_bytes != 0 {
        return Err(LaunchError::SharedMemory { name: name.to_owned(), bytes: shared_bytes });
    }
    // SAFETY: `index` is one of the table; grid and block are three numbers each; the rest is what our caller promised.
    let reason = unsafe { uva_shim_launch(index, grid.as_ptr(), block.as_ptr(), arguments, sink) };
    if reason.is_null() {
        return Ok(());
    }
    // SAFETY: a literal of the C++ side: NUL-terminated and static.
    let reason = unsafe { CStr::from_ptr(reason) }.to_str().unwrap_or("the shim's reason is not UTF-8");
    Err(LaunchError::Kernel { name: name.to_owned(), reason })
}
