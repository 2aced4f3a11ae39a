//! The driver itself and its devices: their properties and features.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use crate::machine::codes::{Code, Outcome};
use crate::machine::functions::Exported;
use crate::machine::mps;
use crate::machine::registry::give;
use crate::machine::settings::{Feature, Settings, Strictness, known_settings};
use crate::machine::types::Uuid;

/// The machine detected by `cuInit`, fixed for the process's lifetime, like the limits of a real client.
struct Machine {
    settings: &'static Settings,
    mps_percentage: Option<u32>,
}

static MACHINE: OnceLock<Machine> = OnceLock::new();

pub fn is_initialised() -> bool {
    MACHINE.get().is_some()
}

fn machine() -> Result<&'static Machine, Code> {
    MACHINE.get().ok_or(Code::NOT_INITIALIZED)
}

/// The settings, for what runs after `cuInit`.
pub fn configured() -> Result<&'static Settings, Code> {
    Ok(machine()?.settings)
}

/// Multiprocessors that this process may use.
pub fn multiprocessors() -> Result<u32, Code> {
    let machine = machine()?;
    // Rounded down, as the driver does; a client of 0 could run nothing.
    let all = machine.settings.multiprocessors;
    Ok(machine.mps_percentage.map_or(all, |percentage| (all * percentage / 100).max(1)))
}

/// Checks a device's handle and returns its ordinal.
///
/// # Errors
/// `CUDA_ERROR_INVALID_DEVICE` if it is not a device.
pub fn ordinal(device: c_int) -> Result<usize, Code> {
    let devices = configured()?.devices;
    usize::try_from(device).ok().filter(|&device| device < devices).ok_or(Code::INVALID_DEVICE)
}

pub fn init(flags: c_uint) -> Outcome {
    if flags != 0 {
        return Err(Code::INVALID_VALUE);
    }
    let settings = known_settings().map_err(|wrong| {
        eprintln!("cuda-sim: {wrong}");
        Code::INVALID_VALUE
    })?;
    if settings.is_strict(Strictness::Mps) {
        mps::enter()?;
    }
    MACHINE.get_or_init(|| Machine { settings, mps_percentage: mps::percentage() });
    if settings.devices == 0 { Err(Code::NO_DEVICE) } else { Ok(()) }
}

/// # Safety
/// `version` is null or writable.
pub unsafe fn driver_version(version: *mut c_int) -> Outcome {
    let known = known_settings().map_or(13000, |settings| settings.driver_version);
    // SAFETY: the caller's promise.
    unsafe { give(version, known) }
}

/// # Safety
/// `count` is null or writable.
pub unsafe fn count(count: *mut c_int) -> Outcome {
    // SAFETY: the caller's promise.
    unsafe { give(count, configured()?.devices as c_int) }
}

/// # Safety
/// `device` is null or writable.
pub unsafe fn get(device: *mut c_int, number: c_int) -> Outcome {
    ordinal(number)?;
    // SAFETY: the caller's promise.
    unsafe { give(device, number) }
}

/// Writes `text` and a zero into `length` bytes, truncated if needed.
///
/// # Safety
/// `place` is null or writable for `length` bytes.
unsafe fn give_text(place: *mut c_char, length: c_int, text: &str) -> Outcome {
    let Some(room) = usize::try_from(length).ok().and_then(|length| length.checked_sub(1)) else {
        return Err(Code::INVALID_VALUE);
    };
    if place.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    let bytes = &text.as_bytes()[..text.len().min(room)];
    // SAFETY: `bytes` and the zero are at most `length` bytes, which the caller promises to be writable.
    unsafe {
        place.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        place.add(bytes.len()).write(0);
    }
    Ok(())
}

/// # Safety
/// `name` is null or writable for `length` bytes.
pub unsafe fn name(name: *mut c_char, length: c_int, device: c_int) -> Outcome {
    let ordinal = ordinal(device)?;
    // SAFETY: the caller's promise.
    unsafe { give_text(name, length, &format!("cuda-sim device {ordinal}")) }
}

/// # Safety
/// `id` is null or writable for `length` bytes.
pub unsafe fn pci_bus_id(id: *mut c_char, length: c_int, device: c_int) -> Outcome {
    let ordinal = ordinal(device)?;
    // SAFETY: the caller's promise.
    unsafe { give_text(id, length, &format!("0000:{:02X}:00.0", ordinal + 1)) }
}

/// # Safety
/// `uuid` is null or writable.
pub unsafe fn uuid(uuid: *mut Uuid, device: c_int) -> Outcome {
    let mut bytes = *b"cuda-sim device\0";
    bytes[15] = ordinal(device)? as u8;
    // SAFETY: the caller's promise.
    unsafe { give(uuid, Uuid { bytes }) }
}

/// # Safety
/// `can` is null or writable.
pub unsafe fn can_access_peer(can: *mut c_int, device: c_int, peer: c_int) -> Outcome {
    let of_another = ordinal(device)? != ordinal(peer)?;
    // SAFETY: the caller's promise. A device is not its own peer.
    unsafe { give(can, c_int::from(of_another && configured()?.has(Feature::PeerAccess))) }
}

/// # Safety
/// `bytes` is null or writable.
pub unsafe fn total_memory(bytes: *mut usize, device: c_int) -> Outcome {
    ordinal(device)?;
    // SAFETY: the caller's promise.
    unsafe { give(bytes, configured()?.memory as usize) }
}

