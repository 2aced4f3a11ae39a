//! Splits work into bounded steps and reports progress.

use std::ops::Range;

/// Bytes of output that one step holds in memory before it is written.
pub const STEP_BYTES: usize = 64 << 20;

/// The progress of a generator, an importer or a reordering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The current stage: `edges`, `features`, …
    pub stage: &'static str,
    /// Completed steps of this stage.
    pub done: u64,
    /// The number of steps of this stage.
    pub total: u64,
}

/// Calls `work` for consecutive runs of 0..`total` and reports progress. Each run produces about [`STEP_BYTES`] of
/// output, at `bytes` per item.
pub fn in_steps<E>(
    stage: &'static str,
    total: u64,
    bytes: usize,
    progress: &dyn Fn(Progress),
    mut work: impl FnMut(Range<u64>) -> Result<(), E>,
) -> Result<(), E> {
    // Runs depend on the sizes only, never on the number of threads. They are short enough for visible progress.
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
