//! Virtual memory, registered memory, launches, and green contexts of the simulated driver.

use std::ffi::c_void;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::null_mut;

use crate::common::*;
use crate::{code, ok};
use rustix::mm::{MapFlags, ProtFlags};

const GRANULARITY: usize = 2 << 20;

fn property() -> sys::CUmemAllocationProp {
    sys::CUmemAllocationProp {
        type_: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes: sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        location: location(),
        win32HandleMetaData: null_mut(),
        allocFlags: sys::CUmemAllocationProp_st__bindgen_ty_1 {
            compressionType: 0,
            gpuDirectRDMACapable: 0,
            usage: 0,
            reserved: [0; 4],
        },
    }
}

fn location() -> sys::CUmemLocation {
    sys::CUmemLocation { type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: 0 }
}

fn writable() -> sys::CUmemAccessDesc {
    sys::CUmemAccessDesc {
        location: location(),
        flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    }
}

const FD: sys::CUmemAllocationHandleType =
    sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

#[test]
fn physical_memory_is_mapped_exported_and_imported() {
    if !cuda_sim::in_process("memory::physical_memory_is_mapped_exported_and_imported") {
        return;
    }
    start();
    let (mut handle, mut address, mut another, mut fd) = (0, 0, 0, -1_i32);
    let bytes = 2 * GRANULARITY;
    ok!(cuMemCreate(&mut handle, bytes, &property(), 0));
    ok!(cuMemAddressReserve(&mut address, bytes, 0, 0, 0));
    ok!(cuMemMap(address, bytes, 0, handle, 0));
    // Mapped, but without access rights yet.
    let refused = CUresult::CUDA_ERROR_INVALID_VALUE;
    assert_eq!(code!(cuMemsetD8Async(address, 7, bytes, null_mut())), refused);
    ok!(cuMemSetAccess(address, bytes, &writable(), 1));
    ok!(cuMemsetD8Async(address, 7, bytes, null_mut()));
    ok!(cuStreamSynchronize(null_mut()));

    ok!(cuMemExportToShareableHandle((&raw mut fd).cast(), handle, FD, 0));
    // SAFETY: the driver has just passed on ownership of the descriptor.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let (mut imported, number) = (0, fd.as_raw_fd() as usize as *mut c_void);
    ok!(cuMemImportFromShareableHandle(&mut imported, number, FD));
    drop(fd);
    ok!(cuMemAddressReserve(&mut another, bytes, 0, 0, 0));
    ok!(cuMemMap(another, bytes, 0, imported, 0));
    ok!(cuMemSetAccess(another, bytes, &writable(), 1));
    // A mapping keeps the memory without the handle, and both are the same memory.
    ok!(cuMemRelease(imported));
    ok!(cuMemRelease(handle));
    assert_eq!(code!(cuMemRelease(handle)), refused);
    assert_eq!(read(another, bytes), vec![7; bytes]);

    // Addresses are freed only if nothing is mapped there, and all at once; mappings are freed whole.
    assert_eq!(code!(cuMemAddressFree(address, bytes)), refused);
    assert_eq!(code!(cuMemUnmap(address, GRANULARITY)), refused);
    let (mut free, mut total) = (0, 0);
    ok!(cuMemGetInfo_v2(&mut free, &mut total));
    assert_eq!(total - free, bytes);
    ok!(cuMemUnmap(address, bytes));
    assert_eq!(code!(cuMemUnmap(address, bytes)), refused);
    ok!(cuMemGetInfo_v2(&mut free, &mut total));
    assert_eq!(total, free);
    assert_eq!(code!(cuMemAddressFree(address, GRANULARITY)), refused);
    ok!(cuMemAddressFree(address, bytes));
    ok!(cuMemUnmap(another, bytes));
    ok!(cuMemAddressFree(another, bytes));
}

