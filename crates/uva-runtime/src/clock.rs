//! The one clock that a run's times are of.

use std::time::Duration;

/// A clock that all processes of the machine share and nobody sets: since some moment of the past.
pub fn since_boot() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}
