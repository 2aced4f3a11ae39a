//! A partition as files: the map of the nodes, its summary, the text of both, and checks of the parts written with it.

mod checks;
pub mod map;
pub(crate) mod parts;
pub(crate) mod range_book;
pub(crate) mod summary;
mod text;
