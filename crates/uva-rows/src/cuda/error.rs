//! Failures of the sources of device memory.

use uva_cuda::{CudaError, ErrorKind};
use uva_options::ByteSize;

use crate::error::GatherError;

/// Why a slot was not filled.
#[derive(Debug, thiserror::Error)]
pub enum FillError {
    /// Slots, arrays, ids or features have an invalid place.
    #[error("a slot cannot be filled so: {0}")]
    Layout(String),
    /// An id is no row of the table, found by the CPU before anything was enqueued.
    #[error(transparent)]
    Rows(#[from] GatherError),
    /// The device has no room for a cache of rows.
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
        /// Bytes of them.
        bytes: u64,
        /// Bytes of the slot map.
        map_bytes: u64,
        /// Bytes of device memory that were free.
        free: u64,
        /// Bytes of device memory in all.
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
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Cuda(error) => error.kind(),
            Self::CacheTooLarge { .. } => ErrorKind::Missing,
            Self::Layout(_) | Self::Rows(_) | Self::Broken(_) => ErrorKind::Failed,
        }
    }
}
