//! The threads of libtorch.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};
use std::thread;

use rustix::process::{Resource, getrlimit};

use crate::TrainError;

/// Bytes of a thread's stack if the system sets no limit (glibc).
const UNLIMITED_STACK: u64 = 2 << 20;

/// Checks that the system permits this many threads of libtorch, the caller's among them. libtorch waits indefinitely
/// for a thread of its pool that could not be started (`pthreadpool_create`), so as many are started here first, all at
/// the same time and with stacks of the same size.
///
/// # Errors
/// [`TrainError::Threads`].
pub(crate) fn check(threads: usize) -> Result<(), TrainError> {
    static PERMITTED: AtomicUsize = AtomicUsize::new(1);
    // Relaxed, here and below: the number orders nothing; a second check would do no harm.
    if threads > PERMITTED.load(Ordering::Relaxed) {
        start(threads - 1).map_err(|source| TrainError::Threads { threads, source })?;
        PERMITTED.fetch_max(threads, Ordering::Relaxed);
    }
    Ok(())
}

/// Starts threads that wait until the last one is started, or one is refused.
fn start(count: usize) -> io::Result<()> {
    let stack = getrlimit(Resource::Stack).current.unwrap_or(UNLIMITED_STACK) as usize;
    let gate = RwLock::new(());
    thread::scope(|scope| {
        let _closed = gate.write().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..count {
            thread::Builder::new().stack_size(stack).spawn_scoped(scope, || drop(gate.read()))?;
        }
        Ok(())
    })
}
