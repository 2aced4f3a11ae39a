//! The extent of a measurement.

use std::time::Duration;

use uva_cuda::memory::PreflightPolicy;

use super::sweep::Sweep;

/// What to measure, and how thoroughly.
#[derive(Clone, Debug)]
pub struct PcieOptions {
    /// The cells.
    pub sweep: Sweep,
    /// Bytes of a sample at most; gathers on few multiprocessors take fewer. At least one row.
    pub sample_bytes: usize,
    /// Samples of a figure: 3…100, so that all that is enqueued fits into a held stream.
    pub samples: usize,
    /// Threads of the CPU's gather.
    pub threads: usize,
    /// Whether the paths with the CPU are measured too.
    pub ways: bool,
    /// Cells that this time does not suffice for are left out.
    pub limit: Option<Duration>,
    /// The policy for a table that seems too large for memory. A refused table is left out.
    pub preflight: PreflightPolicy,
}
