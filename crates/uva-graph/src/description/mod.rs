//! Description of a dataset: element types, metadata, metagraph, file names, schema, splits, and the dataset that a part was cut
//! from.

pub mod edge_values;
pub(crate) mod element;
pub(crate) mod feature_element;
pub mod meta;
pub(crate) mod metagraph;
pub mod names;
pub(crate) mod part_of;
pub(crate) mod ranges_of;
pub(crate) mod schema;
pub(crate) mod split;
pub(crate) mod summary;
pub mod typed_meta;
