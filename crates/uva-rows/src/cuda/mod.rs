//! Sources of rows in device memory.
//!
//! | source | who reads the table | its costs |
//! |---|---|---|
//! | [`Pinned`] | multiprocessors, over the link (zero-copy) | a share of the multiprocessors |
//! | [`StagingSource`] | the CPU, into pinned pieces that a copy engine takes over the link (DMA) | CPU threads and memory bandwidth |
//! | [`Spliced`] | the CPU, as before, but for chosen rows that the device has | device memory, and a kernel for all rows |
//! | [`SplitSource`] of [`Pinned`] and [`StagingSource`] | both, a share of the rows each | both |
//! | [`DeviceRows`] | multiprocessors, from a copy of the table on the device | device memory |
//! | [`Cached`](crate::Cached) over [`Pinned`] | multiprocessors, rows of a [`DeviceCache`] on the device | device memory |
//!
//! [`DeviceTables`] is no source: a filler that has one writes rows of several tables into a slot. [`DirectRuns`] is none
//! either: it reads runs of rows of files into a slot, past the host's memory. [`NoRows`] is the source of
//! fillers whose slots get rows in such ways alone.
//!
//! [`SlotFiller`] is a producer's: it fills slots of device memory one after another and waits for nothing.
//! [`SlotReader`] is a consumer's side of such slots. [`ReadBack`] waits for each fill and copies its rows to the host.

mod aside;
mod balance;
mod cache;
mod continued;
mod direct;
mod error;
mod filler;
mod kernel_read;
mod no_rows;
mod place;
mod read_back;
mod slot;
mod slot_reader;
mod spliced;
mod split;
mod staged;
mod sums;
mod table;
mod tables;
mod upload;

pub use aside::OversizedMemory;
pub use balance::{Balance, PathWork};
pub use cache::{DeviceCache, fill_joined};
pub use direct::{DirectRuns, try_direct_reads};
pub use error::FillError;
pub use filler::{
    BeginSums, BroughtRows, Fill, HostMadeRows, HostPartialSums, MakeRows, OnDevice, SlotFiller, SlotPlace,
};
pub use kernel_read::{DeviceRows, KernelRead, KernelTable, LanedCache, Pinned};
pub use no_rows::NoRows;
pub use place::{DevicePlace, DeviceSource};
pub use read_back::ReadBack;
pub use slot::SlotShape;
pub use slot_reader::{SlotLease, SlotReader};
pub use spliced::Spliced;
pub use split::SplitSource;
pub use staged::StagingSource;
pub use sums::SlotSums;
pub use table::DeviceTable;
pub use tables::{DeviceTables, ReadRows};
pub use uva_cuda::kernels::gather::{GridBound, Kernel};
