//! Usage of each device's memory.

use std::sync::Mutex;

use crate::machine::codes::{Code, Outcome};
use crate::machine::device::configured;
use crate::machine::registry::lock;

/// Bytes in use on each device by this process.
static USED: Mutex<Vec<u64>> = Mutex::new(Vec::new());

/// Bytes of a device in use.
pub fn of(device: usize) -> u64 {
    lock(&USED).get(device).copied().unwrap_or(0)
}

/// Counts `bytes` of a device as used.
///
/// # Errors
/// `CUDA_ERROR_OUT_OF_MEMORY` if that many are not free.
pub fn charge(device: usize, bytes: u64) -> Outcome {
    let total = configured()?.memory;
    let mut used = lock(&USED);
    if used.len() <= device {
        used.resize(device + 1, 0);
    }
    match used[device].checked_add(bytes).filter(|&sum| sum <= total) {
        Some(sum) => {
            used[device] = sum;
            Ok(())
        }
        None => Err(Code::OUT_OF_MEMORY),
    }
}

/// Counts `bytes` of a device as free again.
pub fn refund(device: usize, bytes: u64) {
    if let Some(used) = lock(&USED).get_mut(device) {
        *used = used.saturating_sub(bytes);
    }
}
