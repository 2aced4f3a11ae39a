//! The table of exported functions: name, preconditions, and the body. Names carry the versions that programs look up
//! (cudarc's, for CUDA 13.0).

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};
use std::sync::atomic::AtomicU64;

use crate::device_memory::{memory, registration, vmm};
use crate::execution::{event, green, ipc, lifetime, modules, stamps, stream, transfers};
use crate::machine::entry::{Needs, call};
use crate::machine::functions::Exported;
use crate::machine::settings::settings;
use crate::machine::types::{DevResource, HostFunction, IpcHandle, MemAccessDesc, MemAllocationProp, Uuid};
use crate::machine::{context, device};

macro_rules! driver_functions {
    ($( [$needs:ident] $name:ident ( $($argument:ident : $type:ty),* $(,)? ) => $body:expr; )*) => {
        /// Each function's place in the table.
        #[allow(non_camel_case_types)]
        #[derive(Clone, Copy)]
        enum Place { $($name),* }

        /// Every exported function.
        static FUNCTIONS: [Exported; [$(Place::$name),*].len()] = [
            $(Exported { name: stringify!($name), address: || $name as *const c_void, calls: AtomicU64::new(0) }),*
        ];

        $(
            /// The driver's function of that name.
            ///
            /// # Safety
            /// By the driver's documentation: every pointer is null or valid for what is read or written there.
            #[allow(non_snake_case)]
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($argument: $type),*) -> c_uint {
                // Some bodies do not need a promise of the caller.
                #[allow(unused_unsafe)]
                // SAFETY: the promises required by the bodies are made by the caller, above.
                call(&FUNCTIONS, Place::$name as usize, Needs::$needs, || unsafe { $body })
            }
        )*
    };
}

