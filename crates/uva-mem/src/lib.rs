//! Memory that processes share, and the protocol by which they hand it over.
//!
//! [Files](files) are opened and replaced here, without trust in what others put in their place.
//!
//! This crate owns every `unsafe` that host memory needs:
//!
//! - [mapped files](MappedFile), and [writable mappings of them](PrivateFile); a program may
//!   [end by name](end_with_the_files_name) where one is made shorter
//! - [shared regions](SharedRegion) (sealed memfds), and [bytes that are written once](FrozenBytes)
//! - [pages](ZeroedPages) for random reads
//! - the [end of a process that gets no memory](out_of_memory), with a line that says so
//! - the [end](end_at_once) of a process without destructors of libraries
//! - the [hand-over](handover) of file descriptors between processes, and [pidfds](pidfd)
//! - what a child does [between fork and exec](spawn)
//! - the [ring of slots](ring) through which batches flow
//!
//! It must not know what a graph, a batch or a GPU is: a slot's payload is bytes, a batch is a sequence number. Linux
//! only: it is built on memfd, futex, pidfd and `SCM_RIGHTS`.

#![deny(unsafe_op_in_unsafe_fn)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod files;
mod mapping;
mod memory;
mod mix;
mod process;
pub mod ring;

pub use mapping::file_state::FileState;
pub use mapping::mapped_fault::end_with_the_files_name;
pub use mapping::mapped_file;
pub use mapping::mapped_file::{MappedFile, PrivateFile};
pub use memory::control::ControlPage;
pub use memory::frozen::FrozenBytes;
pub use memory::huge_share::huge_share;
pub use memory::region::{PageKind, Pages, RegionError, SharedRegion};
pub use memory::zeroed_pages::{PageSize, ZeroedPages};
pub use memory::{control, frozen, region};
pub use mix::mix;
pub use process::end::end_at_once;
pub use process::pidfd::PidFd;
pub use process::{handover, out_of_memory, pidfd, spawn};
pub use rustix::process::Signal;
pub use rustix::thread::CpuSet;
