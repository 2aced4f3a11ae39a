//! A group whose ranks are threads, under a watchdog.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::exchange::Exchange;

/// Creates a group of this many ranks, by rank. A silent rank must be noticed within a few seconds.
pub type Make<'f> = dyn Fn(usize) -> Vec<Box<dyn Exchange>> + 'f;

/// How long a check may take.
const WATCHDOG: Duration = Duration::from_secs(60);

/// Runs `body` for each rank on a separate thread, and returns the results, by rank.
///
/// A check that hangs ends the process: waiting threads cannot be ended individually.
///
/// # Panics
/// If a body panics.
pub fn in_threads<R: Send>(
    group: Vec<Box<dyn Exchange>>,
    body: impl Fn(usize, Box<dyn Exchange>) -> R + Sync,
) -> Vec<R> {
    let (sender, ended) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let rank = |(rank, exchange): (usize, Box<dyn Exchange>)| {
            // The clone is dropped when the thread ends, also by a panic.
            let sender = sender.clone();
            let body = &body;
            scope.spawn(move || {
                let _sender = sender;
                body(rank, exchange)
            })
        };
        let threads: Vec<_> = group.into_iter().enumerate().map(rank).collect();
        drop(sender);
        if ended.recv_timeout(WATCHDOG) == Err(RecvTimeoutError::Timeout) {
            eprintln!("a rank still waits after {WATCHDOG:?}: no call of an exchange may wait without end");
            std::process::abort();
        }
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}