#[test]
fn virtual_memory_refuses_what_the_driver_refuses() {
    if !cuda_sim::in_process("memory::virtual_memory_refuses_what_the_driver_refuses") {
        return;
    }
    start();
    let refused = CUresult::CUDA_ERROR_INVALID_VALUE;
    let (mut handle, mut address, mut fd) = (0, 0, -1_i32);
    assert_eq!(code!(cuMemCreate(&mut handle, GRANULARITY - 1, &property(), 0)), refused);
    assert_eq!(code!(cuMemCreate(&mut handle, 0, &property(), 0)), refused);
    assert_eq!(code!(cuMemAddressReserve(&mut address, GRANULARITY + 4096, 0, 0, 0)), refused);
    let mut private = property();
    private.requestedHandleTypes = sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE;
    ok!(cuMemCreate(&mut handle, GRANULARITY, &private, 0));
    assert_eq!(code!(cuMemExportToShareableHandle((&raw mut fd).cast(), handle, FD, 0)), refused);
    // Mapped twice at one place, beyond the reservation, larger than the memory.
    ok!(cuMemAddressReserve(&mut address, 2 * GRANULARITY, 0, 0, 0));
    ok!(cuMemMap(address, GRANULARITY, 0, handle, 0));
    assert_eq!(code!(cuMemMap(address, GRANULARITY, 0, handle, 0)), refused);
    assert_eq!(code!(cuMemMap(address + 2 * GRANULARITY as u64, GRANULARITY, 0, handle, 0)), refused);
    assert_eq!(code!(cuMemMap(address + GRANULARITY as u64, 2 * GRANULARITY, 0, handle, 0)), refused);
    // A descriptor that does not belong to such memory.
    let file = tempfile::tempfile().unwrap();
    let number = file.as_raw_fd() as usize as *mut c_void;
    assert_eq!(code!(cuMemImportFromShareableHandle(&mut handle, number, FD)), refused);
    // Legacy handles are for cuMemAlloc's memory.
    ok!(cuMemSetAccess(address, GRANULARITY, &writable(), 1));
    let mut ipc = sys::CUipcMemHandle { reserved: [0; 64] };
    assert_eq!(code!(cuIpcGetMemHandle(&mut ipc, address)), refused);
}

/// A mapping for the rest of the process.
fn map(file: &File, bytes: usize, protection: ProtFlags) -> *mut c_void {
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    unsafe { rustix::mm::mmap(null_mut(), bytes, protection, MapFlags::SHARED, file, 0) }.unwrap()
}

#[test]
fn host_memory_is_registered_by_pages_once_and_as_it_may_be_used() {
    if !cuda_sim::in_process("memory::host_memory_is_registered_by_pages_once_and_as_it_may_be_used") {
        return;
    }
    start();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&[9; 16384]).unwrap();
    let place = map(&file, 16384, ProtFlags::READ | ProtFlags::WRITE);
    let mut address = 0;
    let refused = CUresult::CUDA_ERROR_INVALID_VALUE;
    assert_eq!(code!(cuMemHostRegister_v2(place.wrapping_byte_add(8), 4096, 0)), refused);
    assert_eq!(code!(cuMemHostGetDevicePointer_v2(&mut address, place, 0)), refused);
    ok!(cuMemHostRegister_v2(place, 8192, 0));
    let twice = CUresult::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    assert_eq!(code!(cuMemHostRegister_v2(place.wrapping_byte_add(4096), 8192, 0)), twice);
    ok!(cuMemHostRegister_v2(place.wrapping_byte_add(8192), 8192, 0));
    // Adjacent chunks are one range for a copy.
    ok!(cuMemHostGetDevicePointer_v2(&mut address, place.wrapping_byte_add(100), 0));
    let copy = device_memory(16000);
    ok!(cuMemcpyDtoDAsync_v2(copy, address, 16000, null_mut()));
    assert_eq!(read(copy, 16000), [9; 16000]);
    ok!(cuMemHostUnregister(place));
    assert_eq!(code!(cuMemHostUnregister(place)), CUresult::CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    assert_eq!(code!(cuMemcpyDtoDAsync_v2(copy, address, 16000, null_mut())), refused);

    // Memory that is read-only may be registered for reading only, and is then not written.
    let place = map(&file, 16384, ProtFlags::READ);
    assert_eq!(code!(cuMemHostRegister_v2(place, 16384, 0)), refused);
    ok!(cuMemHostRegister_v2(place, 16384, sys::CU_MEMHOSTREGISTER_READ_ONLY));
    ok!(cuMemHostGetDevicePointer_v2(&mut address, place, 0));
    ok!(cuMemcpyDtoDAsync_v2(copy, address, 16000, null_mut()));
    assert_eq!(code!(cuMemcpyDtoDAsync_v2(address, copy, 16000, null_mut())), refused);
    ok!(cuCtxSynchronize());
    // Unmapped memory cannot be registered.
    let beyond = (1_usize << 46) as *mut c_void;
    assert_eq!(code!(cuMemHostRegister_v2(beyond, 4096, 0)), refused);
}

