//! Reading of table rows from files without mapping them.
//!
//! [`RowFile`] reads single rows of one table: each page once, in the order of the file. [`RunFiles`] reads runs of
//! rows of several tables in parallel. Both count the bytes read. [`AheadReader`] reads rows on a thread, concurrently
//! with its caller. [`WatchedFiles`] and [`RetryCounts`] are for readers outside of this crate. All use one of three
//! readers of byte ranges, by default the first that the system supports:
//!
//! | reader | reads | needs |
//! |---|---|---|
//! | [`Uring`](ReaderKind::Uring) | `O_DIRECT`, many reads under way from one thread, registered file and buffers | io_uring, and a file system with `O_DIRECT` |
//! | [`Pread`](ReaderKind::Pread) | `O_DIRECT` where the file system has it, else the page cache; one read a thread | threads |
//! | [`Mmap`](ReaderKind::Mmap) | the mapped file, copied by the kernel | nothing else |
//!
//! Invariants:
//!
//! - A delivered row is complete and equal to that of the file. Short and interrupted reads are continued.
//! - A file that was truncated, changed or replaced since it was opened is an error with the file's name. No reader
//!   gets SIGBUS, since mapped pages are only accessed by the kernel.
//! - When a read returns, no part of it is in flight, so the kernel no longer writes to a buffer.
//!
//! This crate must not depend on the meaning of rows, graphs, batches or processes.

#![deny(unsafe_op_in_unsafe_fn)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod error;
mod extent;
mod files;
mod kind;
mod readers;
mod shape;
mod tables;
#[cfg(test)]
mod tests;

pub use error::DiskError;
pub use extent::Extent;
pub use files::progress::RetryCounts;
pub use files::watch::WatchedFiles;
pub use kind::ReaderKind;
pub use readers::reader::RangeReader;
pub use readers::uring::io_uring_refusal;
pub use shape::TableShape;
pub use tables::read_ahead::{AheadReader, AheadResult, AheadRow};
pub use tables::row_file::{DiskReads, RowFile};
pub use tables::run_files::RunFiles;
