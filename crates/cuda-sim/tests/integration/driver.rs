//! The simulated driver in one process: valid calls, and misuse.

use std::ffi::{CString, c_void};
use std::ptr::null_mut;

use crate::common::*;
use crate::{code, ok};

#[test]
fn nothing_works_before_cu_init_but_the_version() {
    if !cuda_sim::in_process("driver::nothing_works_before_cu_init_but_the_version") {
        return;
    }
    let (mut version, mut count) = (0, 0);
    ok!(cuDriverGetVersion(&mut version));
    assert_eq!(version, 13000);
    assert_eq!(code!(cuDeviceGetCount(&mut count)), CUresult::CUDA_ERROR_NOT_INITIALIZED);
    ok!(cuInit(0));
    ok!(cuDeviceGetCount(&mut count));
    assert_eq!(count, 1);
}

#[test]
fn a_call_without_a_current_context_is_refused() {
    if !cuda_sim::in_process("driver::a_call_without_a_current_context_is_refused") {
        return;
    }
    start();
    let address = device_memory(100);
    let other = move || {
        let mut another = 0;
        [
            code!(cuMemAlloc_v2(&mut another, 100)),
            code!(cuMemFree_v2(address)),
            code!(cuCtxSynchronize()),
            code!(cuStreamSynchronize(null_mut())),
        ]
    };
    assert_eq!(std::thread::spawn(other).join().unwrap(), [CUresult::CUDA_ERROR_INVALID_CONTEXT; 4]);
    ok!(cuMemFree_v2(address));
}

#[test]
fn the_last_release_ends_the_context_and_all_in_it() {
    if !cuda_sim::in_process("driver::the_last_release_ends_the_context_and_all_in_it") {
        return;
    }
    let context = start();
    let (stream, address) = (stream(), device_memory(1 << 20));
    // Busy indefinitely, without blocking anything else.
    let _gate = Gate::close(stream);
    ok!(cuDevicePrimaryCtxRelease_v2(0));
    let mut another = 0;
    assert_eq!(code!(cuMemAlloc_v2(&mut another, 1)), CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED);
    assert_eq!(code!(cuCtxSetCurrent(context)), CUresult::CUDA_ERROR_INVALID_CONTEXT);
    assert_eq!(code!(cuDevicePrimaryCtxRelease_v2(0)), CUresult::CUDA_ERROR_INVALID_CONTEXT);
    start();
    assert_eq!(code!(cuStreamSynchronize(stream)), CUresult::CUDA_ERROR_INVALID_HANDLE);
    assert_eq!(code!(cuMemFree_v2(address)), CUresult::CUDA_ERROR_INVALID_VALUE);
    let (mut free, mut total) = (0, 0);
    ok!(cuMemGetInfo_v2(&mut free, &mut total));
    assert_eq!(free, total);
}

#[test]
fn operations_of_a_stream_run_in_order_while_the_caller_continues() {
    if !cuda_sim::in_process_with(
        "driver::operations_of_a_stream_run_in_order_while_the_caller_continues",
        &[("CUDA_SIM_DELAY_US", "200"), ("CUDA_SIM_WATCHDOG", "0")],
    ) {
        return;
    }
    start();
    let (stream, address) = (stream(), device_memory(8));
    let gate = Gate::close(stream);
    let source = pinned(8);
    source.fill(1);
    let done = event(TIMING);
    for value in 2..50 {
        ok!(cuMemsetD8Async(address, value, 8, stream));
    }
    ok!(cuMemcpyHtoDAsync_v2(address, source.as_ptr().cast(), 8, stream));
    ok!(cuEventRecord(done, stream));
    assert_eq!(code!(cuStreamQuery(stream)), CUresult::CUDA_ERROR_NOT_READY);
    assert_eq!(code!(cuEventQuery(done)), CUresult::CUDA_ERROR_NOT_READY);
    // Pinned memory is read when the stream reaches the copy, not at the call.
    source.fill(77);
    gate.open();
    ok!(cuEventSynchronize(done));
    ok!(cuStreamQuery(stream));
    assert_eq!(read(address, 8), [77; 8]);
}

#[test]
fn pageable_memory_is_taken_at_the_call() {
    if !cuda_sim::in_process("driver::pageable_memory_is_taken_at_the_call") {
        return;
    }
    start();
    let (stream, address) = (stream(), device_memory(8));
    let gate = Gate::close(stream);
    let mut source = [5_u8; 8];
    ok!(cuMemcpyHtoDAsync_v2(address, source.as_ptr().cast(), 8, stream));
    source.fill(6);
    gate.open();
    ok!(cuStreamSynchronize(stream));
    assert_eq!(read(address, 8), [5; 8]);
}

