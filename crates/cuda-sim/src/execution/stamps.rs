//! Stream memory operations: a stream writes a word, or waits until the word has a value or a higher one.
//!
//! The word is memory of the device, so another process may write it. A wait whose writer has died never ends.

use std::ffi::{c_uint, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use uva_kernels::Access;

use crate::device_memory::ranges::hold;
use crate::execution::stream::queue;
use crate::machine::codes::{Code, Outcome};
use crate::machine::device::configured;
use crate::machine::settings::Feature;

const BYTES: u64 = 8;

/// The time that a waiting stream sleeps between checks, since other processes send no notification.
const LOOK: Duration = Duration::from_micros(50);

/// Runs `body` on the word, if it is memory of the device.
///
/// # Errors
/// `otherwise` if it is not.
fn with<T>(
    address: u64,
    access: Access,
    otherwise: Code,
    body: impl FnOnce(&AtomicU64) -> T,
) -> Result<T, Code> {
    let held = hold(address, BYTES, access, true).ok_or(otherwise)?;
    // SAFETY: eight bytes of device memory, held during the call, and aligned (`checked`). Memory of the device is
    // shared with others who reach this word through atomics or in stream order.
    let result = body(unsafe { AtomicU64::from_ptr(address as usize as *mut u64) });
    drop(held);
    Ok(result)
}

fn checked(address: u64, flags: c_uint) -> Outcome {
    configured()?.need(Feature::StreamMemoryOperations)?;
    // Only the default flags are modelled: a fenced write, and a wait for a value or a higher one.
    if flags != 0 || !address.is_multiple_of(BYTES) {
        return Err(Code::INVALID_VALUE);
    }
    with(address, Access::Read, Code::INVALID_VALUE, |_| ())
}

pub fn write(stream: *mut c_void, address: u64, value: u64, flags: c_uint) -> Outcome {
    checked(address, flags)?;
    queue(stream)?.enqueue(move |_| {
        // Release: a reader of the value sees all earlier work of the stream. Pairs with the load in `wait`.
        with(address, Access::Write, Code::ILLEGAL_ADDRESS, |word| word.store(value, Ordering::Release))
    });
    Ok(())
}

pub fn wait(stream: *mut c_void, address: u64, value: u64, flags: c_uint) -> Outcome {
    checked(address, flags)?;
    queue(stream)?.enqueue(move |queue| {
        let reached = |word: &AtomicU64| word.load(Ordering::Acquire).wrapping_sub(value) as i64 >= 0;
        while !with(address, Access::Read, Code::ILLEGAL_ADDRESS, reached)? {
            // The wait is given up only if the context has been lost, and no later work runs then.
            if queue.context.check().is_err() {
                return Ok(());
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    });
    Ok(())
}
