//! Datasets made from other programs' files: one file and one row of [`IMPORTERS`] per format.
//!
//! All importers work the same way. The sizes stated by the source make an [`ImportEstimate`], which is reported to the
//! caller first. Edges go through a builder of bounded memory, everything else from the source to its file in pieces.
//! An import writes under a temporary name and renames at the end, so that a failed import leaves no files.

mod formats;
mod importer;
mod importers;
mod options;
mod reading;
mod request;
mod scoped;
mod split;
mod writing;

pub(crate) use self::formats::graphbolt::typed::{FEATURES_BY_ID, SEED_TIMES};
pub use self::importer::Importer;
pub use self::importers::{IMPORTERS, importer};
pub use self::options::{
    DEFAULT_MEMORY, EdgeList, Extra, Float8, Ids, ImportOptions, LabelTables, Literals, Separator,
    TableColumns, ThirdColumn,
};
pub use self::request::{ImportEstimate, ImportWatch};
pub use self::scoped::Scoped;
pub use self::split::SplitRule;
pub(crate) use self::writing::numbering::{check_ids, check_names};
