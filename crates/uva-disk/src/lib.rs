//! Rows of tables, read from their files without mapping them.
//!
//! [`RowFile`] reads single rows of one table: each page once, in the order of the file. [`RunFiles`] reads runs of rows of
//! several tables side by side. Both say how many bytes that took. [`AheadReader`] has a thread read rows while its
//! caller does something else. [`WatchedFiles`] and [`RetryCounts`] are for a reader of somebody else's. Below the others,
//! one of three readers of byte ranges works. The first that the system allows is taken:
//!
//! | reader | reads | needs |
//! |---|---|---|
//! | [`Uring`](ReaderKind::Uring) | `O_DIRECT`, many reads under way from one thread, registered file and buffers | io_uring, and a file system with `O_DIRECT` |
//! | [`Pread`](ReaderKind::Pread) | `O_DIRECT` where the file system has it, else the page cache; one read a thread | threads |
//! | [`Mmap`](ReaderKind::Mmap) | the mapped file, copied by the kernel | nothing else |
//!
//! Invariants:
//!
//! - A row handed over is whole and that of the file. Short reads and interrupted ones are read on.
//! - A file that was truncated, changed or replaced since it was opened is an error with the file's name. No reader gets
//!   SIGBUS, since none touches mapped pages itself.
//! - When a read returns, nothing of it is under way: no kernel writes to a buffer then.
//!
//! This crate must not know what a row means, nor graphs, batches and processes.

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
