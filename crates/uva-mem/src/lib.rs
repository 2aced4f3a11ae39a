//! Memory that processes share, and the protocol by which they hand it to each other.
//!
//! [Files](files) are opened and replaced here, with no trust in what others put in their place.
//!
//! This crate owns every `unsafe` that host memory needs: [mapped files](MappedFile), [writable mappings of
//! them](PrivateFile), [shared regions](SharedRegion) (sealed memfds), [bytes that are written once](FrozenBytes), [pages](ZeroedPages) for random reads, the
//! [hand-over](handover) of their file descriptors between processes, [pidfds](pidfd), what a child must do [between
//! fork and exec](spawn), and the [ring of slots](ring) through which batches flow.
//!
//! It must not know what a graph, a batch or a GPU is: a slot's payload is bytes, a batch is a sequence number.
//! Linux only: memfd, futex, pidfd and `SCM_RIGHTS` are what it is made of.

#![deny(unsafe_op_in_unsafe_fn)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod control;
pub mod files;
pub mod frozen;
pub mod handover;
pub mod mapped_file;
mod mix;
pub mod pidfd;
pub mod region;
pub mod ring;
pub mod spawn;
mod zeroed_pages;

pub use control::ControlPage;
pub use frozen::FrozenBytes;
pub use mapped_file::{MappedFile, PrivateFile};
pub use mix::mix;
pub use pidfd::PidFd;
pub use region::{PageKind, Pages, RegionError, SharedRegion};
pub use rustix::process::Signal;
pub use zeroed_pages::{PageSize, ZeroedPages};
