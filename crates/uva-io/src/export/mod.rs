//! Datasets turned into what other programs read: one file and one row of [`EXPORTERS`] a format.
//!
//! An export can be imported again and gives the same files; the tests hold every exporter to that. Like an import, an
//! export writes beside its final name and renames at the end.

mod export_files;
mod exporter;
mod exporters;
mod to_edgelist;
mod to_graphbolt;
mod to_npy;

pub use self::export_files::ExportOptions;
pub use self::exporter::Exporter;
pub use self::exporters::{EXPORTERS, exporter};
