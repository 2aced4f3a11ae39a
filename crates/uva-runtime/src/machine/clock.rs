//! The clock for all times of a run.

use std::time::Duration;

/// The time since an arbitrary moment, by a monotonic clock that all processes of the machine share and that is never
/// set.
pub fn since_boot() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}
