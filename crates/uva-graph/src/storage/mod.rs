//! The files of a dataset: opening, checks, views, fingerprints, stamps and replacement.

pub(crate) mod arrays;
pub(crate) mod directory;
pub(crate) mod files;
pub(crate) mod fingerprint;
pub(crate) mod graph_files;
pub mod node_file;
pub(crate) mod node_rows;
pub(crate) mod random_file;
pub(crate) mod stamp;
pub(crate) mod typed_directory;
pub(crate) mod verification;
pub mod verify;
pub mod views;
