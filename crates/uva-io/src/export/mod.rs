//! Conversion of datasets into other programs' formats: one file and one row of [`EXPORTERS`] per format.
//!
//! An export can be imported again and gives the same files; the tests check that for every exporter. Losses are
//! reported before anything is written. Like an import, an export writes under a temporary name and renames at the end.

mod export_files;
mod exporter;
mod exporters;
mod graphbolt_types;
mod losses;
mod to_edgelist;
mod to_graphbolt;
mod to_npy;
mod typed_export;

pub use self::export_files::ExportOptions;
pub use self::exporter::Exporter;
pub use self::exporters::{EXPORTERS, exporter};
