//! Threads that share the copies of a batch.

use std::sync::{Mutex, PoisonError};

use rayon::ThreadPool;

use crate::error::GatherError;

/// Bytes that a thread takes at a time. Large enough to hide the cost of handing out work (a few microseconds against
/// tens), small enough that threads end together.
pub const TASK_BYTES: usize = 256 << 10;

/// Creates a pool of `threads` threads; `None` for one, which is the caller's.
///
/// # Errors
/// If the threads cannot be spawned.
pub fn gather_pool(threads: usize) -> Result<Option<ThreadPool>, GatherError> {
    if threads < 2 {
        return Ok(None);
    }
    let pool =
        rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(|index| format!("gather-{index}"));
    let pool = pool.build().map_err(|error| GatherError::Threads { threads, reason: error.to_string() })?;
    Ok(Some(pool))
}

/// Runs the tasks on `threads` threads, the caller's among them. Each takes the next task when it has finished one.
pub fn divide<T>(
    pool: &ThreadPool,
    threads: usize,
    tasks: impl Iterator<Item = T> + Send,
    run: impl Fn(T) + Sync,
) {
    let tasks = Mutex::new(tasks);
    let take_part = || {
        // The lock is held only while the next task is determined.
        let next = || tasks.lock().unwrap_or_else(PoisonError::into_inner).next();
        while let Some(task) = next() {
            run(task);
        }
    };
    pool.in_place_scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|_| take_part());
        }
        // This thread starts work immediately: waking a sleeping thread may take as long as a whole task.
        take_part();
    });
}
