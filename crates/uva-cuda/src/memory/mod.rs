//! Memory that a GPU reads: on the device, pinned on the host, and shared between processes.
//!
//! | type | memory | made by |
//! |---|---|---|
//! | [`DeviceBuffer`] | device memory of this process only | cuMemAlloc |
//! | [`SharedBuffer`] | device memory of several processes | cuMemCreate and a file descriptor, or cuMemAlloc and an IPC handle |
//! | [`JoinedMemory`] | of several devices, for a process on each | cuMemCreate on each of them, and file descriptors |
//! | [`PinnedBuffer`] | the host's, to copy from or for the device to read | cuMemHostAlloc |
//! | [`PinnedTable`] | a mapping that was there already, such as a file's, or a copy of it | cuMemHostRegister, cuMemHostAlloc |
//!
//! Each value frees its memory when it is dropped. Only the owner can know whether the device still uses it, so the
//! owner drops it after the enqueued work has run.

mod bytes;
mod copy;
mod device;
mod host_memory;
mod joint_memory;
mod lack;
mod mapping;
mod pages;
mod pinned_memory;
mod preflight;
mod registration;
mod shared_memory;
mod table;
mod table_copy;

pub use copy::{device_to_device, device_to_host, fill, host_to_device};
pub use device::DeviceBuffer;
pub use host_memory::{CgroupLimit, HostMemory};
pub use joint_memory::{JoinedMemory, Share};
pub use pages::PinPages;
pub use pinned_memory::PinnedBuffer;
pub use preflight::{PinRequest, PinWay, Preflight, PreflightError, PreflightPolicy, preflight};
pub use shared_memory::{Exported, IpcKind, SharedBuffer, SharedKind, SharedMetadata};
pub use table::{CHUNK_BYTES, PinHow, PinOptions, PinReport, PinnedTable, TableBytes};