#[repr(C)]
#[derive(Clone, Copy)]
struct GatherArguments {
    table: u64,
    rows: u64,
    row_bytes: u64,
    ids: u64,
    count: u64,
    out: u64,
    report: u64,
    slot_map: u64,
    cache: u64,
    order: u64,
}

/// Gathers two rows out of three from `table`, and returns the stream's result and the rows.
fn gather(table: u64, row_bytes: usize) -> (CUresult, Vec<u8>) {
    let stream = stream();
    let (ids, out, report) = (device_memory(16), device_memory(2 * row_bytes), device_memory(64));
    let chosen = [2_i64, 0];
    ok!(cuMemcpyHtoDAsync_v2(ids, chosen.as_ptr().cast(), 16, stream));
    let arguments = GatherArguments {
        table,
        rows: 3,
        row_bytes: row_bytes as u64,
        ids,
        count: 2,
        out,
        report,
        slot_map: 0,
        cache: 0,
        order: 0,
    };
    let launch = |name: &str, threads: u32, mut parameters: Vec<*mut c_void>| {
        let (function, parameters) = (function(name), parameters.as_mut_ptr());
        ok!(cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, stream, parameters, null_mut()));
    };
    let (mut report, mut ids, mut stamp, mut arguments) = (report, ids, 42_u64, arguments);
    launch("gather_begin", 1, vec![(&raw mut report).cast()]);
    launch("gather_naive_i64", 32, vec![(&raw mut arguments).cast()]);
    // The parameters were copied at the call.
    arguments.table = 0;
    std::hint::black_box(&arguments);
    let finish = vec![(&raw mut report).cast(), (&raw mut ids).cast(), (&raw mut stamp).cast()];
    launch("gather_finish_i64", 1, finish);
    let ended = code!(cuStreamSynchronize(stream));
    if ended != CUresult::CUDA_SUCCESS {
        return (ended, Vec::new());
    }
    assert_eq!(read(report, 8), 42_u64.to_ne_bytes());
    (ended, read(out, 2 * row_bytes))
}

