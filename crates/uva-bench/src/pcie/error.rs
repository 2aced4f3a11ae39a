//! Failures of a measurement.

use uva_cuda::{CudaError, ErrorKind};
use uva_rows::GatherError;
use uva_rows::cuda::FillError;

/// The reason why there is no figure.
#[derive(Debug, thiserror::Error)]
pub enum PcieError {
    /// A call of the driver failed.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// A source of rows failed.
    #[error(transparent)]
    Fill(#[from] FillError),
    /// The CPU's gather failed.
    #[error(transparent)]
    Gather(#[from] GatherError),
    /// Row bytes on the device are not the table's.
    #[error("{what}: row {position} of the output is not row {id} of the table, from its byte {byte} on")]
    Wrong {
        /// The gather.
        what: String,
        /// The row of the output.
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
    /// A gather's report shows that it did not run as requested.
    #[error("{0}")]
    Report(String),
    /// A cell that cannot be measured as requested.
    #[error("{0}")]
    Refused(String),
}

impl PcieError {
    /// The kind of the error, for callers.
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

    /// Whether the driver only refused the call, so that everything else still works: not a fault on the device.
    pub(super) fn is_refusal(&self) -> bool {
        // Codes from 700 on are lost launches and contexts; 800 and 801 are refusals again.
        matches!(self, Self::Cuda(error) if error.code().is_some_and(|code| code < 700 || (800..=801).contains(&code)))
    }

    /// Whether this machine lacks what one cell requires, but may still run the others.
    pub(super) fn is_a_lack(&self) -> bool {
        match self {
            Self::Refused(_) | Self::Cuda(CudaError::System(_)) => true,
            Self::Cuda(error) => matches!(error.kind(), ErrorKind::Missing | ErrorKind::Usage),
            _ => false,
        }
    }
}
