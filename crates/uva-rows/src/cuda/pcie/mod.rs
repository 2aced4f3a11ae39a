//! How fast rows of pinned host memory get onto the device, next to what the link itself does in the same run.
//!
//! By nvbandwidth's method: everything that is timed is enqueued behind a kernel that holds the stream, after a
//! warm-up; events stand around each sample; medians count; and what was moved is compared with a plain loop
//! afterwards, so that a figure for wrong bytes is an error. No two samples gather the same rows. A rate is row bytes
//! delivered ÷ time: the launches before and after the rows' kernel are part of a gather and of its time.

mod bench;
mod engine;
mod hold;
mod ids;
mod paths;
mod report;
mod run;
mod sweep;
mod table;
mod verify;

pub use engine::{CopyEngine, CopySize};
pub use ids::{IdOrder, check_sum};
pub use paths::{Way, WayFigure};
pub use report::{CellFigure, DeviceFacts, Goal, KernelReport, Model, PcieReport, Skipped};
pub use run::{PcieOptions, Progress, measure};
pub use sweep::{Cell, MOST_CELLS, MULTIPROCESSORS, Partition, ROW_BYTES, Sweep};
pub use table::{TablePages, TableReport};
pub use verify::verify_rows;

use uva_cuda::{CudaError, ErrorKind};

use crate::GatherError;
use crate::cuda::FillError;

/// Why there is no figure.
#[derive(Debug, thiserror::Error)]
pub enum PcieError {
    /// A call of the driver failed.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// The CPU's gather failed.
    #[error(transparent)]
    Fill(#[from] FillError),
    /// The same.
    #[error(transparent)]
    Gather(#[from] GatherError),
    /// Row bytes on the device are not the table's.
    #[error("{what}: row {position} of the output is not row {id} of the table, from its byte {byte} on")]
    Wrong {
        /// The gather.
        what: String,
        /// Which row of the output.
        position: usize,
        /// The row of the table that it should be.
        id: i64,
        /// The first byte of the row that differs.
        byte: usize,
    },
    /// Copied bytes on the device are not those that were sent.
    #[error("{what}: byte {position} is not the one that was copied")]
    WrongBytes {
        /// The copy.
        what: String,
        /// The first byte that differs.
        position: usize,
    },
    /// A gather's report says that it did not run as it was asked to.
    #[error("{0}")]
    Report(String),
    /// A cell that cannot be measured as it was asked for.
    #[error("{0}")]
    Refused(String),
}

impl PcieError {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Cuda(error) => error.kind(),
            Self::Fill(error) => error.kind(),
            Self::Refused(_) => ErrorKind::Usage,
            Self::Gather(_) | Self::Wrong { .. } | Self::WrongBytes { .. } | Self::Report(_) => {
                ErrorKind::Failed
            }
        }
    }

    /// Whether it is a refusal of the driver's after which everything goes on as before: no fault on the device.
    fn is_refusal(&self) -> bool {
        // From 700 on the codes are those of launches and contexts that are lost; 800 and 801 are refusals again.
        matches!(self, Self::Cuda(error) if error.code().is_some_and(|code| code < 700 || (800..=801).contains(&code)))
    }

    /// Whether this machine cannot do what one cell needs, and may yet do the others.
    fn is_a_lack(&self) -> bool {
        match self {
            Self::Refused(_) | Self::Cuda(CudaError::System(_)) => true,
            Self::Cuda(error) => matches!(error.kind(), ErrorKind::Missing | ErrorKind::Usage),
            _ => false,
        }
    }
}

/// The middle of some numbers; 0 of none.
fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(0.0)
}

/// Compares bytes that came back with those that were sent; `from` is the place of the first.
fn check_bytes(what: &str, from: usize, expected: &[u8], found: &[u8]) -> Result<(), PcieError> {
    match expected.iter().zip(found).position(|(a, b)| a != b) {
        _ if expected == found => Ok(()),
        differs => {
            let position = from + differs.unwrap_or_else(|| expected.len().min(found.len()));
            Err(PcieError::WrongBytes { what: what.to_owned(), position })
        }
    }
}
