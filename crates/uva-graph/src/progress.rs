//! Work done a bounded piece at a time, with its progress told.

use std::ops::Range;

use crate::GraphError;

/// Bytes of output that one step holds in memory before it is written.
pub const STEP_BYTES: usize = 64 << 20;

/// How far a generator, an importer or a reordering is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// What is being done: `edges`, `features`, …
    pub stage: &'static str,
    /// Steps of this stage that are done.
    pub done: u64,
    /// Steps of this stage in all.
    pub total: u64,
}

/// Calls `work` for one run of 0..`total` after the other, each about [`STEP_BYTES`] of output where one of them takes
/// `bytes`, and reports progress.
pub fn in_steps(
    stage: &'static str,
    total: u64,
    bytes: usize,
    progress: &dyn Fn(Progress),
    mut work: impl FnMut(Range<u64>) -> Result<(), GraphError>,
) -> Result<(), GraphError> {
    // Runs depend on the sizes only, never on the threads; a run is never so long that nobody sees progress.
    let step = ((STEP_BYTES / bytes.max(1)) as u64).clamp(1, (total / 32).max(1024));
    let mut done = 0;
    progress(Progress { stage, done, total });
    while done < total {
        let end = (done + step).min(total);
        work(done..end)?;
        done = end;
        progress(Progress { stage, done, total });
    }
    Ok(())
}
