//! Memory shared by processes, and the protocol that hands it over.
//!
//! [`files`] opens and replaces files at untrusted paths.
//!
//! This crate has all `unsafe` code for host memory:
//!
//! - [mapped files](MappedFile), and [writable mappings of them](PrivateFile); a program may [end with the file's
//!   name](end_with_the_files_name) if a mapped file is truncated
//! - [shared regions](SharedRegion) (sealed memfds), and [bytes written once](FrozenBytes)
//! - [pages](ZeroedPages) for random reads
//! - the [end of a process that runs out of memory](out_of_memory), with a message
//! - the [end](end_at_once) of a process without destructors of libraries
//! - the [hand-over](handover) of file descriptors between processes, and [pidfds](pidfd)
//! - [spawning](spawn): the code between fork and exec
//! - the [ring of slots](ring) through which batches flow
//!
//! The crate must not depend on graphs, batches or GPUs: a slot's payload is bytes, and a batch is a sequence number.
//! Linux only: it is built on memfd, futex, pidfd and `SCM_RIGHTS`.

#![deny(unsafe_op_in_unsafe_fn)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod files;
mod mapping;
mod memory;
mod mix;
mod process;
pub mod ring;

pub use mapping::file_pages::FileInMemory;
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
