//! Datasets made from other programs' files: one file and one row of [`IMPORTERS`] per format.
//!
//! All importers work alike. The sizes stated by the source make an [`ImportEstimate`], which is reported to the caller
//! first. Edges go through a builder of bounded memory, everything else from the source to its file in pieces. An
//! import writes beside its final name and renames at the end, so that a failed one leaves nothing.

mod csv;
mod edgelist;
mod features;
mod gnn_npz;
mod graphbolt;
mod igb;
mod importer;
mod importers;
mod left_out;
mod nodes;
mod npy;
mod numbering;
mod ogb;
mod options;
mod output;
#[cfg(feature = "parquet")]
mod parquet;
mod pickle;
mod planetoid;
mod read_speed;
mod request;
mod scipy;
mod split;
mod stream;
mod tables;
mod text;
mod values;

pub use self::importer::Importer;
pub use self::importers::{IMPORTERS, importer};
pub(crate) use self::numbering::{check_ids, check_names};
pub use self::options::{
    DEFAULT_MEMORY, EdgeList, Extra, Float8, Ids, ImportOptions, Separator, TableColumns, ThirdColumn,
};
pub use self::request::{ImportEstimate, ImportWatch};
pub use self::split::SplitRule;
