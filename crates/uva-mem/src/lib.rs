//! Memory that processes share, and the protocol by which they hand it to each other.
#![deny(unsafe_op_in_unsafe_fn)]
pub mod mapped_file;
pub use mapped_file::MappedFile;
