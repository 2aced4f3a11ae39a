//! Errors of sources in device memory.

use uva_cuda::{CudaError, ErrorKind};
use uva_options::ByteSize;

use crate::error::GatherError;

/// Why a slot was not filled.
#[derive(Debug, thiserror::Error)]
pub enum FillError {
    /// The layout of slots, arrays, ids or features is invalid.
    #[error("a slot cannot be filled so: {0}")]
    Layout(String),
    /// An id is not a row of the table; detected by the CPU before work was enqueued.
    #[error(transparent)]
    Rows(#[from] GatherError),
    /// The device has too little memory for a cache of rows.
    #[error(
        "a cache of {rows} rows needs {} of the device ({} for the rows, {} for the slot of every row of the table), and {} \
         of its {} are free: give the caches fewer bytes",
        ByteSize::from_bytes(bytes.saturating_add(*map_bytes)),
        ByteSize::from_bytes(*bytes),
        ByteSize::from_bytes(*map_bytes),
        ByteSize::from_bytes(*free),
        ByteSize::from_bytes(*total)
    )]
    CacheTooLarge {
        /// Rows to be cached.
        rows: usize,
        /// Bytes of these rows.
        bytes: u64,
        /// Bytes of the slot map.
        map_bytes: u64,
        /// Bytes of device memory that are free.
        free: u64,
        /// Total bytes of device memory.
        total: u64,
    },
    /// A call of the driver failed.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// An earlier fill failed halfway, so the device's use of the slots is unknown.
    #[error("no slot can be filled any more since an earlier one failed: {0}")]
    Broken(String),
}

impl FillError {
    /// The kind of error, by its remedy.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Cuda(error) => error.kind(),
            Self::CacheTooLarge { .. } => ErrorKind::Missing,
            Self::Layout(_) | Self::Rows(_) | Self::Broken(_) => ErrorKind::Failed,
        }
    }
}
