//! Sources of rows: rows of a table, selected by id, written contiguously to host or device memory.
//!
//! A row is opaque bytes, at least one (or half-precision values, which may be widened); an id is its position in the
//! table. Every source keeps the contract of [`RowSource`]; the `conformance` module (behind the feature of that name)
//! checks it. [`MappedTable`], [`FileTable`] and [`Remote`] read on the CPU, those in [`cuda`] on a GPU; building them
//! does not require CUDA. [`Cached`], [`cuda::SplitSource`], [`WideningSource`], [`SummingSource`] and
//! [`cuda::StagingSource`] wrap sources. [`cache`] has the decisions of caches.
//!
//! This crate must not depend on the meaning of rows, the origin of tables, or the hand-over of slots. Next: `uva-ops`
//! (the loops), `uva-disk` (reads of files), `uva-exchange` (rows of other ranks), `uva-cuda` (the kernels).

#![deny(unsafe_op_in_unsafe_fn)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod cache;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod cuda;
mod error;
mod host;
mod source;
mod stack;

pub use cache::Hits;
pub use error::GatherError;
pub use host::{
    BeginPlace, CachedRows, CopiedTable, EvictingRows, FileTable, HostPlace, HostSource, HostTable,
    InitialRows, InitialValues, KeptRows, LOOK_AHEAD_MOST, LookAheadTable, MappedTable, PartialSumBytes,
    PartialSums, Reduction, Remote, RemoteCounts, RowCache, SumBeginner, SumPlace, SumSource, TASK_BYTES,
    TableSource, TrainedError, TrainedRows, divide, gather_pool, kept_row_bytes, read_rows,
};
pub use source::{Place, RowOrigin, RowSource, RowsRead, Ticket};
pub use stack::{Cached, SummedValues, SummingSource, WideningSource};
pub use uva_disk::{DiskError, DiskReads};
pub use uva_exchange::{Book, BookError, Exchange, ExchangeError};
pub use uva_ops::rows::{NarrowFloat, RowCopy};
