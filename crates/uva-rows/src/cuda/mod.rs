//! The gather on a GPU: rows of a pinned table, read by the device itself, copied to it, or both.
//!
//! [`CudaGather`] keeps the contract of [`RowGather`](crate::RowGather) and waits for each gather: for the conformance
//! checks and for benches. [`SlotFiller`] is what a producer uses: it fills slots of device memory one after another
//! and waits for nothing. [`SlotReader`] is the other side of such slots, a consumer's.
//!
//! | mode | who reads the table | what it costs |
//! |---|---|---|
//! | [`GatherMode::ZeroCopy`] | multiprocessors, over the link | a share of the multiprocessors |
//! | [`GatherMode::Dma`] | the CPU, into staging buffers that a copy engine takes over the link | CPU threads and memory bandwidth |
//! | [`GatherMode::Split`] | both, a share of the rows each | both |
//!
//! With [`GatherMode::ZeroCopy`] rows may be cached on the device: [`DeviceCache`].

mod balance;
mod cache;
mod copy_path;
mod filler;
mod gather;
mod slot;
mod slot_reader;
mod table;
mod upload;

pub use balance::{Balance, Measured};
pub use cache::DeviceCache;
pub use copy_path::CopyPath;
pub use filler::{Fill, FillError, FillOptions, GatherMode, SlotFiller};
pub use gather::CudaGather;
pub use slot::SlotShape;
pub use slot_reader::SlotReader;
pub use table::{DeviceTable, GatherTable};
pub use uva_cuda::kernels::gather::{GridBound, Kernel};

/// The grid of a gather that was given so many multiprocessors, or all.
fn grid(multiprocessors: Option<u32>) -> GridBound {
    multiprocessors.map_or(GridBound::Device, GridBound::Multiprocessors)
}
