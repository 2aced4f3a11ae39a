//! Pieces of sources: text, arrays and streams of them, values and their conversion, pickled objects.

pub(crate) mod edge_lines;
pub(crate) mod features;
pub(crate) mod nodes;
pub(crate) mod pickle;
pub(crate) mod scipy;
pub(crate) mod stream;
pub(crate) mod text;
pub(crate) mod unread_parts;
pub(crate) mod values;
