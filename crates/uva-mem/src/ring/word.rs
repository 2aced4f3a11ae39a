//! The one kind of memory that the protocol uses: a 32-bit atomic word that a thread can wait on.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::thread::futex;

/// A 32-bit atomic on which one side can sleep until the other has changed it.
///
/// The protocol is generic over it, so that loom checks the same code that runs on shared memory.
pub trait Word {
    /// As [`AtomicU32::load`].
    fn load(&self, order: Ordering) -> u32;
    /// As [`AtomicU32::store`].
    fn store(&self, value: u32, order: Ordering);
    /// As [`AtomicU32::compare_exchange`].
    ///
    /// # Errors
    /// The value found, if it was not `current`.
    fn compare_exchange(
        &self,
        current: u32,
        new: u32,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u32, u32>;
    /// Sleeps while the word is `expected`, until [`Word::wake_all`] or for `timeout`. May wake up spuriously. Must not
    /// sleep if the word changed from `expected` before the call and the `wake_all` for that change is over.
    fn wait(&self, expected: u32, timeout: Duration);
    /// Wakes all sleepers on this word, in this process and others.
    fn wake_all(&self);
    /// One iteration of a spin loop.
    fn spin(&self) {
        std::hint::spin_loop();
    }
}

/// A word in shared memory; sleeps and wakes by futex.
#[repr(transparent)]
#[derive(Debug, Default)]
pub struct SharedWord(AtomicU32);

impl Word for SharedWord {
    fn load(&self, order: Ordering) -> u32 {
        self.0.load(order)
    }

    fn store(&self, value: u32, order: Ordering) {
        self.0.store(value, order);
    }

    fn compare_exchange(
        &self,
        current: u32,
        new: u32,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u32, u32> {
        self.0.compare_exchange(current, new, success, failure)
    }

    fn wait(&self, expected: u32, timeout: Duration) {
        let timeout = futex::Timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        // Without PRIVATE, since the other side is another process. Every outcome (woken, changed before, timed out,
        // interrupted by a signal) means the same to the caller: poll again.
        let _ = futex::wait(&self.0, futex::Flags::empty(), expected, Some(&timeout));
    }

    fn wake_all(&self) {
        // Fails on invalid arguments only, and these are constant.
        let _ = futex::wake(&self.0, futex::Flags::empty(), i32::MAX as u32);
    }
}