#[test]
fn a_wait_covers_the_record_that_preceded_it() {
    if !cuda_sim::in_process("driver::a_wait_covers_the_record_that_preceded_it") {
        return;
    }
    start();
    for flags in [TIMING, INTERPROCESS] {
        let (first, second, waiting) = (stream(), stream(), stream());
        let mark = event(flags);
        // An event without a record is complete, and waiting for it returns at once.
        ok!(cuEventQuery(mark));
        ok!(cuStreamWaitEvent(waiting, mark, 0));
        ok!(cuStreamSynchronize(waiting));
        ok!(cuEventRecord(mark, first));
        ok!(cuStreamWaitEvent(waiting, mark, 0));
        let gate = Gate::close(second);
        // This record is later than the wait, and must not delay it.
        ok!(cuEventRecord(mark, second));
        ok!(cuStreamSynchronize(waiting));
        assert_eq!(code!(cuEventQuery(mark)), CUresult::CUDA_ERROR_NOT_READY);
        // This wait is later than the record.
        ok!(cuStreamWaitEvent(waiting, mark, 0));
        assert_eq!(code!(cuStreamQuery(waiting)), CUresult::CUDA_ERROR_NOT_READY);
        gate.open();
        ok!(cuStreamSynchronize(waiting));
        ok!(cuEventQuery(mark));
    }
}

#[test]
fn time_passes_between_events_that_keep_it_only() {
    if !cuda_sim::in_process("driver::time_passes_between_events_that_keep_it_only") {
        return;
    }
    start();
    let stream = stream();
    let (start, end, without) = (event(TIMING), event(TIMING), event(2));
    let mut milliseconds = -1.0;
    assert_eq!(
        code!(cuEventElapsedTime_v2(&mut milliseconds, start, end)),
        CUresult::CUDA_ERROR_INVALID_HANDLE
    );
    ok!(cuEventRecord(start, stream));
    let gate = Gate::close(stream);
    ok!(cuEventRecord(end, stream));
    ok!(cuEventRecord(without, stream));
    ok!(cuEventSynchronize(start));
    assert_eq!(code!(cuEventElapsedTime_v2(&mut milliseconds, start, end)), CUresult::CUDA_ERROR_NOT_READY);
    gate.open();
    ok!(cuStreamSynchronize(stream));
    ok!(cuEventElapsedTime_v2(&mut milliseconds, start, end));
    assert!(milliseconds > 0.0);
    assert_eq!(
        code!(cuEventElapsedTime_v2(&mut milliseconds, start, without)),
        CUresult::CUDA_ERROR_INVALID_HANDLE
    );
    let mut event = null_mut();
    // Events between processes have no timing.
    assert_eq!(code!(cuEventCreate(&mut event, 4)), CUresult::CUDA_ERROR_INVALID_VALUE);
}

#[test]
fn handles_are_good_once() {
    if !cuda_sim::in_process("driver::handles_are_good_once") {
        return;
    }
    start();
    let (stream, event, address) = (stream(), event(TIMING), device_memory(64));
    let place: *mut c_void = pinned(64).as_mut_ptr().cast();
    ok!(cuStreamDestroy_v2(stream));
    ok!(cuEventDestroy_v2(event));
    ok!(cuMemFree_v2(address));
    ok!(cuMemFreeHost(place));
    assert_eq!(code!(cuStreamDestroy_v2(stream)), CUresult::CUDA_ERROR_INVALID_HANDLE);
    assert_eq!(code!(cuEventDestroy_v2(event)), CUresult::CUDA_ERROR_INVALID_HANDLE);
    assert_eq!(code!(cuMemFree_v2(address)), CUresult::CUDA_ERROR_INVALID_VALUE);
    assert_eq!(code!(cuMemFreeHost(place)), CUresult::CUDA_ERROR_INVALID_VALUE);
    // A handle of another kind is invalid.
    assert_eq!(code!(cuStreamSynchronize(event.cast())), CUresult::CUDA_ERROR_INVALID_HANDLE);
    // An address inside an allocation frees nothing.
    let address = device_memory(64);
    assert_eq!(code!(cuMemFree_v2(address + 1)), CUresult::CUDA_ERROR_INVALID_VALUE);
    ok!(cuMemFree_v2(address));
}