driver_functions! {
    // The driver and its devices.
    [Nothing] cuInit(flags: c_uint) => device::init(flags);
    [Nothing] cuDriverGetVersion(version: *mut c_int) => device::driver_version(version);
    [Nothing] cuGetErrorName(code: c_uint, text: *mut *const c_char) => device::error_name(code, text);
    [Nothing] cuGetErrorString(code: c_uint, text: *mut *const c_char) => device::error_name(code, text);
    [Nothing] cuGetProcAddress_v2(name: *const c_char, address: *mut *mut c_void, version: c_int, flags: c_ulonglong, status: *mut c_uint)
        => { let _ = flags; device::proc_address(&FUNCTIONS, name, address, version, status) };
    [Nothing] cuGetProcAddress(name: *const c_char, address: *mut *mut c_void, version: c_int, flags: c_ulonglong)
        => { let _ = flags; device::proc_address(&FUNCTIONS, name, address, version, std::ptr::null_mut()) };
    [Init] cuDeviceGetCount(count: *mut c_int) => device::count(count);
    [Init] cuDeviceGet(device: *mut c_int, ordinal: c_int) => device::get(device, ordinal);
    [Init] cuDeviceGetName(name: *mut c_char, length: c_int, device: c_int) => device::name(name, length, device);
    [Init] cuDeviceGetAttribute(value: *mut c_int, attribute: c_uint, device: c_int) => device::attribute(value, attribute, device);
    [Init] cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) => device::total_memory(bytes, device);
    [Init] cuDeviceGetPCIBusId(id: *mut c_char, length: c_int, device: c_int) => device::pci_bus_id(id, length, device);
    [Init] cuDeviceGetUuid(uuid: *mut Uuid, device: c_int) => device::uuid(uuid, device);
    [Init] cuDeviceGetUuid_v2(uuid: *mut Uuid, device: c_int) => device::uuid(uuid, device);
    [Init] cuDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int) => device::can_access_peer(can, device, peer);

    // Contexts.
    [Init] cuDevicePrimaryCtxRetain(context: *mut *mut c_void, device: c_int) => context::primary_retain(context, device);
    [Init] cuDevicePrimaryCtxRelease_v2(device: c_int) => lifetime::primary_release(device);
    [Init] cuCtxSetCurrent(context: *mut c_void) => context::set_current(context);
    [Init] cuCtxGetCurrent(context: *mut *mut c_void) => context::get_current(context);
    [Context] cuCtxGetDevice(device: *mut c_int) => context::get_device(device);
    [Context] cuCtxSynchronize() => lifetime::synchronize();

    // Streams.
    [Context] cuStreamCreate(stream: *mut *mut c_void, flags: c_uint) => stream::create(stream, flags, 0);
    [Context] cuStreamCreateWithPriority(stream: *mut *mut c_void, flags: c_uint, priority: c_int) => stream::create(stream, flags, priority);
    [Release] cuStreamDestroy_v2(stream: *mut c_void) => stream::destroy(stream);
    [Context] cuStreamSynchronize(stream: *mut c_void) => stream::synchronize(stream);
    [Context] cuStreamQuery(stream: *mut c_void) => stream::query(stream);
    [Context] cuStreamWaitEvent(stream: *mut c_void, event: *mut c_void, flags: c_uint) => stream::wait_event(stream, event, flags);
    [Context] cuStreamWriteValue64_v2(stream: *mut c_void, address: u64, value: u64, flags: c_uint) => stamps::write(stream, address, value, flags);
    [Context] cuStreamWaitValue64_v2(stream: *mut c_void, address: u64, value: u64, flags: c_uint) => stamps::wait(stream, address, value, flags);
    [Context] cuLaunchHostFunc(stream: *mut c_void, function: HostFunction, data: *mut c_void) => stream::launch_host_function(stream, function, data);

    // Events.
    [Context] cuEventCreate(event: *mut *mut c_void, flags: c_uint) => event::create(event, flags);
    [Context] cuEventRecord(event: *mut c_void, stream: *mut c_void) => stream::record_event(event, stream);
    [Context] cuEventQuery(event: *mut c_void) => event::query(event);
    [Context] cuEventSynchronize(event: *mut c_void) => event::synchronize(event);
    [Context] cuEventElapsedTime(milliseconds: *mut f32, start: *mut c_void, end: *mut c_void) => event::elapsed(milliseconds, start, end);
    [Context] cuEventElapsedTime_v2(milliseconds: *mut f32, start: *mut c_void, end: *mut c_void) => event::elapsed(milliseconds, start, end);
    [Release] cuEventDestroy_v2(event: *mut c_void) => event::destroy(event);
    [Context] cuIpcGetEventHandle(handle: *mut IpcHandle, event: *mut c_void) => ipc::event_handle(handle, event);
    [Context] cuIpcOpenEventHandle(event: *mut *mut c_void, handle: IpcHandle) => ipc::open_event(event, handle);

    // Memory.
    [Context] cuMemGetInfo_v2(free: *mut usize, total: *mut usize) => memory::info(free, total);
    [Context] cuMemAlloc_v2(address: *mut u64, bytes: usize) => memory::allocate(address, bytes);
    [Release] cuMemFree_v2(address: u64) => memory::free(address);
    [Context] cuMemGetAddressRange_v2(base: *mut u64, bytes: *mut usize, address: u64) => memory::address_range(base, bytes, address);
    [Context] cuMemHostAlloc(place: *mut *mut c_void, bytes: usize, flags: c_uint) => memory::host_allocate(place, bytes, flags);
    [Release] cuMemFreeHost(place: *mut c_void) => memory::host_free(place);
    [Context] cuMemHostRegister_v2(place: *mut c_void, bytes: usize, flags: c_uint) => registration::register(place, bytes, flags);
    [Release] cuMemHostUnregister(place: *mut c_void) => registration::unregister(place);
    [Context] cuMemHostGetDevicePointer_v2(address: *mut u64, place: *mut c_void, flags: c_uint) => memory::host_device_pointer(address, place, flags);
    [Context] cuIpcGetMemHandle(handle: *mut IpcHandle, address: u64) => ipc::memory_handle(handle, address);
    [Context] cuIpcOpenMemHandle_v2(address: *mut u64, handle: IpcHandle, flags: c_uint) => ipc::open_memory(address, handle, flags);
    [Release] cuIpcCloseMemHandle(address: u64) => ipc::close_memory(address);

    // Virtual memory. The driver does not require a current context for these.
    [Init] cuMemGetAllocationGranularity(granularity: *mut usize, property: *const MemAllocationProp, option: c_uint) => vmm::granularity(granularity, property, option);
    [Init] cuMemCreate(handle: *mut c_ulonglong, bytes: usize, property: *const MemAllocationProp, flags: c_ulonglong) => vmm::create(handle, bytes, property, flags);
    [Init] cuMemRelease(handle: c_ulonglong) => vmm::release(handle);
    [Init] cuMemAddressReserve(address: *mut u64, bytes: usize, alignment: usize, wished: u64, flags: c_ulonglong) => vmm::reserve(address, bytes, alignment, wished, flags);
    [Init] cuMemAddressFree(address: u64, bytes: usize) => vmm::free_addresses(address, bytes);
    [Init] cuMemMap(address: u64, bytes: usize, offset: usize, handle: c_ulonglong, flags: c_ulonglong) => vmm::map(address, bytes, offset, handle, flags);
    [Init] cuMemUnmap(address: u64, bytes: usize) => vmm::unmap(address, bytes);
    [Init] cuMemSetAccess(address: u64, bytes: usize, descriptions: *const MemAccessDesc, count: usize) => vmm::set_access(address, bytes, descriptions, count);
    [Init] cuMemExportToShareableHandle(place: *mut c_void, handle: c_ulonglong, kind: c_uint, flags: c_ulonglong) => vmm::export(place, handle, kind, flags);
    [Init] cuMemImportFromShareableHandle(handle: *mut c_ulonglong, descriptor: *mut c_void, kind: c_uint) => vmm::import(handle, descriptor, kind);

    // Copies and fills.
    [Context] cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: *mut c_void) => transfers::host_to_device(to, from, bytes, stream);
    [Context] cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: *mut c_void) => transfers::device_to_host(to, from, bytes, stream);
    [Context] cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: *mut c_void) => transfers::device_to_device(to, from, bytes, stream);
    [Context] cuMemsetD8Async(to: u64, value: u8, bytes: usize, stream: *mut c_void) => transfers::fill(to, value, bytes, stream);

    // Modules and launches. Options of the just-in-time compiler are for one.
    [Context] cuModuleLoadDataEx(module: *mut *mut c_void, image: *const c_void, options: c_uint, names: *mut c_uint, values: *mut *mut c_void)
        => { let _ = (options, names, values); modules::load(module, image) };
    [Release] cuModuleUnload(module: *mut c_void) => modules::unload(module);
    [Context] cuModuleGetFunction(function: *mut *mut c_void, module: *mut c_void, name: *const c_char) => modules::function(function, module, name);
    [Context] cuFuncGetAttribute(value: *mut c_int, attribute: c_uint, function: *mut c_void) => modules::attribute(value, attribute, function);
    [Context] cuFuncSetAttribute(function: *mut c_void, attribute: c_uint, value: c_int) => modules::set_attribute(function, attribute, value);
    [Context] cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut c_int, function: *mut c_void, threads: c_int, shared_bytes: usize)
        => modules::occupancy(blocks, function, threads, shared_bytes);
    [Context] cuLaunchKernel(
        function: *mut c_void, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint,
        shared_bytes: c_uint, stream: *mut c_void, parameters: *mut *mut c_void, extra: *mut *mut c_void,
    ) => modules::launch(function, [grid_x, grid_y, grid_z], [block_x, block_y, block_z], shared_bytes, stream, parameters, extra);

    // Green contexts.
    [Init] cuDeviceGetDevResource(device: c_int, resource: *mut DevResource, kind: c_uint) => green::device_resource(device, resource, kind);
    [Init] cuDevSmResourceSplitByCount(result: *mut DevResource, groups: *mut c_uint, input: *const DevResource, remaining: *mut DevResource, flags: c_uint, least: c_uint)
        => green::split(result, groups, input, remaining, flags, least);
    [Init] cuDevResourceGenerateDesc(description: *mut *mut c_void, resources: *mut DevResource, count: c_uint) => green::describe(description, resources, count);
    [Init] cuGreenCtxCreate(green: *mut *mut c_void, description: *mut c_void, device: c_int, flags: c_uint) => green::create(green, description, device, flags);
    [Init] cuGreenCtxGetDevResource(green: *mut c_void, resource: *mut DevResource, kind: c_uint) => green::context_resource(green, resource, kind);
    [Init] cuGreenCtxStreamCreate(stream: *mut *mut c_void, green: *mut c_void, flags: c_uint, priority: c_int) => green::create_stream(stream, green, flags, priority);
    [Init] cuCtxFromGreenCtx(context: *mut *mut c_void, green: *mut c_void) => green::as_context(context, green);
    [Init] cuGreenCtxDestroy(green: *mut c_void) => green::destroy(green);
}

/// Not a driver function: reports that device pointers are host pointers, so that a consumer without CUDA in its tensor
/// library may borrow device memory as host memory. A real libcuda has no such symbol.
#[allow(non_snake_case)]
#[unsafe(no_mangle)]
extern "C" fn cudaSimDeviceMemoryIsHostMemory() -> c_int {
    1
}

/// Not a driver function: whether training draws other numbers for dropout than on a CPU.
#[allow(non_snake_case)]
#[unsafe(no_mangle)]
extern "C" fn cudaSimDrawsAsADevice() -> c_int {
    c_int::from(settings(&FUNCTIONS).is_ok_and(|settings| settings.draws_as_a_device))
}

/// Not a driver function: waits until a stream has executed all enqueued work. Called by a host that simulates a device
/// and computes immediately what a device would compute in stream order. Not counted as a call.
#[allow(non_snake_case)]
#[unsafe(no_mangle)]
extern "C" fn cudaSimFollow(stream: *mut c_void) -> c_uint {
    stream::synchronize(stream).err().map_or(0, |code| code.0)
}
