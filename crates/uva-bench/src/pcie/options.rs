//! The extent of a measurement.

use std::time::Duration;

use uva_cuda::memory::PreflightPolicy;

use super::sweep::Sweep;

/// What to measure, and how thoroughly.
#[derive(Clone, Debug)]
pub struct PcieOptions {
    /// The cells.
    pub sweep: Sweep,
    /// The maximum number of bytes per sample, at least one row. Gathers on few multiprocessors use fewer.
    pub sample_bytes: usize,
    /// Samples per figure: 3…100, so that all enqueued work fits into a held stream.
    pub samples: usize,
    /// Threads of the CPU's gather.
    pub threads: usize,
    /// Whether the paths that use the CPU are measured as well.
    pub ways: bool,
    /// The time limit. Cells that do not fit into it are skipped.
    pub limit: Option<Duration>,
    /// The policy for a table that seems too large for memory. A refused table is skipped.
    pub preflight: PreflightPolicy,
}