#[test]
fn the_gather_kernel_runs_on_pinned_and_registered_memory_only() {
    if !cuda_sim::in_process("memory::the_gather_kernel_runs_on_pinned_and_registered_memory_only") {
        return;
    }
    start();
    let row_bytes = 100;
    let table = pinned(3 * row_bytes);
    for (index, byte) in table.iter_mut().enumerate() {
        *byte = index as u8;
    }
    let expected = [&table[200..300], &table[0..100]].concat();
    assert_eq!(gather(table.as_ptr() as u64, row_bytes), (CUresult::CUDA_SUCCESS, expected));
    // The same bytes, in memory that is not registered with the device.
    let pageable = table.to_vec();
    assert_eq!(gather(pageable.as_ptr() as u64, row_bytes).0, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_eq!(code!(cuCtxSynchronize()), CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
}

#[test]
fn launches_beyond_the_limits_are_refused_at_once() {
    if !cuda_sim::in_process("memory::launches_beyond_the_limits_are_refused_at_once") {
        return;
    }
    start();
    let stream = stream();
    let begin = function("gather_begin");
    let mut report = device_memory(64);
    let mut parameters = [(&raw mut report).cast::<c_void>()];
    let p = parameters.as_mut_ptr();
    let refused = CUresult::CUDA_ERROR_INVALID_VALUE;
    assert_eq!(code!(cuLaunchKernel(begin, 0, 1, 1, 1, 1, 1, 0, stream, p, null_mut())), refused);
    assert_eq!(code!(cuLaunchKernel(begin, 1, 1, 1, 1025, 1, 1, 0, stream, p, null_mut())), refused);
    assert_eq!(code!(cuLaunchKernel(begin, 1, 1, 1, 1, 1, 1, 49153, stream, p, null_mut())), refused);
    let shared = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    ok!(cuFuncSetAttribute(begin, shared, 49153));
    assert_eq!(code!(cuFuncSetAttribute(begin, shared, 1 << 20)), refused);
    ok!(cuLaunchKernel(begin, 1, 1, 1, 1, 1, 1, 0, stream, p, null_mut()));
    ok!(cuStreamSynchronize(stream));
    let mut blocks = 0;
    ok!(cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, begin, 512, 0));
    assert_eq!(blocks, 4);
    // No image, and no such function in one.
    let (mut module, mut found) = (null_mut(), null_mut());
    let load =
        code!(cuModuleLoadDataEx(&mut module, c"not an image".as_ptr().cast(), 0, null_mut(), null_mut()));
    assert_eq!(load, CUresult::CUDA_ERROR_INVALID_IMAGE);
    ok!(cuModuleLoadDataEx(&mut module, c"uva-kernel-sim".as_ptr().cast(), 0, null_mut(), null_mut()));
    let absent = code!(cuModuleGetFunction(&mut found, module, c"gather_fast".as_ptr()));
    assert_eq!(absent, CUresult::CUDA_ERROR_NOT_FOUND);
    ok!(cuModuleUnload(module));
    assert_eq!(code!(cuModuleUnload(module)), CUresult::CUDA_ERROR_INVALID_HANDLE);
}

#[test]
fn multiprocessors_are_split_in_steps_of_eight() {
    if !cuda_sim::in_process("memory::multiprocessors_are_split_in_steps_of_eight") {
        return;
    }
    start();
    // SAFETY: plain numbers, for which zero is a value.
    let mut parts: [sys::CUdevResource; 3] = unsafe { std::mem::zeroed() };
    let [all, part, rest] = &mut parts;
    let kind = sys::CUdevResourceType::CU_DEV_RESOURCE_TYPE_SM;
    ok!(cuDeviceGetDevResource(0, all, kind));
    let mut groups = 0;
    ok!(cuDevSmResourceSplitByCount(null_mut(), &mut groups, all, null_mut(), 0, 9));
    assert_eq!(groups, 8);
    groups = 1;
    ok!(cuDevSmResourceSplitByCount(part, &mut groups, all, rest, 0, 9));
    // SAFETY: the driver has filled in the multiprocessors' form.
    let counts = unsafe {
        [all.__bindgen_anon_1.sm.smCount, part.__bindgen_anon_1.sm.smCount, rest.__bindgen_anon_1.sm.smCount]
    };
    assert_eq!((groups, counts), (1, [132, 16, 116]));
    let too_many = code!(cuDevSmResourceSplitByCount(part, &mut groups, all, rest, 0, 133));
    assert_eq!(too_many, CUresult::CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    let (mut description, mut green, mut stream) = (null_mut(), null_mut(), null_mut());
    ok!(cuDevResourceGenerateDesc(&mut description, part, 1));
    let default = sys::CUgreenCtxCreate_flags::CU_GREEN_CTX_DEFAULT_STREAM as u32;
    ok!(cuGreenCtxCreate(&mut green, description, 0, default));
    assert_eq!(code!(cuGreenCtxStreamCreate(&mut stream, green, 0, 0)), CUresult::CUDA_ERROR_INVALID_VALUE);
    ok!(cuGreenCtxStreamCreate(&mut stream, green, 1, 0));
    let address = device_memory(16);
    ok!(cuMemsetD8Async(address, 3, 16, stream));
    ok!(cuStreamSynchronize(stream));
    assert_eq!(read(address, 16), [3; 16]);
    ok!(cuStreamDestroy_v2(stream));
    ok!(cuGreenCtxDestroy(green));
    assert_eq!(code!(cuGreenCtxDestroy(green)), CUresult::CUDA_ERROR_INVALID_HANDLE);
}

/// The device's multiprocessors in groups of eight, and the rest.
fn groups_of_eight<const N: usize>() -> ([sys::CUdevResource; N], sys::CUdevResource) {
    // SAFETY: plain numbers, for which zero is a value.
    let (mut all, mut rest, mut groups): (sys::CUdevResource, sys::CUdevResource, [sys::CUdevResource; N]) =
        unsafe { std::mem::zeroed() };
    ok!(cuDeviceGetDevResource(0, &mut all, sys::CUdevResourceType::CU_DEV_RESOURCE_TYPE_SM));
    let mut made = N as u32;
    ok!(cuDevSmResourceSplitByCount(groups.as_mut_ptr(), &mut made, &all, &mut rest, 0, 8));
    assert_eq!(made as usize, N);
    (groups, rest)
}

fn green_of(resources: &mut [sys::CUdevResource]) -> (CUresult, sys::CUgreenCtx) {
    let (mut description, mut green) = (null_mut(), null_mut());
    ok!(cuDevResourceGenerateDesc(&mut description, resources.as_mut_ptr(), resources.len() as u32));
    (code!(cuGreenCtxCreate(&mut green, description, 0, 1)), green)
}

#[test]
fn green_contexts_of_one_split_are_disjoint_and_others_refused() {
    let test = "memory::green_contexts_of_one_split_are_disjoint_and_others_refused";
    if !cuda_sim::in_process_with(test, &[("CUDA_SIM_STRICT", "green_groups")]) {
        return;
    }
    start();
    let refused = CUresult::CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    let ([first, second, third], rest) = groups_of_eight();
    let (made, one) = green_of(&mut [first, second]);
    assert_eq!(made, CUresult::CUDA_SUCCESS);
    assert_eq!(green_of(&mut [third]).0, CUresult::CUDA_SUCCESS);
    assert_eq!(green_of(&mut [rest]).0, CUresult::CUDA_SUCCESS);
    // Another split begins with the same multiprocessors.
    let ([again, _], _) = groups_of_eight();
    assert_eq!(green_of(&mut [again]).0, refused);
    ok!(cuGreenCtxDestroy(one));
    assert_eq!(green_of(&mut [again]).0, CUresult::CUDA_SUCCESS);
    // Groups of two splits cannot be combined in a context, and a group is not split again.
    let mut description = null_mut();
    let mut mixed = [second, again];
    assert_eq!(code!(cuDevResourceGenerateDesc(&mut description, mixed.as_mut_ptr(), 2)), refused);
    let (mut part, mut groups) = (third, 1);
    assert_eq!(code!(cuDevSmResourceSplitByCount(&mut part, &mut groups, &third, null_mut(), 0, 8)), refused);
}

#[test]
fn an_event_records_only_on_streams_of_its_own_context() {
    let test = "memory::an_event_records_only_on_streams_of_its_own_context";
    if !cuda_sim::in_process_with(test, &[("CUDA_SIM_STRICT", "green_events")]) {
        return;
    }
    let primary = start();
    let ([mut group], _) = groups_of_eight();
    let (_, green) = green_of(std::slice::from_mut(&mut group));
    let (mut inside, mut outside, mut view) = (null_mut(), null_mut(), null_mut());
    ok!(cuGreenCtxStreamCreate(&mut inside, green, 1, 0));
    ok!(cuStreamCreate(&mut outside, 1));
    ok!(cuCtxFromGreenCtx(&mut view, green));
    let event = || {
        let mut event = null_mut();
        ok!(cuEventCreate(&mut event, 2));
        event
    };
    let of_primary = event();
    ok!(cuCtxSetCurrent(view));
    let of_green = event();
    for (event, own, other) in [(of_green, inside, outside), (of_primary, outside, inside)] {
        assert_eq!(code!(cuEventRecord(event, other)), CUresult::CUDA_ERROR_INVALID_HANDLE);
        ok!(cuEventRecord(event, own));
        // Any stream may wait for it.
        ok!(cuStreamWaitEvent(other, event, 0));
        ok!(cuStreamSynchronize(other));
        ok!(cuEventQuery(event));
    }
    ok!(cuStreamDestroy_v2(inside));
    ok!(cuGreenCtxDestroy(green));
    // The context was current here.
    assert_eq!(code!(cuCtxSynchronize()), CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED);
    assert_eq!(code!(cuCtxSetCurrent(view)), CUresult::CUDA_ERROR_INVALID_CONTEXT);
    ok!(cuCtxSetCurrent(primary));
    ok!(cuCtxSynchronize());
}

#[test]
fn a_stream_waits_for_a_value_that_another_writes() {
    if !cuda_sim::in_process("memory::a_stream_waits_for_a_value_that_another_writes") {
        return;
    }
    start();
    let (mut waiting, mut writing) = (null_mut(), null_mut());
    ok!(cuStreamCreate(&mut waiting, 1));
    ok!(cuStreamCreate(&mut writing, 1));
    let word = device_memory(64);
    ok!(cuMemsetD8Async(word, 0, 64, writing));
    ok!(cuStreamSynchronize(writing));
    ok!(cuStreamWaitValue64_v2(waiting, word + 8, 5, 0));
    assert_eq!(code!(cuStreamQuery(waiting)), CUresult::CUDA_ERROR_NOT_READY);
    ok!(cuStreamWriteValue64_v2(writing, word + 8, 4, 0));
    ok!(cuStreamSynchronize(writing));
    assert_eq!(code!(cuStreamQuery(waiting)), CUresult::CUDA_ERROR_NOT_READY);
    // A higher value is enough.
    ok!(cuStreamWriteValue64_v2(writing, word + 8, 6, 0));
    ok!(cuStreamSynchronize(waiting));
    assert_eq!(read(word + 8, 8), 6_u64.to_ne_bytes());
    let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
    assert_eq!(code!(cuStreamWaitValue64_v2(waiting, word + 4, 5, 0)), invalid);
    assert_eq!(code!(cuStreamWriteValue64_v2(waiting, word, 5, 1)), invalid);
    assert_eq!(code!(cuStreamWriteValue64_v2(waiting, 4096, 5, 0)), invalid);
}

#[test]
fn a_machine_lacks_what_its_settings_say_it_lacks() {
    let everything =
        "vmm,ipc_event,ipc_memory,stream_memory_operations,green,read_only_register,host_register";
    if !cuda_sim::in_process_with(
        "memory::a_machine_lacks_what_its_settings_say_it_lacks",
        &[("CUDA_SIM_LACKS", everything)],
    ) {
        return;
    }
    start();
    use sys::CUdevice_attribute as A;
    for attribute in [
        A::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
        A::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
        A::CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED,
        A::CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED,
        A::CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED,
    ] {
        let mut value = -1;
        ok!(cuDeviceGetAttribute(&mut value, attribute, 0));
        assert_eq!(value, 0, "{attribute:?}");
    }
    let (mut handle, mut ipc) = (0, sys::CUipcMemHandle { reserved: [0; 64] });
    let mut ipc_event = sys::CUipcEventHandle { reserved: [0; 64] };
    // SAFETY: plain numbers, for which zero is a value.
    let mut resource: sys::CUdevResource = unsafe { std::mem::zeroed() };
    let kind = sys::CUdevResourceType::CU_DEV_RESOURCE_TYPE_SM;
    let place = pinned(4096).as_mut_ptr().cast();
    for refused in [
        code!(cuMemCreate(&mut handle, GRANULARITY, &property(), 0)),
        code!(cuIpcGetMemHandle(&mut ipc, device_memory(1))),
        code!(cuIpcGetEventHandle(&mut ipc_event, event(INTERPROCESS))),
        code!(cuDeviceGetDevResource(0, &mut resource, kind)),
        code!(cuMemHostRegister_v2(place, 4096, 0)),
    ] {
        assert_eq!(refused, CUresult::CUDA_ERROR_NOT_SUPPORTED);
    }
}

/// The smallest possible cubin: a header, the names, the symbol table of these functions, and the section headers.
fn cubin(architecture: u32, functions: &[&str]) -> Vec<u8> {
    let (mut names, mut symbols) = (vec![0_u8], vec![0_u8; 24]);
    for function in functions {
        symbols.extend((names.len() as u32).to_le_bytes());
        // STB_GLOBAL and STT_FUNC; the address does not matter.
        symbols.extend([0x12, 0, 1, 0]);
        symbols.extend([0; 16]);
        names.extend(function.as_bytes());
        names.push(0);
    }
    let (names_at, symbols_at) = (64, 64 + names.len());
    let sections_at = symbols_at + symbols.len();
    let section = |kind: u32, at: usize, bytes: usize, link: u32| {
        let mut header = Vec::new();
        header.extend(0_u32.to_le_bytes());
        header.extend(kind.to_le_bytes());
        header.extend([0; 16]);
        header.extend((at as u64).to_le_bytes());
        header.extend((bytes as u64).to_le_bytes());
        header.extend(link.to_le_bytes());
        header.resize(64, 0);
        header
    };
    let mut file = b"\x7fELF\x02\x01\x01\x41\x08".to_vec();
    file.resize(64, 0);
    file[18..20].copy_from_slice(&190_u16.to_le_bytes());
    file[40..48].copy_from_slice(&(sections_at as u64).to_le_bytes());
    file[48..52].copy_from_slice(&(architecture << 8).to_le_bytes());
    file[58..60].copy_from_slice(&64_u16.to_le_bytes());
    file[60..62].copy_from_slice(&3_u16.to_le_bytes());
    file.extend(&names);
    file.extend(&symbols);
    file.extend(section(0, 0, 0, 0));
    file.extend(section(3, names_at, names.len(), 0));
    file.extend(section(2, symbols_at, symbols.len(), 1));
    file
}

#[test]
fn a_cubin_has_its_own_functions_and_runs_on_its_own_devices() {
    if !cuda_sim::in_process("memory::a_cubin_has_its_own_functions_and_runs_on_its_own_devices") {
        return;
    }
    start();
    let load = |image: &[u8]| {
        let mut module = null_mut();
        let code = code!(cuModuleLoadDataEx(&mut module, image.as_ptr().cast(), 0, null_mut(), null_mut()));
        (code, module)
    };
    let (loaded, module) = load(&cubin(90, &["gather_begin", "of_another_project"]));
    assert_eq!(loaded, CUresult::CUDA_SUCCESS);
    let mut found = null_mut();
    ok!(cuModuleGetFunction(&mut found, module, c"gather_begin".as_ptr()));
    // Compiled for the host, but not in this image; in this image, but not compiled for the host.
    for name in [c"spin_until", c"of_another_project"] {
        let absent = code!(cuModuleGetFunction(&mut found, module, name.as_ptr()));
        assert_eq!(absent, CUresult::CUDA_ERROR_NOT_FOUND, "{name:?}");
    }
    for other in [80, 100] {
        assert_eq!(load(&cubin(other, &[])).0, CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU, "sm_{other}");
    }
    let mut corrupt = cubin(90, &["gather_begin"]);
    // The names lie beyond the end.
    let at = corrupt.len() - 128 + 24;
    corrupt[at..at + 8].copy_from_slice(&u64::MAX.to_le_bytes());
    assert_eq!(load(&corrupt).0, CUresult::CUDA_ERROR_INVALID_IMAGE);
}

#[test]
fn the_watchdog_finds_an_allocation_or_a_free_while_a_kernel_is_held() {
    let test = "memory::the_watchdog_finds_an_allocation_or_a_free_while_a_kernel_is_held";
    if !cuda_sim::in_process_with(test, &[("CUDA_SIM_WATCHDOG", "1")]) {
        return;
    }
    const PAGE: usize = 4096;
    // SAFETY: fresh pages that nothing else uses; one of them is registered, and none is ever unmapped.
    let pages = unsafe {
        rustix::mm::mmap_anonymous(
            null_mut(),
            2 * PAGE,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE,
        )
    }
    .unwrap();
    let second = pages.cast::<u8>().wrapping_add(PAGE).cast::<c_void>();
    for call in 0..6 {
        start();
        let stream = stream();
        let device = device_memory(64);
        let host = pinned(64);
        ok!(cuMemHostRegister_v2(pages, PAGE, 0));
        // A released kernel blocks nothing, whether it has run to its end or not.
        Gate::close(stream).open();
        device_memory(64);
        let gate = Gate::close(stream);
        let (mut address, mut place) = (0, null_mut());
        let code = match call {
            0 => code!(cuMemAlloc_v2(&mut address, 64)),
            1 => code!(cuMemFree_v2(device)),
            2 => code!(cuMemHostAlloc(&mut place, 64, 0)),
            3 => code!(cuMemFreeHost(host.as_mut_ptr().cast())),
            4 => code!(cuMemHostRegister_v2(second, PAGE, 0)),
            _ => code!(cuMemHostUnregister(pages)),
        };
        assert_eq!(code, CUresult::CUDA_ERROR_LAUNCH_TIMEOUT, "call {call}");
        // As on a driver that has run into the timeout: no call of the context works any longer.
        assert_eq!(code!(cuStreamSynchronize(stream)), CUresult::CUDA_ERROR_LAUNCH_TIMEOUT, "call {call}");
        gate.open();
        ok!(cuDevicePrimaryCtxRelease_v2(0));
    }
}
