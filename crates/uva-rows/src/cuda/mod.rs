//! Sources of rows in device memory.
//!
//! | source | reader of the table | costs |
//! |---|---|---|
//! | [`Pinned`] | multiprocessors, over the link (zero-copy) | a share of the multiprocessors |
//! | [`StagingSource`] | the CPU, into pinned pieces that a copy engine takes over the link (DMA) | CPU threads and memory bandwidth |
//! | [`Spliced`] | the CPU, as before, except for chosen rows on the device | device memory, and a kernel for all rows |
//! | [`SplitSource`] of [`Pinned`] and [`StagingSource`] | both, each with a share of the rows | both |
//! | [`DeviceRows`] | multiprocessors, from a copy of the table on the device | device memory |
//! | [`Cached`](crate::Cached) over [`Pinned`] | multiprocessors, rows of a [`DeviceCache`] on the device | device memory |
//!
//! [`DeviceTables`] and [`TableSet`] are not sources: a filler uses them to write rows of several tables into a slot, by
//! the same ids or by ids of each table. Neither is
//! [`DirectRuns`], which reads runs of rows of files into a slot, bypassing host memory. [`NoRows`] is the source of
//! fillers that only use such rows.
//!
//! [`SlotFiller`] is the producer's side of slots: it fills slots of device memory one after another without waiting.
//! [`SlotReader`] is the consumer's side. [`ReadBack`] waits for each fill and copies its rows to the host.

mod direct;
mod error;
mod place;
mod slots;
mod sources;
mod store;

pub use direct::{DirectRuns, try_direct_reads};
pub use error::FillError;
pub use place::{DevicePlace, DeviceSource};
pub use slots::filler::{
    BeginSums, BroughtRows, Fill, HostMadeRows, HostPartialSums, MakeRows, OnDevice, SlotFiller, SlotPlace,
};
pub use slots::oversized_batch::OversizedMemory;
pub use slots::read_back::ReadBack;
pub use slots::slot::SlotShape;
pub use slots::slot_reader::{SlotLease, SlotReader};
pub use slots::sums::SlotSums;
pub use sources::balance::{Balance, PathWork};
pub use sources::kernel_read::{DeviceRows, KernelRead, KernelTable, LanedCache, Pinned};
pub use sources::no_rows::NoRows;
pub use sources::splice::Spliced;
pub use sources::split::SplitSource;
pub use sources::staging::StagingSource;
pub use sources::table_set::{TablePlace, TableSet};
pub use store::cache::{DeviceCache, fill_joined};
pub use store::table::DeviceTable;
pub use store::tables::{DeviceTables, ReadRows};
pub use uva_cuda::kernels::gather::{BadId, GridBound, Kernel};
