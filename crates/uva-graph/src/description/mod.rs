//! What a dataset says of itself: element types, metadata, names of files, schema, splits, and where it was cut from.

pub(crate) mod element;
pub(crate) mod feature_element;
pub mod meta;
pub mod names;
pub(crate) mod part_of;
pub(crate) mod ranges_of;
pub(crate) mod schema;
pub(crate) mod split;
pub(crate) mod summary;