#[test]
fn what_is_not_free_is_not_given() {
    if !cuda_sim::in_process_with("driver::what_is_not_free_is_not_given", &[("CUDA_SIM_MEMORY", "8388608")])
    {
        return;
    }
    start();
    let (mut free, mut total, mut address) = (0, 0, 0);
    let held = device_memory(6 << 20);
    assert_eq!(code!(cuMemAlloc_v2(&mut address, 3 << 20)), CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    ok!(cuMemGetInfo_v2(&mut free, &mut total));
    assert_eq!((free, total), (2 << 20, 8 << 20));
    ok!(cuMemFree_v2(held));
    ok!(cuMemFree_v2(device_memory(8 << 20)));
}

#[test]
fn memory_freed_before_the_stream_came_to_it_loses_the_context() {
    if !cuda_sim::in_process_with(
        "driver::memory_freed_before_the_stream_came_to_it_loses_the_context",
        &[("CUDA_SIM_WATCHDOG", "0")],
    ) {
        return;
    }
    start();
    let (stream, other, address) = (stream(), stream(), device_memory(64));
    let (done, gate) = (event(2), Gate::close(stream));
    ok!(cuMemsetD8Async(address, 1, 64, stream));
    ok!(cuEventRecord(done, stream));
    ok!(cuMemFree_v2(address));
    gate.open();
    let lost = CUresult::CUDA_ERROR_ILLEGAL_ADDRESS;
    assert_eq!(code!(cuStreamSynchronize(stream)), lost);
    // The error persists, for everything in the context, including calls that free.
    let mut another = 0;
    assert_eq!(code!(cuStreamQuery(other)), lost);
    assert_eq!(code!(cuEventQuery(done)), lost);
    assert_eq!(code!(cuEventSynchronize(done)), lost);
    assert_eq!(code!(cuMemAlloc_v2(&mut another, 64)), lost);
    assert_eq!(code!(cuMemsetD8Async(address, 1, 64, other)), lost);
    assert_eq!(code!(cuStreamDestroy_v2(stream)), lost);
    // A new context is sound.
    ok!(cuDevicePrimaryCtxRelease_v2(0));
    start();
    ok!(cuMemFree_v2(device_memory(64)));
}

#[test]
fn copies_stay_inside_one_allocation() {
    if !cuda_sim::in_process("driver::copies_stay_inside_one_allocation") {
        return;
    }
    start();
    let address = device_memory(64);
    let source = pinned(128);
    let refused = CUresult::CUDA_ERROR_INVALID_VALUE;
    assert_eq!(code!(cuMemcpyHtoDAsync_v2(address + 1, source.as_ptr().cast(), 64, null_mut())), refused);
    assert_eq!(
        code!(cuMemcpyHtoDAsync_v2(source.as_ptr() as u64, source.as_ptr().cast(), 4, null_mut())),
        refused
    );
    assert_eq!(code!(cuMemsetD8Async(address, 0, 65, null_mut())), refused);
    assert_eq!(code!(cuMemcpyDtoDAsync_v2(address, address + 60, 8, null_mut())), refused);
    ok!(cuMemcpyHtoDAsync_v2(address, source.as_ptr().cast(), 64, null_mut()));
    ok!(cuStreamSynchronize(null_mut()));
}

unsafe extern "C" fn note_what_a_call_gives(data: *mut c_void) {
    let mut address = 0;
    let code = code!(cuMemAlloc_v2(&mut address, 1));
    // SAFETY: the test passes a place of that type, and waits.
    unsafe { data.cast::<u32>().write(code as u32) };
}

#[test]
fn a_host_function_runs_in_order_and_may_not_call_the_driver() {
    if !cuda_sim::in_process("driver::a_host_function_runs_in_order_and_may_not_call_the_driver") {
        return;
    }
    start();
    let stream = stream();
    let gate = Gate::close(stream);
    let mut seen = 0_u32;
    ok!(cuLaunchHostFunc(stream, Some(note_what_a_call_gives), (&raw mut seen).cast()));
    gate.open();
    ok!(cuStreamSynchronize(stream));
    assert_eq!(seen, CUresult::CUDA_ERROR_NOT_PERMITTED as u32);
}

#[test]
fn many_threads_use_streams_and_memory_at_once() {
    if !cuda_sim::in_process_with(
        "driver::many_threads_use_streams_and_memory_at_once",
        &[("CUDA_SIM_DELAY_US", "50")],
    ) {
        return;
    }
    let context = start() as usize;
    std::thread::scope(|scope| {
        for thread in 0..8_u8 {
            scope.spawn(move || {
                ok!(cuCtxSetCurrent(context as CUcontext));
                for round in 0..20_u8 {
                    let (stream, address, done) = (stream(), device_memory(1000), event(TIMING));
                    let value = thread * 20 + round;
                    ok!(cuMemsetD8Async(address, value, 1000, stream));
                    ok!(cuEventRecord(done, stream));
                    ok!(cuStreamDestroy_v2(stream));
                    // Queued work runs although the stream was destroyed.
                    ok!(cuEventSynchronize(done));
                    assert_eq!(read(address, 1000), [value; 1000]);
                    ok!(cuEventDestroy_v2(done));
                    ok!(cuMemFree_v2(address));
                }
            });
        }
    });
    let (mut free, mut total) = (0, 0);
    ok!(cuMemGetInfo_v2(&mut free, &mut total));
    assert_eq!(free, total);
}

#[test]
fn functions_are_found_by_name_with_and_without_a_version() {
    if !cuda_sim::in_process("driver::functions_are_found_by_name_with_and_without_a_version") {
        return;
    }
    let find = |name: &str, version: i32| {
        let name = CString::new(name).unwrap();
        let (mut address, mut status) =
            (null_mut(), sys::CUdriverProcAddressQueryResult::CU_GET_PROC_ADDRESS_SUCCESS);
        let _ = code!(cuGetProcAddress_v2(name.as_ptr(), &mut address, version, 0, &mut status));
        (address as usize, status as u32)
    };
    let (bare, status) = find("cuMemAlloc", 13000);
    assert_eq!(status, 0);
    assert_eq!(bare, find("cuMemAlloc_v2", 13000).0);
    assert_eq!(find("cuMemAllok", 13000), (0, 1));
    assert_eq!(find("cuMemAlloc", 99000).1, 1);
}
