//! Reads of files into device memory, by NVIDIA's cuFile (GPUDirect Storage).
//!
//! | type | what it is |
//! |---|---|
//! | [`Cufile`] | the library's driver, open |
//! | [`CufileFile`] | an open file that the driver knows |
//! | [`CufileBuffer`] | device memory that reads go to, registered with the driver where that works |
//!
//! Where the kernel module `nvidia-fs` is missing, the library reads into host memory and copies that to the device: its
//! compatibility mode. [`Cufile::compatibility`] tells.
//!
//! Nothing links to the library: it is opened on first use. A context of the device has to live before the driver is
//! opened, and until it is closed.

mod driver;
mod file;
mod library;
mod status;

pub use driver::Cufile;
pub use file::{CufileBuffer, CufileFile, ReadFault};
