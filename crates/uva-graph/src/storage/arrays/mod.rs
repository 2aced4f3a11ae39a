//! The arrays of one node type and of one relation: where they are, their types and shapes.

pub(crate) mod label_array;
pub(crate) mod node_files;
pub(crate) mod place;
pub(crate) mod relation_files;