/// # Safety
/// `value` is null or writable.
pub unsafe fn attribute(value: *mut c_int, attribute: c_uint, device: c_int) -> Outcome {
    let ordinal = ordinal(device)?;
    let machine = machine()?;
    let settings = machine.settings;
    let if_has = |feature| c_int::from(settings.has(feature));
    let known = match attribute {
        1..=4 => [1024, 1024, 1024, 64][attribute as usize - 1], // MAX_THREADS_PER_BLOCK, MAX_BLOCK_DIM_X, Y, Z
        5 => c_int::MAX,                                         // MAX_GRID_DIM_X
        6 | 7 => 65_535,                                         // MAX_GRID_DIM_Y, Z
        8 => SHARED_MEMORY_PER_BLOCK as c_int,                   // MAX_SHARED_MEMORY_PER_BLOCK
        10 => 32,                                                // WARP_SIZE
        16 => multiprocessors()? as c_int,                       // MULTIPROCESSOR_COUNT
        19 | 31 | 41 => 1, // CAN_MAP_HOST_MEMORY, CONCURRENT_KERNELS, UNIFIED_ADDRESSING
        33 => ordinal as c_int + 1, // PCI_BUS_ID
        38 => 50 << 20,    // L2_CACHE_SIZE
        39 => THREADS_PER_MULTIPROCESSOR as c_int, // MAX_THREADS_PER_MULTIPROCESSOR
        40 => 3,           // ASYNC_ENGINE_COUNT
        75 => settings.capability.0, // COMPUTE_CAPABILITY_MAJOR
        76 => settings.capability.1, // COMPUTE_CAPABILITY_MINOR
        78 => 1,           // STREAM_PRIORITIES_SUPPORTED
        81 => SHARED_MEMORY_PER_MULTIPROCESSOR as c_int, // MAX_SHARED_MEMORY_PER_MULTIPROCESSOR
        91 => 1,           // CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM
        97 => SHARED_MEMORY_PER_BLOCK_OPTIN as c_int, // MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
        99 => if_has(Feature::HostRegister), // HOST_REGISTER_SUPPORTED
        102 | 103 => if_has(Feature::Vmm), // VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED
        106 => BLOCKS_PER_MULTIPROCESSOR as c_int, // MAX_BLOCKS_PER_MULTIPROCESSOR
        110 => if_has(Feature::Vmm),       // GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED
        113 => c_int::from(settings.has(Feature::HostRegister) && settings.has(Feature::ReadOnlyRegister)), // READ_ONLY_HOST_REGISTER_SUPPORTED
        122 => if_has(Feature::StreamMemoryOperations), // CAN_USE_64_BIT_STREAM_MEM_OPS
        125 => if_has(Feature::IpcEvent),               // IPC_EVENT_SUPPORTED
        133 => c_int::from(machine.mps_percentage.is_some()), // MPS_ENABLED
        // In the header, but not supported on this machine.
        11..=145 | 9 => 0,
        _ => return Err(Code::INVALID_VALUE),
    };
    // SAFETY: the caller's promise.
    unsafe { give(value, known) }
}

/// The multiprocessor's limits, an H100's.
pub const SHARED_MEMORY_PER_BLOCK: u32 = 48 << 10;
/// With `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES` set.
pub const SHARED_MEMORY_PER_BLOCK_OPTIN: u32 = 227 << 10;
pub const SHARED_MEMORY_PER_MULTIPROCESSOR: u32 = 228 << 10;
pub const THREADS_PER_MULTIPROCESSOR: u32 = 2048;
pub const BLOCKS_PER_MULTIPROCESSOR: u32 = 32;

/// # Safety
/// `text` is null or writable.
pub unsafe fn error_name(code: u32, text: *mut *const c_char) -> Outcome {
    let name = Code(code).name();
    // SAFETY: the caller's promise. The driver stores null for an unknown code.
    unsafe { give(text, name.map_or(std::ptr::null(), CStr::as_ptr)) }?;
    name.map(|_| ()).ok_or(Code::INVALID_VALUE)
}

/// # Safety
/// `address` is null or writable; `name` is null or a C string; `status` is null or writable.
pub unsafe fn proc_address(
    functions: &[Exported],
    name: *const c_char,
    address: *mut *mut c_void,
    version: c_int,
    status: *mut c_uint,
) -> Outcome {
    if name.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: not null, and a C string by the caller's promise.
    let name = unsafe { CStr::from_ptr(name) }.to_str().map_err(|_| Code::INVALID_VALUE)?;
    let exact = functions.iter().find(|function| function.name == name);
    // Looked up by the bare name, in the newest version.
    let found = functions
        .iter()
        .filter(|f| f.name.strip_prefix(name).is_some_and(|rest| rest.starts_with("_v")))
        .max_by_key(|f| f.name)
        .or(exact)
        .filter(|_| version <= known_settings().map_or(13000, |settings| settings.driver_version));
    let (value, verdict, outcome) = match found {
        Some(function) => ((function.address)().cast_mut(), 0, Ok(())),
        // CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND
        None => (std::ptr::null_mut(), 1, Err(Code::NOT_FOUND)),
    };
    // SAFETY: the caller's promise.
    unsafe {
        give(address, value)?;
        if !status.is_null() {
            status.write(verdict);
        }
    }
    outcome
}
