//! Copies and fills, in stream order.
//!
//! Pageable host memory is treated as the driver does: a copy from it reads at the call, and a copy to it has ended
//! when the call returns. Copies from and to pinned memory run later, in stream order.

use std::ffi::c_void;
use std::sync::{Arc, Mutex};

use uva_kernels::Access;

use crate::device_memory::ranges::hold;
use crate::execution::stream::{Queue, queue};
use crate::machine::codes::{Code, Outcome};
use crate::machine::registry::lock;

/// # Errors
/// `CUDA_ERROR_INVALID_VALUE` at the call, if the range does not belong to the device.
fn must_be_known(start: u64, bytes: usize, access: Access, device_only: bool) -> Outcome {
    hold(start, bytes as u64, access, device_only).map(|_| ()).ok_or(Code::INVALID_VALUE)
}

/// # Safety
/// Both ranges are `bytes` long and stay so during the call.
unsafe fn copy(from: u64, to: u64, bytes: usize) {
    let (from, to) = (from as usize as *const u8, to as usize as *mut u8);
    if bytes == 0 {
        // Either may be null then.
        return;
    }
    // SAFETY: the caller's promise. They may overlap, so not `copy_nonoverlapping`.
    unsafe { to.copy_from(from, bytes) };
}

/// Enqueues a copy. With `to_device`, the destination must be memory of the device.
fn enqueue_copy(queue: &Queue, from: u64, to: u64, bytes: usize, to_device: bool) {
    queue.enqueue(move |_| {
        let held =
            (hold(from, bytes as u64, Access::Read, false), hold(to, bytes as u64, Access::Write, to_device));
        let (Some(_from), Some(_to)) = held else { return Err(Code::ILLEGAL_ADDRESS) };
        // SAFETY: both ranges are held.
        unsafe { copy(from, to, bytes) };
        Ok(())
    });
}

/// # Safety
/// `source` is readable for `bytes` bytes: during the call if pageable, until the stream has passed if pinned.
pub unsafe fn host_to_device(to: u64, source: *const c_void, bytes: usize, stream: *mut c_void) -> Outcome {
    let queue = queue(stream)?;
    must_be_known(to, bytes, Access::Write, true)?;
    let from = source as usize as u64;
    if bytes > 0 && source.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    if hold(from, bytes as u64, Access::Read, false).is_some() {
        enqueue_copy(&queue, from, to, bytes, true);
    } else {
        let mut staged = vec![0_u8; bytes];
        // SAFETY: readable during the call, by the caller's promise; the buffer is ours and as long.
        unsafe { copy(from, staged.as_mut_ptr() as usize as u64, bytes) };
        queue.enqueue(move |_| {
            let Some(_to) = hold(to, bytes as u64, Access::Write, true) else {
                return Err(Code::ILLEGAL_ADDRESS);
            };
            // SAFETY: the destination is held, the source is ours.
            unsafe { copy(staged.as_ptr() as usize as u64, to, bytes) };
            Ok(())
        });
    }
    Ok(())
}

/// # Safety
/// `destination` is writable for `bytes` bytes: during the call if pageable, until the stream has passed if pinned.
pub unsafe fn device_to_host(
    destination: *mut c_void,
    from: u64,
    bytes: usize,
    stream: *mut c_void,
) -> Outcome {
    let queue = queue(stream)?;
    must_be_known(from, bytes, Access::Read, false)?;
    let to = destination as usize as u64;
    if bytes > 0 && destination.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    if hold(to, bytes as u64, Access::Write, false).is_some() {
        enqueue_copy(&queue, from, to, bytes, false);
        return Ok(());
    }
    // Uses a separate buffer: if the context is lost this call returns while the operation may still run.
    let staging = Arc::new(Mutex::new(vec![0_u8; bytes]));
    let filled = staging.clone();
    let operation = queue.enqueue(move |_| {
        let Some(_from) = hold(from, bytes as u64, Access::Read, false) else {
            return Err(Code::ILLEGAL_ADDRESS);
        };
        // SAFETY: the source is held, the buffer is ours and as long.
        unsafe { copy(from, lock(&filled).as_mut_ptr() as usize as u64, bytes) };
        Ok(())
    });
    queue.wait_for(operation)?;
    // SAFETY: the destination is writable during this call, by the caller's promise.
    unsafe { copy(lock(&staging).as_ptr() as usize as u64, to, bytes) };
    Ok(())
}

pub fn device_to_device(to: u64, from: u64, bytes: usize, stream: *mut c_void) -> Outcome {
    let queue = queue(stream)?;
    must_be_known(to, bytes, Access::Write, false)?;
    must_be_known(from, bytes, Access::Read, false)?;
    enqueue_copy(&queue, from, to, bytes, false);
    Ok(())
}

pub fn fill(to: u64, value: u8, bytes: usize, stream: *mut c_void) -> Outcome {
    let queue = queue(stream)?;
    must_be_known(to, bytes, Access::Write, false)?;
    queue.enqueue(move |_| {
        let Some(_to) = hold(to, bytes as u64, Access::Write, false) else {
            return Err(Code::ILLEGAL_ADDRESS);
        };
        // SAFETY: the range is held.
        unsafe { (to as usize as *mut u8).write_bytes(value, bytes) };
        Ok(())
    });
    Ok(())
}
