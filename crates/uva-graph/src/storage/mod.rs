//! The files of a dataset: opened, checked, seen as arrays, recognised again, and replaced.

pub(crate) mod directory;
pub(crate) mod files;
pub(crate) mod fingerprint;
pub(crate) mod graph_files;
pub mod node_file;
pub(crate) mod node_rows;
pub(crate) mod stamp;
pub mod verify;
pub mod views;
