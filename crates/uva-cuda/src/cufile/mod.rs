//! Reads of files into device memory, by NVIDIA's cuFile (GPUDirect Storage).
//!
//! | type | what it is |
//! |---|---|
//! | [`Cufile`] | the library's driver, open |
//! | [`CufileFile`] | an open file registered with the driver |
//! | [`CufileBuffer`] | device memory as the destination of reads, registered with the driver if supported |
//!
//! If the kernel module `nvidia-fs` is missing, the library reads into host memory and copies that to the device: its
//! compatibility mode. [`Cufile::compatibility`] reports it.
//!
//! Nothing links to the library: it is opened on first use. A context of the device must exist before the driver is
//! opened, until it is closed.

mod driver;
mod file;
mod library;
mod status;

pub use driver::Cufile;
pub use file::{CufileBuffer, CufileFile, ReadFault};
